"""Calls another agent, of any version of A2A, and streams its answer through."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from a2a_lambda import Ask, Progress, SkillError, Turn, skill
from a2a_lambda.client import AgentError, Client

Output = str | Progress | Ask


@skill
async def ask(turn: Turn) -> AsyncIterator[Output]:
    url = turn.setting("other-url")
    # An agent on this machine, such as another one of make run, has no https.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost")
    # Where the conversation with the other agent stands: its contextId, and its taskId if it has asked.
    place: dict[str, str] = turn.memory.get("other", {})
    try:
        async with Client(url, key=turn.secret("other"), private=is_local) as other:
            async for event in other.stream(turn.text, **place):
                if "artifactUpdate" in event:
                    for part in event["artifactUpdate"]["artifact"]["parts"]:
                        if "text" in part:
                            yield part["text"]
                elif "message" in event:
                    yield text_of(event["message"])
                elif "statusUpdate" in event:
                    update = event["statusUpdate"]
                    place = {"contextId": update["contextId"]}
                    said = text_of(update["status"].get("message"))
                    match update["status"]["state"].removeprefix("TASK_STATE_"):
                        case "WORKING" if said:
                            yield Progress(said)
                        case "INPUT_REQUIRED":
                            place["taskId"] = update["taskId"]
                            turn.memory.set("other", place)
                            yield Ask(said or "?")
                            return
                        case "COMPLETED":
                            if said:
                                yield said
                        case "FAILED" | "REJECTED" | "CANCELED" as state:
                            raise SkillError(said or f"The other agent answered: {state.lower()}.")
    except AgentError as error:
        raise SkillError("The other agent cannot be reached.") from error
    turn.memory.set("other", place)


def text_of(message: object) -> str:
    """Text of a message, "" without one."""
    parts = message["parts"] if isinstance(message, dict) else []
    return " ".join(part["text"] for part in parts if "text" in part)
