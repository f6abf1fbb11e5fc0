"""`send` and `stream`: a message starts a turn, and its answer follows the turn.

message ── check ── receive ── intake ─┬─ a claim: the turn runs here ── Run ── its events
                                       ├─ a turn that runs elsewhere ── dispatch ── follow
                                       └─ the task of an earlier, equal request ── follow, and
                                          dispatch, if no run has taken it

The message is checked against the agent's card, and its large files are stored. A stream follows a turn event
by event. A send waits until the turn stops, unless its client does not wait; if the run dies meanwhile, the
send starts the turn again. A send that takes long holds a slot of its owner.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from copy import copy

from a2a_lambda import telemetry, threads
from a2a_lambda.background.dispatch import Dispatcher, may_lack_dispatch
from a2a_lambda.background.placement import Placement
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import InvalidParams, StoreError, TooManyCalls
from a2a_lambda.files.files import Files
from a2a_lambda.operations.call_slots import CallSlots
from a2a_lambda.operations.follow import follow, follow_from, wait_until_stopped
from a2a_lambda.operations.intake import Intake
from a2a_lambda.operations.push_configs import store_push_config
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Part,
    Published,
    Task,
    skip_artifacts,
    truncate_history,
)
from a2a_lambda.protocol.requests import SendMessageRequest, SendMessageResponse
from a2a_lambda.protocol.stored_file import is_stored_apart
from a2a_lambda.push import webhook
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.audience import UNREAD_EVENTS
from a2a_lambda.turns.claim import Claim, TurnStart
from a2a_lambda.turns.recovery import load_live_head
from a2a_lambda.turns.run import Run

SLOTLESS_SEND_SECONDS = 2.5
"""A send that takes longer, its agent's import included, holds a slot. It is half a second less than the time
to the first keep-alive, because a send can be refused with a status of HTTP only before its answer begins."""

PART_URL_CHARACTERS = 8_192
"""Maximum length of a part's URL, in characters. A `data:` URL has a file's content, and would be stored with
the message."""

RESTART_SECONDS = 10.0
"""Minimum seconds before the deadline in which a reply whose run has died is started again. With less time,
the question stays open."""

TOO_MANY = "This owner has too many calls running at once; send the message again later."


class Messages:
    """Starts turns, and answers with them.

    repeat_seconds: seconds for which the same bytes are the same request. call_slots: slots of sends that
    take long; None = no limit.
    """

    def __init__(
        self,
        store: Store,
        agents: Agents,
        *,
        repeat_seconds: float,
        dispatcher: Dispatcher = Dispatcher(),  # noqa: B008  # immutable
        webhooks: webhook.WebhookPolicy = webhook.WebhookPolicy(),  # noqa: B008  # immutable
        call_slots: CallSlots | None = None,
        files: Files,
    ) -> None:
        self.store = store
        self.agents = agents
        self.files = files
        self._dispatcher = dispatcher
        self._webhooks = webhooks
        self._call_slots = call_slots
        self.placement = Placement(agents, dispatcher)
        self.intake = Intake(store, self.placement, repeat_seconds=repeat_seconds)

    async def send(self, call: MessageCall, request: SendMessageRequest) -> SendMessageResponse:
        """Run a turn here, or dispatch it, and answer when it has ended or asks a question; at once, if the
        client does not wait for a dispatched turn.

        A send that takes long holds a slot of its owner, as a stream does. If none is free, a turn that runs
        here is ended, and a send whose turn runs elsewhere is answered with the task as it is.
        Raises what `stream` raises, and TooManyCalls.
        """
        # The clock starts before the checks: reading a webhook's name from DNS, and an import, count as
        # part of the send.
        slotless_until = time.monotonic() + SLOTLESS_SEND_SECONDS
        await self._check(call, request)
        # Two things may end this send: its turn, or the lack of a free slot. `stop` ends the turn's agent,
        # and its run stores that end as it stores any other. A turn that is still being claimed is claimed
        # first.
        sending = _Sending(self, call, request)
        work = asyncio.ensure_future(sending.run())
        try:
            # Most sends end here, without a slot and its two writes.
            await asyncio.wait({work}, timeout=max(0.0, slotless_until - time.monotonic()))
            if not work.done() and self._call_slots is not None:
                with suppress(StoreError):  # a send without a slot is better than no send
                    async with self._call_slots.hold(call.namespace.owner):
                        await asyncio.wait({work})
            return await work
        except TooManyCalls:
            if work.done():
                return work.result()
            sending.stop(TOO_MANY)
            if sending.is_starting:  # its claim may be stored, so its turn must end, too
                await asyncio.gather(work, return_exceptions=True)
            if sending.dispatched_head is not None:  # the turn runs anyway, and the client must know its task
                task_id = sending.dispatched_head.task_id
                return await sending.answer(await load_live_head(self.store, call.namespace, task_id))
            raise
        finally:
            work.cancel()

    async def stream(self, call: MessageCall, request: SendMessageRequest) -> AsyncGenerator[Published, None]:
        """Run a turn as `send` does, and stream it: the task first, its closing status last.

        Raises what `_check`, `receive` and `Intake.start` raise.
        """
        await self._check(call, request)
        length = request.get("configuration", {}).get("historyLength")
        turn_start = await self.start(call, await self.receive(call, request) or request)
        if isinstance(turn_start, Claim):
            run = self.make_run(turn_start)
            run.start(unread_limit=UNREAD_EVENTS)
            events = self._stream(call, turn_start, run, length)
        else:
            events = follow(self.store, turn_start.head, history_length=length, deadline=call.deadline)
        if not call.names_tasks:
            events = _without_earlier_turns(events, turn_start.head)
        return self.files.links.show_events(call.namespace, events, call.accepted_modes(request))

    async def _stream(
        self, call: MessageCall, claim: Claim, run: Run, history_length: int | None
    ) -> AsyncGenerator[Published, None]:
        assert claim.task is not None
        first = claim.sequence, Event(task=truncate_history(claim.task, history_length))
        async with aclosing(run.audience.events(first)) as events:
            async for item in events:
                yield item
        if run.has_diverged or run.audience.was_dropped:
            # What the client has is not what is stored, or not all of it.
            head = await load_live_head(self.store, call.namespace, claim.head.task_id)
            task, sequence = await threads.run(self.store.get_task, head)
            # An artifact that the client has seen, but that was never stored, is in the task without text, so
            # that the client discards what it has.
            artifacts = task.get("artifacts", [])
            stored_ids = {artifact["artifactId"] for artifact in artifacts}
            lost_ids = [name for name in run.artifact_ids if name not in stored_ids]
            if lost_ids:
                task["artifacts"] = artifacts + [
                    Artifact(artifactId=name, parts=[Part(text="")]) for name in lost_ids
                ]
            yield sequence, Event(task=task)
            async with aclosing(follow_from(self.store, head, sequence, call.deadline)) as events:
                async for item in events:
                    yield item

    async def start(self, call: MessageCall, request: SendMessageRequest) -> TurnStart:
        """Start what a message asks for; returns what was started. A turn that runs elsewhere is dispatched,
        here or by the sweep. Raises what `Intake.start` raises."""
        turn_start = await self.intake.start(call, request)
        telemetry.bind(task_id=turn_start.head.task_id, context_id=turn_start.head.context_id)
        try:
            # After the head's write, which decides whether this request counts.
            await store_push_config(self.store, call, request, turn_start)
        finally:
            # A Claim runs here. Of a Repeat, the first try may have failed before it could dispatch the turn.
            if not isinstance(turn_start, Claim) and may_lack_dispatch(turn_start.head):
                await self._dispatcher.try_dispatch(turn_start.head)
        return turn_start

    def make_run(self, claim: Claim) -> Run:
        """The run of a turn in this process."""
        return Run(self.store, self.agents.start(claim.head.namespace.agent), claim, self.files)

    async def _check(self, call: MessageCall, request: SendMessageRequest) -> None:
        """Raises InvalidParams for a URL that is too long, or a webhook that must not be called; and
        ContentTypeNotSupported, ExtensionSupportRequired or PushNotificationNotSupported if the card says so.
        """
        agent, message = self.agents[call.namespace.agent], request["message"]
        agent.card.check_extensions(call.extensions)
        has_text = any("text" in part for part in message["parts"])
        for index, part in enumerate(message["parts"]):
            path = f"params.message.parts[{index}]"
            if len(part.get("url", "")) > PART_URL_CHARACTERS:
                raise InvalidParams(
                    f"the URL in {path} has more than {PART_URL_CHARACTERS:,} characters: send the file's"
                    " bytes, or upload it",
                    path=path,
                )
            # Skills with parameters read data, whatever its type is called. Some clients add data to a text,
            # whatever the agent takes.
            is_checked = "data" not in part or not (agent.input_schemas or has_text)
            if "mediaType" in part and is_checked:
                agent.card.check_media_type(part["mediaType"], path)
        config = request.get("configuration", {}).get("taskPushNotificationConfig")
        if config is not None:
            agent.card.check_operation("set_push")
            await webhook.check(config, self._webhooks)

    async def receive(self, call: MessageCall, request: SendMessageRequest) -> SendMessageRequest | None:
        """The request with its large files in the bucket; None if they are not to be stored: see
        `RequestTasks.needs_files`. Raises InvalidParams, TaskNotFound, FilesUnavailable. A file of a message
        that is refused afterwards expires like every other."""
        message = request["message"]
        if not is_stored_apart(message):
            return request
        if not await self.intake.request_tasks.needs_files(call, request):
            return None
        return {**request, "message": await self.files.receive(call.namespace, call.identity, message)}


class _Sending:
    """A send on its way to its response. It knows the run of its turn, so that the turn can be stopped."""

    def __init__(self, messages: Messages, call: MessageCall, request: SendMessageRequest) -> None:
        self._messages = messages
        self._call = call
        self._request = request
        self._received: SendMessageRequest | None = None
        self._run: Run | None = None
        self._stop_reason = ""
        self.is_starting = False
        self.dispatched_head: Head | None = None
        """Head of the task, if its turn runs elsewhere: in the background, or in an execution."""

    def stop(self, reason: str) -> None:
        """End the turn, if this process runs it, or is about to. See `Run.stop`."""
        self._stop_reason = reason
        if self._run is not None:
            self._run.stop(reason)

    async def run(self) -> SendMessageResponse:
        """Start the turn; returns the response once it ends or asks a question, or with the task as it is if
        the client does not wait for it."""
        store, deadline = self._messages.store, self._call.deadline
        while True:
            # Each round is the same request again, with the same ids. It finds what the round before has
            # stored.
            self.is_starting = True
            try:
                if self._received is None:
                    self._received = await self._messages.receive(self._call, self._request)
                turn_start = await self._messages.start(self._call, self._received or self._request)
            finally:
                self.is_starting = False
            if isinstance(turn_start, Claim):
                run = self._run = self._messages.make_run(turn_start)
                if self._stop_reason:
                    run.stop(self._stop_reason)
                run.start()
                async with aclosing(run.audience.events()) as stream:
                    events = [event async for _, event in stream]
                if not run.has_diverged:
                    assert turn_start.task is not None
                    apply(turn_start.task, events)
                    return await self.encode(run.head, turn_start.task)
                head = await load_live_head(store, self._call.namespace, turn_start.head.task_id)
            else:
                head = turn_start.head
                self.dispatched_head = None if head.place is Place.REQUEST else head
                if self._stop_reason:
                    raise TooManyCalls(self._stop_reason)
                if self._call.is_answered_at_once(self._request, head.place):
                    break
            latest_head = await wait_until_stopped(store, head, deadline)
            identity, old_head = self._call.identity, turn_start.head
            # A run that died while it continued a task: `load_live_head` restored the question, and made the
            # task forget the request. Nothing has answered it.
            was_known = identity.find(old_head.requests) is not None
            is_same_turn = latest_head.turn_id == old_head.turn_id
            is_forgotten = is_same_turn and was_known and identity.find(latest_head.requests) is None
            has_time = deadline is None or time.monotonic() + RESTART_SECONDS < deadline
            if not latest_head.is_lost and not (is_forgotten and has_time):
                head = latest_head
                break
            # The run died, so the request has no answer. It starts its turn again.
        return await self.answer(head)

    async def answer(self, head: Head) -> SendMessageResponse:
        """The response with the task as it is. Raises StoreError."""
        task, _ = await threads.run(self._messages.store.get_task, head)
        return await self.encode(head, task)

    async def encode(self, head: Head, task: Task) -> SendMessageResponse:
        task = truncate_history(task, self._request.get("configuration", {}).get("historyLength"))
        if not self._call.names_tasks:
            task = skip_artifacts(task, head.artifact_count)
        modes = self._call.accepted_modes(self._request)
        task = await self._messages.files.links.show(self._call.namespace, task, modes)
        response = SendMessageResponse(task=task)
        if head.message_only and "message" in task["status"]:
            message = copy(task["status"]["message"])
            del message["taskId"]  # the client has never heard of the task, which has ended
            response["message"] = message
        return response


async def _without_earlier_turns(
    events: AsyncGenerator[Published, None], head: Head
) -> AsyncGenerator[Published, None]:
    """The events for a client that knows no tasks, and takes each response as this turn's."""
    async with aclosing(events):
        async for sequence, event in events:
            if "task" in event:
                yield sequence, Event(task=skip_artifacts(event["task"], head.artifact_count))
            else:
                yield sequence, event
