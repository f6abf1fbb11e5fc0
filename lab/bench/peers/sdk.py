"""a2a-sdk's hello world with Mangum, without storage or keys."""

from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from mangum import Mangum
from starlette.applications import Starlette


class Hello(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_text_message("Hello World"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


CARD = AgentCard(
    name="Hello World Agent",
    description="Just a hello world agent",
    version="1.0.0",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[
        AgentInterface(url="http://127.0.0.1/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    skills=[AgentSkill(id="hello", name="Hello", description="says hello", tags=["hello"])],
)

HANDLER = DefaultRequestHandler(agent_executor=Hello(), task_store=InMemoryTaskStore(), agent_card=CARD)

app = Starlette(routes=[*create_agent_card_routes(CARD), *create_jsonrpc_routes(HANDLER, rpc_url="/")])

handler = Mangum(app, lifespan="off")
