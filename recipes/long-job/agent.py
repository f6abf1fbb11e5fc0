"""A job of minutes: the client gets a task at once, watches its progress, and is called at the end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from a2a_lambda import Artifact, Progress, Turn, skill

SECTIONS = ("Summary", "Background", "Findings", "Outlook")


@skill
async def report(
    turn: Turn, subject: Annotated[str, "what the report is about"] = "", seconds: float = 5.0
) -> AsyncIterator[Progress | Artifact | str]:
    subject = subject or turn.text
    for number, section in enumerate(SECTIONS, 1):
        yield Progress(f"{section}, {number} of {len(SECTIONS)}", stage=f"/report/{section.lower()}")
        text = await write(section, subject, seconds)
        yield Artifact("report.md", f"## {section}\n\n{text}\n\n")
    yield f"The report about {subject} is done."


async def write(section: str, subject: str, seconds: float) -> str:
    """Replace this with real work. A cancellation raises asyncio.CancelledError here.

    If a worker dies, the turn runs again from its start. If your work has effects elsewhere, pass `turn.id`
    along as their idempotency key: it is the same in every attempt.
    """
    await asyncio.sleep(seconds)
    return f"What there is to say about {subject}."
