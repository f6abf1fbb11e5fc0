"""Push notification configs: set, read and deleted, in every version, by their owner alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.errors import InvalidParams, TaskNotFound
from a2a_lambda.kit import Kit
from a2a_lambda.operations.push_configs import CONFIG_ID_BYTES, MAX_CONFIGS, with_ids
from a2a_lambda.protocol.model import TaskPushNotificationConfig
from a2a_lambda.protocol.requests import ListPushConfigsRequest, PushConfigRequest
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Head
from tests.conftest import new_key
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, message
from tests.store.heads import head_with_configs
from tests.turns.run_bench import RunBench, within

HOOK = "https://example.com/hook"


def configs(rest: Rest, task_id: str, query: str = "") -> Any:
    return rest.call("GET", f"tasks/{task_id}/pushNotificationConfigs{query}")


def test_1_0(rest: Rest, rpc: Rpc) -> None:
    task_id = rest.send()["id"]
    config = {
        "id": "a",
        "url": HOOK,
        "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "c"},
    }
    stored_config = rest.call("POST", f"tasks/{task_id}/pushNotificationConfigs", config)
    assert stored_config == {**config, "taskId": task_id}
    other = rpc.call("CreateTaskPushNotificationConfig", {"taskId": task_id, "id": "b", "url": HOOK})
    assert rpc.call("GetTaskPushNotificationConfig", {"task_id": task_id, "id": "b"}) == other
    assert configs(rest, task_id) == {"configs": [stored_config, other], "nextPageToken": ""}
    first = configs(rest, task_id, "?pageSize=1")
    assert first == {"configs": [stored_config], "nextPageToken": "a"}
    assert configs(rest, task_id, "?pageSize=1&pageToken=a") == {"configs": [other], "nextPageToken": ""}
    rest.call("DELETE", f"tasks/{task_id}/pushNotificationConfigs/b")
    missing_config = rest.ask("GET", f"tasks/{task_id}/pushNotificationConfigs/b")
    assert missing_config.status_code == 404, "not the other one"
    for _ in range(2):  # deleting is idempotent
        answer = rest.ask("DELETE", f"tasks/{task_id}/pushNotificationConfigs/a")
        assert (answer.status_code, answer.json()) == (200, {})
    assert rest.ask("GET", f"tasks/{task_id}/pushNotificationConfigs/a").status_code == 404
    assert rpc.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "a"}) is None
    assert configs(rest, task_id)["configs"] == []


def test_0_3(rpc: Rpc) -> None:
    task_id = rpc.send()["id"]
    config = {"url": HOOK, "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "c"}}
    stored_config = rpc.call(
        "tasks/pushNotificationConfig/set", {"taskId": task_id, "pushNotificationConfig": config}
    )
    assert stored_config["pushNotificationConfig"].items() >= config.items()
    assert stored_config["pushNotificationConfig"]["id"]
    assert rpc.call("tasks/pushNotificationConfig/get", {"id": task_id}) == stored_config
    params = {"id": task_id, "pushNotificationConfigId": stored_config["pushNotificationConfig"]["id"]}
    assert rpc.call("tasks/pushNotificationConfig/get", params) == stored_config
    by_task_id = {"id": task_id, "pushNotificationConfigId": task_id}  # as other servers name it
    assert rpc.call("tasks/pushNotificationConfig/get", by_task_id) == stored_config
    assert rpc.call("tasks/pushNotificationConfig/list", {"id": task_id}) == [stored_config]
    assert rpc.error("tasks/pushNotificationConfig/delete", {"id": task_id})["code"] == -32602
    other = {"taskId": task_id, "pushNotificationConfig": {**config, "id": "other"}}
    rpc.call("tasks/pushNotificationConfig/set", other)
    assert rpc.error("tasks/pushNotificationConfig/get", by_task_id)["code"] == -32001, "one of two"
    other_name = {"id": task_id, "pushNotificationConfigId": "other"}
    assert rpc.call("tasks/pushNotificationConfig/delete", other_name) is None
    assert rpc.call("tasks/pushNotificationConfig/delete", by_task_id) is None
    assert rpc.call("tasks/pushNotificationConfig/list", {"id": task_id}) == []


@pytest.mark.parametrize("config_id", ["a/b", ".", ".."])
def test_an_id_that_no_path_can_have_is_refused(rest: Rest, config_id: str) -> None:
    """A client of HTTP+JSON could not delete its config."""
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    answer = rest.ask("POST", path, {"id": config_id, "url": HOOK})
    assert (answer.status_code, "may not contain `/`" in answer.text) == (400, True)
    assert rest.call("GET", path)["configs"] == []


def test_a_client_without_ids_reads_the_config_that_it_has_set(rest: Rest, rpc: Rpc) -> None:
    task_id = rest.send()["id"]
    place = f"tasks/{task_id}/pushNotificationConfigs"
    rest.call("POST", place, {"id": "mine", "url": f"{HOOK}/1.0"})
    assert (
        rpc.call("tasks/pushNotification/get", {"id": task_id})["pushNotificationConfig"]["url"]
        == f"{HOOK}/1.0"
    )
    config = {"id": task_id, "pushNotificationConfig": {"url": f"{HOOK}/0.1"}}
    assert rpc.call("tasks/pushNotification/set", config)["pushNotificationConfig"]["url"] == f"{HOOK}/0.1"
    for method in ("tasks/pushNotification/get", "tasks/pushNotificationConfig/get"):
        assert rpc.call(method, {"id": task_id})["pushNotificationConfig"]["url"] == f"{HOOK}/0.1"


def test_a_repeated_message_brings_no_deleted_config_back(rest: Rest) -> None:
    """Nor is it refused, because others have taken the room."""
    body = {
        "message": message_1_0("hi"),
        "configuration": {"taskPushNotificationConfig": {"url": HOOK, "id": "first"}},
    }
    task = rest.call("POST", "message:send", body)["task"]
    place = f"tasks/{task['id']}/pushNotificationConfigs"
    rest.call("DELETE", f"{place}/first")
    ids = [f"other-{number}" for number in range(10)]
    for id_ in ids:
        rest.call("POST", place, {"id": id_, "url": HOOK})
    assert rest.call("POST", "message:send", body)["task"]["id"] == task["id"]
    assert {config["id"] for config in configs(rest, task["id"])["configs"]} == set(ids)


def test_a_config_comes_with_a_message(rest: Rest, rpc: Rpc) -> None:
    config = {"url": HOOK, "id": "mine"}
    task = rest.send(configuration={"taskPushNotificationConfig": config})
    assert configs(rest, task["id"])["configs"] == [{**config, "taskId": task["id"]}]
    params = {"message": message(), "configuration": {"pushNotificationConfig": config}}
    old = rpc.call("message/send", params)
    assert configs(rest, old["id"])["configs"] == [{**config, "taskId": old["id"]}]
    question = rest.send("question")
    rest.send("question", taskId=question["id"], configuration={"taskPushNotificationConfig": config})
    assert len(configs(rest, question["id"])["configs"]) == 1


def test_the_same_config_with_each_message_is_one_config(rest: Rest) -> None:
    """A client's library sends it with each, and need not give it an id."""
    options: Any = {"taskPushNotificationConfig": {"url": HOOK, "token": "t"}}
    question = rest.send("question", configuration=options)
    newer: Any = {"taskPushNotificationConfig": {"url": HOOK, "token": "newer"}}
    rest.send("question", taskId=question["id"], configuration=newer)
    [config] = configs(rest, question["id"])["configs"]
    assert config["token"] == "newer"
    other = {"taskPushNotificationConfig": {"url": f"{HOOK}/other", "token": "t"}}
    question = rest.send("question", configuration=options)
    rest.send("question", taskId=question["id"], configuration=other)
    assert len(configs(rest, question["id"])["configs"]) == 2


