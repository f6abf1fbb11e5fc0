"""The kit's description of its HTTP API."""

import pytest

from a2a_lambda.protocol import model, requests
from tools.build import openapi


def test_the_file_is_as_the_types_say() -> None:
    """After a change, run .venv/bin/python -m tools.build.openapi."""
    assert openapi.PATH.read_text("utf-8") == openapi.openapi_json()


@pytest.mark.parametrize(
    ("described", "kit"),
    [
        (openapi.Part, model.Part),
        (openapi.Message, model.Message),
        (openapi.Artifact, model.Artifact),
        (openapi.TaskStatus, model.TaskStatus),
        (openapi.Task, model.Task),
        (openapi.TaskStatusUpdateEvent, model.TaskStatusUpdateEvent),
        (openapi.TaskArtifactUpdateEvent, model.TaskArtifactUpdateEvent),
        (openapi.TaskPushNotificationConfig, model.TaskPushNotificationConfig),
        (openapi.SendMessageConfiguration, requests.SendMessageConfiguration),
        (openapi.SendMessageResponse, requests.SendMessageResponse),
        (openapi.ListTasksResponse, requests.ListTasksResponse),
        (openapi.ListTaskPushNotificationConfigsResponse, requests.ListPushConfigsResponse),
    ],
)
def test_a_type_has_the_fields_of_the_kits_own(described: type, kit: type) -> None:
    assert described.__annotations__.keys() == kit.__annotations__.keys()
