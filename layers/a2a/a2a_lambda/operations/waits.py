"""Waits of durable turns, as other systems end them: at the URLs that the turns gave to them."""

import asyncio
import json
import time

from a2a_lambda import telemetry, threads
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.replies import store_reply
from a2a_lambda.errors import NotWaiting, RouteNotFound, WaitIsOver
from a2a_lambda.protocol.model import Callback, Event, Json
from a2a_lambda.store.store import Conflict, Store
from a2a_lambda.tasks.callback_token import UNKNOWN_URL, CallbackToken
from a2a_lambda.tasks.replay import events_of_turn, notices_in, replies_in
from a2a_lambda.tasks.suspension import execution_of

EARLY_REPLY_SECONDS = 10.0
"""Seconds for which a reply waits until its turn is suspended: it may come a moment too early."""

WAIT_POLL_SECONDS = 0.3
"""Seconds between looks at the task meanwhile."""


class Waits:
    """Ends the waits of durable turns."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher

    async def end(self, token: CallbackToken, data: Json) -> None:
        """End a wait. data: what the skill gets.

        Raises RouteNotFound for a token that no running turn has given out, or whose task has expired,
        WaitIsOver if the wait has had its reply or its timeout, NotWaiting if the turn does not wait for this
        reply now, StoreError.
        """
        version = 0
        give_up_at = time.monotonic() + EARLY_REPLY_SECONDS
        while True:
            head = await threads.run(self._store.get_head, token.namespace, token.task_id)
            if head is None or not token.is_genuine(head):
                raise RouteNotFound(UNKNOWN_URL)
            telemetry.bind(owner=token.namespace.owner, agent=token.namespace.agent, task_id=token.task_id)
            wait = execution_of(head).find_wait(token.key)
            if wait is not None:
                reply = Event(callback=Callback(turn=head.turn_id, key=wait.key, data=data))
                try:
                    head = await store_reply(self._store, head, wait, reply)
                    break
                except Conflict:
                    continue
            if head.version != version:  # the log is read again only after the head has changed
                version = head.version
                pairs = await threads.run(self._store.get_events, head)
                events = [event for _, event in pairs]
                notices = notices_in(events_of_turn(events, head.turn_id))
                replies = replies_in(events, head.turn_id, head.namespace.owner)
                taken_reply = replies.get(token.key)
                taken_data = taken_reply.data if taken_reply is not None and taken_reply.is_callback else []
                # As values, 1 equals True.
                if json.dumps(taken_data, sort_keys=True) == json.dumps([data], sort_keys=True):
                    break  # the caller repeats a call whose answer was lost: it may not have woken the turn
                if ("wait", token.key, "ended") in notices or taken_reply is not None:
                    raise WaitIsOver("the turn is no longer waiting for this reply")
            if time.monotonic() > give_up_at:
                raise NotWaiting("the turn is not waiting for this reply now: send it again in a minute")
            await asyncio.sleep(WAIT_POLL_SECONDS)
        await self._dispatcher.try_dispatch(head)
