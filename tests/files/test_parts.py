"""Where a task, an event or a message has parts: every reader and every change sees the same ones."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda.protocol.model import Part
from a2a_lambda.protocol.stored_file import change_parts, parts_of

PARTS = st.lists(st.builds(lambda text: {"text": text}, st.text(max_size=3)), max_size=3)

PICTURES = st.lists(
    st.sampled_from(
        [
            {"type": "url", "value": "https://example.com/a.png"},
            {"type": "base64", "value": "AAAA"},
            {"type": ["url"], "value": "a"},
            {"type": "file", "value": "a"},
            {"type": "url", "value": 1},
            "a.png",
        ]
    ),
    max_size=3,
)

METADATA = st.fixed_dictionaries({}, optional={"images": PICTURES | st.just("none")})

MESSAGES = st.fixed_dictionaries(
    {"role": st.just("ROLE_USER"), "parts": PARTS}, optional={"metadata": METADATA}
)

ARTIFACTS = st.fixed_dictionaries(
    {"artifactId": st.just("a"), "parts": PARTS}, optional={"metadata": METADATA}
)

STATUSES = st.fixed_dictionaries({"state": st.just("TASK_STATE_WORKING")}, optional={"message": MESSAGES})

TASKS = st.fixed_dictionaries(
    {"id": st.just("t"), "status": STATUSES},
    optional={"history": st.lists(MESSAGES, max_size=3), "artifacts": st.lists(ARTIFACTS, max_size=3)},
)

HOLDERS = (
    MESSAGES
    | TASKS
    | st.fixed_dictionaries({"task": TASKS})
    | st.fixed_dictionaries({"artifactUpdate": st.fixed_dictionaries({"artifact": ARTIFACTS})})
    | st.fixed_dictionaries({"statusUpdate": st.fixed_dictionaries({"status": STATUSES})})
)


@given(HOLDERS)
def test_what_is_read_is_what_would_be_changed(holder: Any) -> None:
    parts: list[Part] = []

    def see(part: Part) -> Part:
        parts.append(part)
        return part

    assert change_parts(holder, see) is holder
    assert parts_of(holder) == parts


def test_pictures_follow_the_parts_of_their_message_and_artifacts_come_first() -> None:
    pictures = [{"type": "base64", "value": "AAAA"}, {"type": "url", "value": "https://example.com/a.png"}]
    message = {"role": "ROLE_USER", "parts": [{"text": "look"}], "metadata": {"images": pictures}}
    artifact = {"artifactId": "a", "parts": [{"text": "a cat"}], "metadata": {"images": pictures}}
    task: Any = {"history": [message], "artifacts": [artifact]}
    assert parts_of(task) == [
        {"text": "a cat"},
        {"text": "look"},
        {"raw": "AAAA"},
        {"url": "https://example.com/a.png"},
    ]
