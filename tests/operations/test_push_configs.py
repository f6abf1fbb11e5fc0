"""Ids of push notification configs, and how many a task may have."""

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.operations.push_configs import ID_BYTES, MAX_CONFIGS, with_ids
from a2a_lambda.protocol.model import TaskPushNotificationConfig, TaskState, status
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope

HOOK = "https://example.com/hook"


def head(*ids: str) -> Head:
    return Head(
        scope=Scope("o", "a"),
        task_id="t",
        context_id="c",
        generation="g",
        created=0.0,
        expires=1,
        status=status(TaskState.WORKING, 0),
        push_config_ids=ids,
    )


def test_a_config_without_an_id_gets_one() -> None:
    config, newer = with_ids(head("a"), TaskPushNotificationConfig(url=HOOK), "default")
    assert config == {"url": HOOK, "taskId": "t", "id": "default"}
    assert newer.push_config_ids == ("a", "default")


def test_a_config_that_is_set_again_is_one_config() -> None:
    full = head(*(f"c{number}" for number in range(MAX_CONFIGS)))
    config, newer = with_ids(full, TaskPushNotificationConfig(id="c3", url=HOOK), "default")
    assert config["id"] == "c3"
    assert newer == full


def test_a_task_has_so_many_configs_and_no_more() -> None:
    nearly = head(*(f"c{number}" for number in range(MAX_CONFIGS - 1)))
    _, full = with_ids(nearly, TaskPushNotificationConfig(id="last", url=HOOK), "")
    assert len(full.push_config_ids) == MAX_CONFIGS
    with pytest.raises(InvalidParams, match=f"at most {MAX_CONFIGS}"):
        with_ids(full, TaskPushNotificationConfig(id="more", url=HOOK), "")


def test_an_id_has_a_length() -> None:
    with_ids(head(), TaskPushNotificationConfig(id="x" * ID_BYTES, url=HOOK), "")
    with pytest.raises(InvalidParams, match=f"at most {ID_BYTES} bytes"):
        with_ids(head(), TaskPushNotificationConfig(id="é" * (ID_BYTES // 2 + 1), url=HOOK), "")
