"""Replies of other systems to the waits of durable turns, at the urls that the turns gave to them."""

import asyncio
import logging
import time

from a2a_lambda import telemetry, threads
from a2a_lambda.errors import NotWaiting, RouteNotFound, StoreError, WaitIsOver
from a2a_lambda.protocol.model import Callback, Event, Json
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.callback import CallbackToken
from a2a_lambda.tasks.head import Head, WaitState
from a2a_lambda.turns.durable import DurableTurns, has_ended, replies_of, store_reply

EARLY_SECONDS = 10.0
"""Seconds for which a reply waits until its turn is suspended: it may come a moment too early."""

LOOK_SECONDS = 0.3
"""Seconds between looks at the task meanwhile."""

MAX_REPLY_BYTES = 256_000
"""Bytes of a reply."""

UNKNOWN = "this is no url of a turn that waits"

logger = logging.getLogger(__name__)


class Callbacks:
    def __init__(self, store: Store, durable: DurableTurns) -> None:
        self._store = store
        self._durable = durable

    def read_token(self, text: str) -> CallbackToken:
        """The token of a url. Raises RouteNotFound for a text that is none."""
        try:
            return CallbackToken.read(text)
        except ValueError:
            raise RouteNotFound(UNKNOWN) from None

    async def reply(self, token: CallbackToken, data: Json) -> None:
        """End a wait. data: what the skill gets.

        Raises RouteNotFound for a token that no running turn has given out, WaitIsOver if the wait has had
        its reply or its timeout, NotWaiting if the turn does not wait for this reply now, StoreError.
        """
        looked = 0
        give_up_at = time.monotonic() + EARLY_SECONDS
        while True:
            head = await threads.run(self._store.get_head, token.scope, token.task_id)
            if head is None or not token.is_of(head):
                raise RouteNotFound(UNKNOWN)
            telemetry.bind(owner=token.scope.owner, agent=token.scope.agent, task_id=token.task_id)
            if (wait := _open_wait(head, token.key)) is not None:
                try:
                    reply = Event(callback=Callback(turn=head.turn_id, key=wait["key"], data=data))
                    head = await store_reply(self._store, head, wait, reply)
                    break
                except Conflict:
                    continue
            if head.version != looked:
                looked = head.version
                events = [event for _, event in await threads.run(self._store.get_events, head)]
                replies = replies_of(events, head.turn_id)
                if token.key in replies or has_ended(events, head.turn_id, token.key):
                    raise WaitIsOver("this wait of the turn is over")
            if time.monotonic() > give_up_at:
                raise NotWaiting("the turn does not wait for this reply now")
            await asyncio.sleep(LOOK_SECONDS)
        try:
            await self._durable.dispatch(head)
        except StoreError:
            logger.exception("task %s waits for the sweep", head.task_id)


def _open_wait(head: Head, key: str) -> WaitState | None:
    if head.execution is None or not head.is_suspended:
        return None
    return next((wait for wait in head.execution["waits"] if wait["key"] == key), None)