def test_a_config_comes_with_a_task_of_0_1(rpc: Rpc) -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    for url in (HOOK, f"{HOOK}/newer"):  # of each message, in place of the one before
        rpc.call("tasks/send", {"id": "with-config", "message": message, "pushNotification": {"url": url}})
        config = rpc.call("tasks/pushNotification/get", {"id": "with-config"})
        assert config == {"id": "with-config", "pushNotificationConfig": {"url": url}}
    assert len(rpc.call("tasks/pushNotificationConfig/list", {"id": "with-config"})) == 1


def test_a_task_has_at_most_ten(rest: Rest) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    for number in range(10):
        rest.call("POST", path, {"id": str(number), "url": HOOK})
    assert rest.ask("POST", path, {"id": "10", "url": HOOK}).status_code == 400
    rest.call("POST", path, {"id": "9", "url": HOOK + "/newer"})
    assert len(rest.call("GET", path)["configs"]) == 10


def test_configs_do_not_exist_for_others(client: TestClient, kit: Kit, rest: Rest) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    rest.call("POST", path, {"id": "a", "url": HOOK})
    other = Rest(client, new_key(kit))
    elsewhere = Rest(client, "", "/a2a/assistant")
    elsewhere.headers = rest.headers
    assert other.ask("GET", path).status_code == 404
    assert other.ask("GET", f"{path}/a").status_code == 404
    assert other.ask("DELETE", f"{path}/a").status_code == 404
    assert other.ask("POST", path, {"url": HOOK}).status_code == 404
    assert len(rest.call("GET", path)["configs"]) == 1


