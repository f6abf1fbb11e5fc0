"""A client that openapi-python-client made, in the folder CLIENT: client_openapi.py FOLDER URL KEY."""

import json
import sys
from http import HTTPStatus

folder, url, key = sys.argv[1:]
sys.path.insert(0, folder)

from generated import AuthenticatedClient  # noqa: E402
from generated.api.assistant import get_task, list_tasks, send_message  # noqa: E402
from generated.api.plain import send_message_plain  # noqa: E402
from generated.models import (  # noqa: E402
    AiCalculateArguments,
    Error,
    Message,
    MessageMetadata,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)

client = AuthenticatedClient(base_url=url, token=key)


def request(identity: str, part: Part, skill: str) -> SendMessageRequest:
    metadata = MessageMetadata.from_dict({"intentInfos": [{"intent": skill}]})
    message = Message(message_id=identity, role=Role.ROLE_USER, parts=[part], metadata=metadata)
    return SendMessageRequest(message=message)


arguments = AiCalculateArguments(num1=40, num2=2)
answer = send_message.sync(
    client=client, body=request("openapi-1", Part(data=arguments.to_dict()), "ai-calculate")
)
task = get_task.sync(answer.task.id, client=client)
assert task.status.state is TaskState.TASK_STATE_COMPLETED
listed = list_tasks.sync(client=client, page_size=5, status=TaskState.TASK_STATE_COMPLETED)
other = send_message_plain.sync(client=client, body=request("openapi-2", Part(text="hello"), ""))
unknown = get_task.sync_detailed("unknown", client=client)
assert isinstance(unknown.parsed, Error)
refused = list_tasks.sync_detailed(client=AuthenticatedClient(base_url=url, token="false"))
print(
    json.dumps(
        {
            "sum": task.artifacts[0].parts[0].text,
            "listed": listed.tasks[0].id == task.id,
            "other": other.task.status.state,
            "unknown": [unknown.status_code == HTTPStatus.NOT_FOUND, unknown.parsed.error.status],
            "refused": [refused.status_code, refused.parsed.error.status],
        }
    )
)
