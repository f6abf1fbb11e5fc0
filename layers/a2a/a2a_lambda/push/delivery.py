"""Push notifications: from the table's stream to a queue, from the queue to the webhook.

    head's status changes ── stream record ── relay ── FIFO queue (a group for each task and config)
                                                           └── deliver ── POST, in the config's dialect

The queue carries only ids: a message says that a task changed, and `updates` finds what its webhook has not
been sent. How far it has come is stored with its config, so that several messages for one change, or one that
comes twice, send nothing again. A webhook that fails delays only its own group.
"""

import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import strictjson, telemetry, threads, tracing
from a2a_lambda.aws.queue import postpone_seconds
from a2a_lambda.errors import KitError, safe_text
from a2a_lambda.files.files import Files
from a2a_lambda.net.addresses import Refused, Unresolved
from a2a_lambda.net.transport import GuardedTransport
from a2a_lambda.protocol.model import DEFAULT_SCHEME, Json, TaskPushNotificationConfig, unix_time
from a2a_lambda.push.updates import Backlog, read_backlog
from a2a_lambda.push.webhook import wants_jwt
from a2a_lambda.store.items import namespace_and_id_of, status_change
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration
from a2a_lambda.wire import negotiation

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from a2a_lambda.aws.signing import Signer

WEBHOOK_SECONDS = 10.0
"""Seconds in which a webhook must answer."""

DELIVERY_SECONDS = 5.0
"""Seconds after which a delivery makes no further call, and leaves the rest to the next. With a call and the
reads before it, it ends within the shortest timeout of the function: 20 s."""

CONFIG_SECONDS = 60.0
"""Seconds after a change of the task's status in which a webhook's config may not be stored yet."""

NOTICE_POSTPONE_SECONDS = 2

Outcome = Literal["delivered", "gone", "refused"]
"""What became of a call of a webhook."""

TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105

logger = logging.getLogger(__name__)


class Undelivered(KitError):
    """The webhook did not take a notification. It must be sent again."""

    safe_to_log = True