def test_an_agent_that_does_not_notify(client: TestClient, key: str) -> None:
    rpc, rest = Rpc(client, key, "/a2a/plain"), Rest(client, key, "/a2a/plain")
    for method in ("set", "get", "list", "delete"):
        assert rpc.error(f"tasks/pushNotificationConfig/{method}", {"id": "x"})["code"] == -32003
    assert rpc.error("tasks/pushNotification/set", {"id": "x"})["code"] == -32003
    assert rpc.error("CreateTaskPushNotificationConfig", {"taskId": "x"})["code"] == -32003
    inline = {"message": message(), "configuration": {"pushNotificationConfig": {"url": HOOK}}}
    assert rpc.error("message/send", inline)["code"] == -32003
    body = {
        "message": message_1_0(),
        "configuration": {"taskPushNotificationConfig": {"url": HOOK}},
    }
    assert rest.ask("POST", "message:send", body).json()["error"]["details"][0]["reason"] == (
        "PUSH_NOTIFICATION_NOT_SUPPORTED"
    )


def test_a_refused_request_changes_no_config(client: TestClient, key: str) -> None:
    """A retry does not put back what its client has changed meanwhile, either."""
    rest = Rest(client, key)

    def body(text: str, url: str) -> Any:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        config = {"id": "a", "url": url}
        return {"message": message, "configuration": {"taskPushNotificationConfig": config}}

    first = rest.ask("POST", "message:send", body("one", HOOK), **{"Idempotency-Key": "k"})
    task_id = first.json()["task"]["id"]
    evil = rest.ask("POST", "message:send", body("two", f"{HOOK}/evil"), **{"Idempotency-Key": "k"})
    assert evil.status_code == 400
    assert configs(rest, task_id)["configs"][0]["url"] == HOOK
    newer = {"id": "a", "url": f"{HOOK}/newer"}
    rest.call("POST", f"tasks/{task_id}/pushNotificationConfigs", newer)
    rest.ask("POST", "message:send", body("one", HOOK), **{"Idempotency-Key": "k"})
    assert configs(rest, task_id)["configs"][0]["url"] == f"{HOOK}/newer"


def test_a_retry_makes_up_for_a_config_that_was_not_stored(
    client: TestClient, key: str, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = Rest(client, key)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"message": message, "configuration": {"taskPushNotificationConfig": {"id": "a", "url": HOOK}}}
    with monkeypatch.context() as patch:
        patch.setattr(type(kit.store), "put_push_config", lambda *_, **__: None)
        task_id = rest.call("POST", "message:send", body)["task"]["id"]
    assert configs(rest, task_id)["configs"] == []
    rest.call("POST", "message:send", body)
    assert configs(rest, task_id)["configs"][0]["url"] == HOOK


def test_the_path_names_the_task(rest: Rest) -> None:
    one, other = rest.send(text="one")["id"], rest.send(text="other")["id"]
    path = f"tasks/{one}/pushNotificationConfigs"
    for name in ("taskId", "task_id"):
        assert rest.ask("POST", path, {name: other, "url": HOOK}).status_code == 400
        assert rest.ask("POST", path, {name: one, "id": name, "url": HOOK}).status_code == 200
    assert rest.call("GET", f"tasks/{other}/pushNotificationConfigs")["configs"] == []


@pytest.mark.parametrize(
    "config",
    [
        {"id": "x" * 65, "url": HOOK},
        {"url": HOOK, "token": "x" * 10_000},
        {"url": f"{HOOK}?{'x' * 3000}"},
        {"url": HOOK, "authentication": {}},
        {"url": 5},
    ],
)
def test_too_much_is_refused(rest: Rest, config: Any) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    assert rest.ask("POST", path, config).status_code == 400


def test_long_urls_are_fine(rest: Rest) -> None:
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    assert rest.call("POST", path, {"url": f"{HOOK}?{'x' * 1500}"})


def test_a_config_without_an_id_gets_one() -> None:
    config, newer = with_ids(head_with_configs("a"), TaskPushNotificationConfig(url=HOOK), "default")
    assert config == {"url": HOOK, "taskId": "t", "id": "default"}
    assert newer.push_config_ids == ("a", "default")


def test_a_config_that_is_set_again_is_one_config() -> None:
    full = head_with_configs(*(f"c{number}" for number in range(MAX_CONFIGS)))
    config, newer = with_ids(full, TaskPushNotificationConfig(id="c3", url=HOOK), "default")
    assert config["id"] == "c3"
    assert newer == full


