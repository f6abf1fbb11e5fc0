"""Where a turn runs, decided once, before its claim is stored.

a durable skill                             EXECUTION
an agent with `background: true`, or a      WORKER, if the deployment has one
send with `returnImmediately`
else                                        REQUEST

A turn that runs in its request needs the agent here, so the message waits for the agent's import: see
IMPORT_WAIT_SECONDS.
"""

import asyncio
import logging

from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.catalog.agents import Agents, agent_of
from a2a_lambda.errors import Unavailable
from a2a_lambda.protocol.alibaba_metadata import intents
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.head import Place
from a2a_lambda.tasks.message_call import MessageCall

IMPORT_WAIT_SECONDS = 2.0
"""Seconds for which a message waits for its agent's import, before anything is stored. If the import fails
by then, the message is refused and nothing has changed. After that the turn waits, and the client gets
keep-alives."""

logger = logging.getLogger(__name__)


class Placement:
    """Chooses places among those that the dispatcher can reach."""

    def __init__(self, agents: Agents, dispatcher: Dispatcher) -> None:
        self._agents = agents
        self._dispatcher = dispatcher

    async def choose(self, call: MessageCall, request: SendMessageRequest, asker: str | None) -> Place:
        """Place of the turn that a message starts.

        asker: id of the skill whose question the message answers, or None. Raises Unavailable if the turn
        cannot run in its place: there is no durable function, or this process cannot import the agent.
        """
        profile = self._agents[call.namespace.agent]
        if durable_skills := profile.card.durable_skills:
            ids = {skill.id for skill in profile.card.all_skills}
            message_intents = intents(request["message"].get("metadata", {}))
            chosen_ids = [intent.skill for intent in message_intents if intent.skill in ids]
            skill_id = next(iter(chosen_ids), asker or profile.default_skill)
            # Without an id the agent's code chooses the skill, and it may choose a durable one.
            if not skill_id or skill_id in durable_skills:
                self.check_executions(profile.name)
                return Place.EXECUTION
        outlives_request = profile.card.background or call.asks_not_to_wait(request)
        if outlives_request and self._dispatcher.has_worker:
            return Place.WORKER
        agent_import = self._agents.start(call.namespace.agent)
        if not agent_import.done():
            await asyncio.wait({asyncio.wrap_future(agent_import)}, timeout=IMPORT_WAIT_SECONDS)
        if agent_import.done():
            agent_of(agent_import)
        return Place.REQUEST

    def check_executions(self, agent: str) -> None:
        """Raises Unavailable if there is no durable function for an agent's turns."""
        if not self._dispatcher.has_executions:
            logger.error("agent %s is durable: set ExecutionTimeout in samconfig.toml", agent)
            raise Unavailable("this deployment does not run this agent's long tasks")

    def is_long(self, agent: str, skill_id: str) -> bool:
        """Whether a turn of a skill may outlast its request, whether or not its client waits."""
        card = self._agents[agent].card
        return skill_id in card.durable_skills or (card.background and self._dispatcher.has_worker)

    def may_suspend(self, agent: str) -> bool:
        """Whether turns of an agent may be suspended: it has durable skills."""
        return bool(self._agents[agent].card.durable_skills)
