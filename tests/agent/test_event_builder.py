"""The events that outputs become."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda import Artifact, Ask, Command, File
from a2a_lambda.agent.event_builder import CLOSING_BYTES, EventBuilder
from a2a_lambda.agent.outputs import Batch, FinalMessage, Structured
from a2a_lambda.durable.engine import Exchange
from a2a_lambda.errors import AgentMistake, SkillError
from tests.helpers.clock import cpu_seconds

CONTENTS = st.sampled_from(["text", "", File("a.bin", b"bytes"), Structured({"key": 1})])

OUTPUTS = CONTENTS | st.builds(Artifact, st.sampled_from(["first", "second"]), CONTENTS)


@given(st.lists(st.lists(OUTPUTS, max_size=3), min_size=1, max_size=5))
def test_the_last_chunk_of_each_artifact_says_so_and_the_newest_one_ends_last(
    batches: list[list[Any]],
) -> None:
    builder, updates = EventBuilder("t", "c"), list[Any]()
    for index, outputs in enumerate(batches):
        events = builder.build(Batch(outputs, is_last=index == len(batches) - 1))
        updates += [event["artifactUpdate"] for event in events]
    ends = {update["artifact"]["artifactId"]: index for index, update in enumerate(updates)}
    assert [index for index, update in enumerate(updates) if update["lastChunk"]] == sorted(ends.values())
    last_parts: dict[str, Any] = {}
    for update in updates:
        identity, parts = update["artifact"]["artifactId"], update["artifact"]["parts"]
        if update["append"] and not parts:
            assert "text" not in last_parts[identity], "a text is ended by a text"
        last_parts[identity] = parts[-1] if parts else {}
    if updates:
        assert updates[-1]["artifact"]["artifactId"] == builder.artifact_ids[-1]


TALK = OUTPUTS | st.sampled_from(
    [Exchange("Which?", [{"text": "that"}]), Exchange("", [{"text": "go on"}]), Command("flash")]
)

REFUSED = st.sampled_from(
    [
        object(),
        Structured(float("nan")),
        "\ud800",
        FinalMessage("x" * CLOSING_BYTES),
        FinalMessage(object()),
        Ask("Which?", known={"key": "\ud800"}),
    ]
)


@given(st.lists(TALK, max_size=4), st.lists(TALK, max_size=3), REFUSED, st.lists(TALK, max_size=4))
def test_nothing_of_a_batch_that_is_refused_stays(
    before: list[Any], outputs: list[Any], refused: Any, after: list[Any]
) -> None:
    def build(refused_outputs: list[Any]) -> list[Any]:
        builder = EventBuilder("t", "c", lambda: 0.0)
        events = builder.build(Batch(before, is_last=False))
        if refused_outputs:
            with pytest.raises((SkillError, AgentMistake)):
                builder.build(Batch(refused_outputs, is_last=True))
        parts, size = builder.parts, builder.total_bytes
        events += builder.build(Batch((*after, FinalMessage("done")), is_last=True))
        return [events, parts, size, builder.exchanges, builder.artifact_ids, builder.message_only]

    assert build([*outputs, refused]) == build([])


def test_many_chunks_are_composed_in_linear_time() -> None:
    """The last thousand of 100,000 takes about as long as the first, and not many times as long."""
    reply = EventBuilder(str(uuid.uuid4()), "c")

    def build_thousand() -> None:
        for _ in range(1_000):
            reply.build(Batch(("word ",), is_last=False))

    first = cpu_seconds(build_thousand)  # which builds three
    for _ in range(94):
        build_thousand()
    assert cpu_seconds(build_thousand) < 3 * first
    assert reply.parts == [{"text": "word " * 100_000}]