def test_a_task_has_so_many_configs_and_no_more() -> None:
    nearly = head_with_configs(*(f"c{number}" for number in range(MAX_CONFIGS - 1)))
    _, full = with_ids(nearly, TaskPushNotificationConfig(id="last", url=HOOK), "")
    assert len(full.push_config_ids) == MAX_CONFIGS
    with pytest.raises(InvalidParams, match=f"at most {MAX_CONFIGS}"):
        with_ids(full, TaskPushNotificationConfig(id="more", url=HOOK), "")


def test_an_id_has_a_length() -> None:
    with_ids(head_with_configs(), TaskPushNotificationConfig(id="x" * CONFIG_ID_BYTES, url=HOOK), "")
    with pytest.raises(InvalidParams, match=f"at most {CONFIG_ID_BYTES} bytes"):
        with_ids(
            head_with_configs(), TaskPushNotificationConfig(id="é" * (CONFIG_ID_BYTES // 2 + 1), url=HOOK), ""
        )


NEVER_RESOLVED = "https://93.184.215.14/hook"


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


def change_once(bench: RunBench, change: Callable[[Head], Head]) -> None:
    """Let another process change a head just before it is written."""
    changes = [change]

    def before(operation: str, arguments: dict[str, Any]) -> None:
        if operation == "put_item" and arguments["Item"]["sk"]["S"] == "head" and changes:
            bench.store.update_head(
                changes.pop()(bench.head(arguments["Item"]["pk"]["S"].rpartition("#")[2]))
            )

    bench.calls.before = before


def names_of(bench: RunBench, task_id: str) -> set[str]:
    request = ListPushConfigsRequest(taskId=task_id)
    configs = within(bench.service.configs.list(bench.namespace, request))["configs"]
    return {config["id"] for config in configs}


def test_two_configs_that_are_set_at_once_are_both_kept(bench: RunBench) -> None:
    task_id = within(bench.send("echo"))["id"]
    for name in ("first", "second"):
        config = TaskPushNotificationConfig(taskId=task_id, id=name, url=NEVER_RESOLVED)
        if name == "second":
            change_once(bench, lambda head: replace(head, trace="another write"))
        within(bench.service.configs.set(bench.namespace, config, "v1_0"))
    assert names_of(bench, task_id) == {"first", "second"}
    assert bench.head(task_id).trace == "another write"


def test_a_config_that_is_deleted_while_its_task_changes_is_gone(bench: RunBench) -> None:
    task_id = within(bench.send("echo"))["id"]
    config = TaskPushNotificationConfig(taskId=task_id, id="first", url=NEVER_RESOLVED)
    within(bench.service.configs.set(bench.namespace, config, "v1_0"))
    change_once(bench, lambda head: replace(head, trace="another write"))
    within(bench.service.configs.delete(bench.namespace, PushConfigRequest(taskId=task_id, id="first")))
    assert names_of(bench, task_id) == set()
    assert bench.head(task_id).push_config_ids == ()
    assert bench.head(task_id).trace == "another write"


def test_a_config_tells_all_that_happens_after_it_was_set(bench: RunBench) -> None:
    task_id = within(bench.send("question"))["id"]
    config = TaskPushNotificationConfig(taskId=task_id, id="first", url=NEVER_RESOLVED)
    within(bench.service.configs.set(bench.namespace, config, "v1_0"))
    push, head = bench.store.get_push_config(bench.namespace, task_id, "first"), bench.head(task_id)
    assert push is not None
    assert push.cursor == (head.sequence, 0, head.state)


def test_a_config_without_a_name_is_the_first(bench: RunBench) -> None:
    task_id = within(bench.send("echo"))["id"]
    with pytest.raises(TaskNotFound, match="no such push notification config"):
        within(bench.service.configs.get(bench.namespace, PushConfigRequest(taskId=task_id)))
    for name in ("first", "second"):
        config = TaskPushNotificationConfig(taskId=task_id, id=name, url=NEVER_RESOLVED)
        within(bench.service.configs.set(bench.namespace, config, "v1_0"))
    config = within(bench.service.configs.get(bench.namespace, PushConfigRequest(taskId=task_id)))
    assert config["id"] == "first"


@pytest.mark.parametrize("default_id", ["default", ""])
def test_a_config_that_a_client_does_not_name_has_its_versions_id_or_a_new_one(
    bench: RunBench, default_id: str
) -> None:
    task_id = within(bench.send("echo"))["id"]
    config = TaskPushNotificationConfig(taskId=task_id, url=NEVER_RESOLVED)
    configs = [within(bench.service.configs.set(bench.namespace, config, "v", default_id)) for _ in range(2)]
    ids = {config["id"] for config in configs}
    assert names_of(bench, task_id) == ids
    assert ids == {"default"} if default_id else len(ids) == 2
