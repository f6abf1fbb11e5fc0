"""A report that writes itself: the same skill for a schedule and for a client."""

from datetime import UTC, datetime

from a2a_lambda import Turn, skill


@skill
async def summary(turn: Turn) -> str:
    # The time for which the schedule was started. It is the same in every attempt, however late it runs. A
    # client can send such metadata, too, so only that of a trigger counts.
    schedule = turn.metadata.get("schedule") if turn.caller.kind == "trigger" else None
    until = datetime.fromisoformat(schedule["time"]) if schedule else datetime.now(UTC)
    return await summarize(until)


async def summarize(until: datetime) -> str:
    """Replace this with real work: read what is new up to a time, and ask a model to summarize it.

    If it has effects elsewhere, such as a mail, pass `turn.id` along as their idempotency key: a worker that
    dies is replaced, and the turn runs again.
    """
    return f"Until {until:%Y-%m-%d %H:%M} UTC, all was quiet."
