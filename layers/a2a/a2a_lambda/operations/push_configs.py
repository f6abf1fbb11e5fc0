"""Operations on push notification configs. The head of a task names the configs that count."""

import uuid
from dataclasses import replace
from typing import cast

from a2a_lambda import threads
from a2a_lambda.errors import InvalidParams, TaskNotFound
from a2a_lambda.protocol.model import TaskPushNotificationConfig
from a2a_lambda.protocol.requests import (
    ListPushConfigsRequest,
    ListPushConfigsResponse,
    PushConfigRequest,
    SendMessageRequest,
)
from a2a_lambda.push import webhook
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, config_id_of
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration
from a2a_lambda.turns.claim import Repeat, TurnStart
from a2a_lambda.turns.recovery import load_live_head

CONFIG_ID_BYTES = 64
"""Maximum size of a config's id, in bytes. The head names all configs, and must stay small."""

MAX_CONFIGS = 10
"""Push notification configs that a task may have."""


def with_ids(
    head: Head, config: TaskPushNotificationConfig, default_id: str
) -> tuple[TaskPushNotificationConfig, Head]:
    """The config with its ids, and the head that names it. Raises InvalidParams.

    default_id: id of the config if the client sent none.
    """
    config_id = config.get("id") or default_id
    if len(config_id.encode()) > CONFIG_ID_BYTES:
        raise InvalidParams(f"the id of a push notification config may have at most {CONFIG_ID_BYTES} bytes")
    ids = head.push_config_ids
    # HTTP+JSON has it in its paths.
    if config_id not in ids and ("/" in config_id or config_id in (".", "..")):
        raise InvalidParams("the id of a push notification config may not contain `/`, nor be `.` or `..`")
    if config_id not in ids and len(ids) >= MAX_CONFIGS:
        raise InvalidParams(f"a task may have at most {MAX_CONFIGS} push notification configs: delete one")
    full_config = cast(TaskPushNotificationConfig, {**config, "taskId": head.task_id, "id": config_id})
    return full_config, replace(head, push_config_ids=ids if config_id in ids else (*ids, config_id))


def with_push_config(call: MessageCall, head: Head, request: SendMessageRequest) -> Head:
    """The head that names the push notification config in a request. Raises InvalidParams."""
    config = request.get("configuration", {}).get("taskPushNotificationConfig")
    return head if config is None else with_ids(head, config, default_config_id(call, head, config))[1]


async def store_push_config(
    store: Store, call: MessageCall, request: SendMessageRequest, turn_start: TurnStart
) -> None:
    """Store the push notification config in a request. turn_start: what the request started."""
    config = request.get("configuration", {}).get("taskPushNotificationConfig")
    if config is None:
        return
    # If the first try died before this, a retry stores the config; it overwrites none. A retry stores no
    # cursor, because the webhook must also get what happened in between.
    head = turn_start.head
    default_id = default_config_id(call, head, config)
    if (config.get("id") or default_id) not in head.push_config_ids:  # it was deleted since the first try
        return
    cursor = None if isinstance(turn_start, Repeat) else Cursor(head.sequence, 0, head.state)
    full_config, _ = with_ids(head, config, default_id)
    await threads.run(store.put_push_config, head, PushRegistration(full_config, call.wire_name, cursor))


def default_config_id(call: MessageCall, head: Head, config: TaskPushNotificationConfig) -> str:
    """Id of a config that came in a message without one. A client may send it with each message of a task,
    with a new token each time, and gets each notification once."""
    return call.push_config_id or config_id_of(head.task_id, config["url"])


def _requested_id(head: Head, request: PushConfigRequest) -> str:
    """Id of the config that a request names, or ""."""
    config_id = request.get("id", "")
    # Other servers give a config that came without an id that of its task, by which their clients ask for it.
    is_default = config_id == head.task_id and config_id not in head.push_config_ids
    return head.push_config_ids[0] if is_default and len(head.push_config_ids) == 1 else config_id


class PushConfigs:
    """Each operation raises TaskNotFound for a task that is not the caller's."""

    def __init__(self, store: Store, policy: webhook.WebhookPolicy) -> None:
        self._store = store
        self._policy = policy

    async def set(
        self, namespace: Namespace, config: TaskPushNotificationConfig, wire_name: str, default_id: str = ""
    ) -> TaskPushNotificationConfig:
        """Store a config. A task that has ended may get one, too.

        default_id: id of the config if the client sent none; "" = a new id. Raises what `webhook.check`
            raises, and InvalidParams if the task has too many.
        """
        await webhook.check(config, self._policy)
        default_id = default_id or str(uuid.uuid4())
        while True:
            head = await load_live_head(self._store, namespace, config["taskId"], path="params.taskId")
            full_config, new_head = with_ids(head, config, default_id)
            push = PushRegistration(full_config, wire_name, Cursor(head.sequence, 0, head.state))
            await threads.run(self._store.put_push_config, head, push)
            if new_head == head:
                return full_config
            try:
                await threads.run(self._store.update_head, new_head)
                return full_config
            except Conflict:
                continue

    async def get(
        self, namespace: Namespace, request: PushConfigRequest, default_id: str = ""
    ) -> TaskPushNotificationConfig:
        """The config that the request names; without an id, the one that has `default_id`, or else the
        first."""
        head = await load_live_head(self._store, namespace, request["taskId"], path="params.taskId")
        ids = head.push_config_ids
        config_id = _requested_id(head, request) or (default_id if default_id in ids else next(iter(ids), ""))
        push = None
        if config_id in head.push_config_ids:
            push = await threads.run(self._store.get_push_config, namespace, head.task_id, config_id)
        if push is None:
            raise TaskNotFound("the task has no such push notification config", path="params.id")
        return push.config

    async def list(self, namespace: Namespace, request: ListPushConfigsRequest) -> ListPushConfigsResponse:
        """Configs, ordered by id. A page token is the last id of the page before."""
        head = await load_live_head(self._store, namespace, request["taskId"], path="params.taskId")
        configs = await threads.run(self._store.list_push_configs, namespace, head.task_id)
        last_id = request.get("pageToken", "")
        matches = [
            config for config in configs if config["id"] in head.push_config_ids and config["id"] > last_id
        ]
        page = matches[: request.get("pageSize", MAX_CONFIGS)]
        has_more = len(matches) > len(page)
        return ListPushConfigsResponse(configs=page, nextPageToken=page[-1]["id"] if has_more else "")

    async def delete(self, namespace: Namespace, request: PushConfigRequest) -> None:
        """Delete a config. It is not an error if there is none."""
        while True:
            head = await load_live_head(self._store, namespace, request["taskId"], path="params.taskId")
            config_id = _requested_id(head, request)
            if config_id not in head.push_config_ids:
                return
            ids = tuple(name for name in head.push_config_ids if name != config_id)
            try:
                # The config first. One that is set in between is not the one to delete.
                await threads.run(self._store.delete_push_config, namespace, head.task_id, config_id)
                await threads.run(self._store.update_head, replace(head, push_config_ids=ids))
                return
            except Conflict:
                continue