class PushNotifications:
    """Delivers the changes of tasks to their webhooks.

    signer: makes the JWTs that webhooks ask for. allow_loopback: webhooks may be on this machine.
    """

    def __init__(
        self,
        client: "SQSClient",
        url: str,
        store: Store,
        *,
        files: Files,
        signer: "Signer | None" = None,
        allow_loopback: bool = False,
    ) -> None:
        self._client = client
        self._url = url
        self._store = store
        self._links = files.links
        self._signer = signer
        self._allow_loopback = allow_loopback

    def relay(self, record: Mapping[str, Any]) -> int:
        """Enqueue a message for each webhook of the task whose status a record of the table's stream changes;
        returns how many. Blocks."""
        images = record["dynamodb"]
        if "NewImage" not in images:  # a deletion
            return 0
        namespace, task_id = namespace_and_id_of(images["NewImage"])
        telemetry.replace_ids(owner=namespace.owner, agent=namespace.agent, task_id=task_id)
        write_time = images["ApproximateCreationDateTime"]
        change = status_change(images["NewImage"], images.get("OldImage"), write_time)
        if change is None:
            return 0
        version, config_ids = change
        for config_id in config_ids:
            self._enqueue([namespace.owner, namespace.agent, task_id, config_id], [version])
        return len(config_ids)

    def _enqueue(self, ids: list[str], cause: list[Json]) -> None:
        """Two messages with the same cause are one."""
        self._client.send_message(
            QueueUrl=self._url,
            MessageBody=json.dumps(ids),
            MessageGroupId=hashlib.sha256(strictjson.dumps(ids)).hexdigest(),
            MessageDeduplicationId=hashlib.sha256(strictjson.dumps([*ids, *cause])).hexdigest(),
        )

    async def deliver(self, body: str) -> None:
        """Send a webhook what is new in a task. Raises Undelivered, StoreError."""
        owner, agent, task_id, config_id = json.loads(body)
        telemetry.replace_ids(owner=owner, agent=agent, task_id=task_id)
        try:
            await self._notify(Namespace(owner, agent), task_id, config_id)
        except Exception as error:
            telemetry.measure({"Pushes": 1}, agent=agent, outcome="failed")
            if not isinstance(error, Undelivered):
                raise
            raise Undelivered(f"task {task_id}, config {config_id!r}: {error}") from error

    async def _notify(self, namespace: Namespace, task_id: str, config_id: str) -> None:
        """Raises what `deliver` raises, unless a part was delivered: the rest then gets its own message."""
        started_at = time.monotonic()
        # The config first: a head that is read before may be older than the cursor.
        push = await threads.run(self._store.get_push_config, namespace, task_id, config_id)
        head = await threads.run(self._store.get_head, namespace, task_id)
        if head is None or config_id not in head.push_config_ids:
            return
        if push is None:
            # `store_push_config` stores a config moments after the head that names it. One that is still
            # absent later was deleted, by a process that died before it changed the head.
            if self._store.clock() - unix_time(head.status["timestamp"]) > CONFIG_SECONDS:
                return
            raise Undelivered("a webhook's config is not stored yet")
        telemetry.bind(context_id=head.context_id, version=push.wire_name)
        wire = negotiation.wire_named(push.wire_name)
        backlog = await threads.run(read_backlog, self._store, self._links, wire, head, push)
        cursor, has_more = await self._send(head, push, wire.media_type, backlog, started_at)
        if cursor is not None:
            await threads.run(self._store.advance_push, namespace, task_id, config_id, cursor)
            if has_more:
                ids = [namespace.owner, namespace.agent, task_id, config_id]
                await threads.run(self._enqueue, ids, [head.version, *cursor])

    async def _send(
        self, head: Head, push: PushRegistration, media_type: str, backlog: Backlog, started_at: float
    ) -> tuple[Cursor | None, bool]:
        """Send a webhook its backlog, until DELIVERY_SECONDS after `started_at`. Returns how far the webhook
        is now, None if nothing was new; and whether the rest needs a message of its own. If the first call
        fails, raises what `deliver` raises."""
        cursor: Cursor | None = None
        try:
            transport = GuardedTransport(allow_loopback=self._allow_loopback)
            async with httpx2.AsyncClient(transport=transport, timeout=WEBHOOK_SECONDS) as http:
                while cursor != backlog.end:
                    # A queue's message must be done before its visibility ends.
                    if cursor is not None and time.monotonic() - started_at > DELIVERY_SECONDS:
                        return cursor, True
                    update = await threads.run(next, backlog.updates, None)
                    if update is None:
                        break
                    content = strictjson.dumps(update.body)
                    headers = {"Content-Type": media_type, **await self._make_headers(push.config, content)}
                    outcome = await self._post(http, push.config["url"], content, headers, head.trace)
                    telemetry.measure({"Pushes": 1}, agent=head.namespace.agent, outcome=outcome)
                    cursor = update.cursor if outcome == "delivered" else backlog.end
        except Exception as error:
            if cursor is None:
                raise
            reason = safe_text(error) if isinstance(error, KitError) else type(error).__name__
            logger.warning("a part was delivered: %s", reason)
            return cursor, True
        return cursor, False

    def postpone(self, handle: str, attempt: int) -> None:
        """Make a message come again. The pause grows with each attempt, and is random in part."""
        share = random.uniform(0.5, 1.0)  # noqa: S311
        pause = int(share * postpone_seconds(NOTICE_POSTPONE_SECONDS, attempt))
        with suppress(ClientError, BotoCoreError):  # then it comes again when its visibility timeout ends
            self._client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=handle, VisibilityTimeout=pause
            )

    async def _make_headers(self, config: TaskPushNotificationConfig, content: bytes) -> dict[str, str]:
        headers: dict[str, str] = {}
        if config.get("token"):
            headers[TOKEN_HEADER] = config["token"]
        info = config.get("authentication", {})
        if self._signer is not None and wants_jwt(config):
            headers["Authorization"] = f"Bearer {await threads.run(self._signer.sign_token, content)}"
        elif info.get("credentials"):
            headers["Authorization"] = f"{info.get('scheme') or DEFAULT_SCHEME} {info['credentials']}"
        return headers

    async def _post(
        self, http: httpx2.AsyncClient, url: str, content: bytes, headers: Mapping[str, str], trace: str
    ) -> Outcome:
        """Call a webhook once, without redirects, and do not read its answer's body. Returns "refused" if the
        URL must not be called. The call is in the trace, a `traceparent`, of the task's turn. Raises
        Undelivered."""
        try:
            with tracing.http_span(url, parent={"traceparent": trace}) as span:
                async with (
                    asyncio.timeout(WEBHOOK_SECONDS),
                    http.stream(
                        "POST", url, content=content, headers={**headers, **span.headers()}
                    ) as answer,
                ):
                    status = answer.status_code
                span.set_status(status)
        except (Refused, httpx2.InvalidURL) as error:
            logger.error("a webhook was not called: %s", error)
            return "refused"
        except (httpx2.HTTPError, Unresolved, TimeoutError) as error:
            raise Undelivered(f"a webhook did not answer: {type(error).__name__}") from error
        if status == 410:
            return "gone"
        if status >= 300:
            raise Undelivered(f"a webhook answered with status {status}")
        return "delivered"
