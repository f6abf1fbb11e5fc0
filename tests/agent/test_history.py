"""What an agent is given of its conversation, and what it may keep."""

import asyncio
import json
from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda import Agent, Answer, MemoryFull, Turn
from a2a_lambda.agent.turn import Memory
from a2a_lambda.protocol.model import Part
from a2a_lambda.tasks.context import (
    CONVERSATION_BYTES,
    CONVERSATION_LENGTH,
    MEMORY_BYTES,
    Context,
    Utterance,
)
from tests.agent.folders import write

STREAMS = {
    "generator": "def hello(turn):\n    for t in ('Hel', 'lo, ', 'wor', 'ld'): yield t",
    "async generator": "async def hello(turn):\n    for t in ('Hel', 'lo, ', 'wor', 'ld'): yield t",
    "tuple": "def hello(turn): return 'Hel', 'lo, ', 'wor', 'ld'",
}


def talk(agent: Agent, *texts: str) -> Answer:
    async def go() -> Answer:
        answer: Answer | None = None
        for text in texts:
            answer = await agent.run(text, after=answer)
        assert answer is not None
        return answer

    return asyncio.run(go())


@pytest.mark.parametrize("how", STREAMS)
def test_a_streamed_reply_comes_back_whole(tmp_path: Any, how: str) -> None:
    agent = Agent.load(write(tmp_path, f"@skill\n{STREAMS[how]}"))
    answer = talk(agent, "hi")
    user, reply = answer.context.conversation
    assert (user.text, reply.text) == ("hi", "Hello, world")
    assert reply.parts == [{"text": "Hello, world"}], "one part, whose bytes count once"
    assert answer.task["artifacts"][0]["parts"] == reply.parts


@pytest.mark.parametrize("output", ["Message('Hello!')", "'Wait. ', Message('Hello!')", "Ask('Hello!')"])
def test_a_message_that_ends_a_turn_is_part_of_the_conversation(tmp_path: Any, output: str) -> None:
    agent = Agent.load(write(tmp_path, f"@skill\ndef hello(turn): return {output}"))
    *_, reply = talk(agent, "hi").context.conversation
    assert reply.text.endswith("Hello!")


def test_what_is_no_text_keeps_its_place(tmp_path: Any) -> None:
    code = """
    @skill
    def hello(turn):
        yield "a"
        yield "b"
        yield {"n": 1}
        yield "c"
        yield "d"
        yield Ask("Which?")
    """
    [_, reply] = talk(Agent.load(write(tmp_path, code)), "hi").context.conversation
    assert reply.parts == [{"text": "ab"}, {"data": {"n": 1}}, {"text": "cd"}, {"text": "Which?"}]


def test_a_thousand_tokens_leave_room_for_the_conversation(tmp_path: Any) -> None:
    code = "@skill\ndef hello(turn):\n    for _ in range(1000): yield 'word '"
    conversation = talk(Agent.load(write(tmp_path, code)), *"abcdefgh").context.conversation
    assert len(conversation) == 16


def turn_of(conversation: list[Utterance], text: str = "now") -> Turn:
    message: Any = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return Turn(message=message, context=Context(conversation=tuple(conversation)))


def said(role: Any, *parts: Part) -> Utterance:
    return Utterance(role, list(parts), "t")


def test_messages_as_apis_take_them() -> None:
    turn = turn_of(
        [
            said("user", {"text": "one"}),
            said("agent", {"text": "eins"}),
            said("user", {"text": "fails"}),
            said("user", {"text": "two"}),
            said("agent", {"data": {"n": 2}}, {"filename": "map.png", "url": "https://x"}),
        ]
    )
    assert turn.messages() == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "eins"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": '{"n":2}\n[file: map.png]'},
        {"role": "user", "content": "now"},
    ]
    assert [message["role"] for message in turn.messages(assistant="model")] == ["user", "model"] * 2 + [
        "user"
    ]
    assert turn.messages(blocks=True)[1] == {"role": "assistant", "content": [{"text": "eins"}]}
    assert turn_of([], " \n").messages() == [{"role": "user", "content": "(no text)"}]


def test_a_turn_that_was_started_without_words_is_in_the_messages() -> None:
    """A form for a skill's parameters starts such a turn."""
    turn = turn_of([said("user"), said("agent", {"text": "A joke."})])
    assert [message["content"] for message in turn.messages()] == ["(no text)", "A joke.", "now"]


PARTS = st.one_of(
    st.fixed_dictionaries({"text": st.text(max_size=5)}),
    st.fixed_dictionaries({"data": st.integers() | st.none()}),
    st.fixed_dictionaries({"mediaType": st.text(max_size=3), "filename": st.text(max_size=3)}),
)

CONVERSATIONS = st.lists(
    st.builds(Utterance, st.sampled_from(["user", "agent"]), st.lists(PARTS, max_size=3), st.just("t"))
)


@given(CONVERSATIONS, st.text(max_size=5))
def test_messages_are_what_a_model_accepts(conversation: list[Utterance], text: str) -> None:
    """The conversation may have a reply alone, a failed turn, or a turn in which nothing was said."""
    messages = turn_of(conversation, text).messages()
    roles = [message["role"] for message in messages]
    assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    assert roles[-1] == "user"
    assert all(message["content"].strip() for message in messages)


def test_blocks_are_what_bedrock_converse_takes() -> None:
    model: Any = Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    messages = turn_of([said("user", {"text": "a"}), said("agent", {"text": "b"})]).messages(blocks=True)
    report = ParamValidator().validate({"modelId": "m", "messages": messages}, model)
    assert not report.has_errors(), report.generate_report()


def test_failed_turns_leave_no_hole(tmp_path: Any) -> None:
    code = "@skill\ndef hello(turn):\n    return Reject('no') if 'bad' in turn.text else turn.messages()"
    agent = Agent.load(write(tmp_path, code))
    [messages] = talk(agent, "one", "bad", "two").data
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[0]["content"] == "one"


def test_a_conversation_is_kept_in_whole_turns(tmp_path: Any) -> None:
    code = "@skill\ndef hello(turn): return 'x' * int(turn.text)"
    agent = Agent.load(write(tmp_path, code))
    for texts in (["10"] * 30, ["30000"] * 3, ["10", str(CONVERSATION_BYTES - 40), "10"]):
        conversation = talk(agent, *texts).context.conversation
        assert 0 < len(conversation) <= CONVERSATION_LENGTH
        assert [entry.role for entry in conversation] == ["user", "agent"] * (len(conversation) // 2)
        assert len(json.dumps([entry.parts for entry in conversation])) < CONVERSATION_BYTES + 2_000
    small = talk(agent, "10", str(CONVERSATION_BYTES), "20").context.conversation
    assert [entry.text for entry in small if entry.role == "user"] == ["10", "20"], (
        "the large one is left out"
    )


def test_a_full_memory_says_so_at_set(tmp_path: Any) -> None:
    code = """
    @skill
    def hello(turn):
        lines = turn.memory.get("lines", [])
        lines.append("x" * 100_000)
        try:
            turn.memory.set("lines", lines)
        except MemoryFull as full:
            turn.memory.set("lines", lines[-1:])
            return str(full)
        return str(len(lines))
    """
    agent = Agent.load(write(tmp_path, code))
    assert talk(agent, "1", "2").text == "2"
    full = talk(agent, "1", "2", "3")
    assert "'lines'" in full.text
    assert f"{MEMORY_BYTES:,}" in full.text
    assert talk(agent, "1", "2", "3", "4").text == "2", "the conversation continues"


def test_a_full_memory_ends_a_turn_that_does_not_look(tmp_path: Any) -> None:
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(turn): turn.memory.set('a', 'x' * 300_000)"))
    with pytest.raises(MemoryFull):
        talk(agent, "1")


KEYS = st.sampled_from(["a", "b", "é"])
CHANGES = st.tuples(st.sampled_from(["set", "add", "delete"]), KEYS, st.integers(0, 150_000))


@given(st.lists(CHANGES, max_size=12))
def test_memory_never_holds_more_than_is_stored(changes: list[tuple[str, str, int]]) -> None:
    memory = Memory({})
    for how, key, size in changes:
        try:
            match how:
                case "set":
                    memory.set(key, "x" * size)
                case "add":
                    memory.add(key, size)
                case _:
                    memory.delete(key)
        except (MemoryFull, TypeError):
            continue
    values = {key: memory.get(key) for key in memory}
    assert len(json.dumps(values, ensure_ascii=False).encode()) <= MEMORY_BYTES + 100


def test_a_skill_may_delete_each_key_of_the_memory() -> None:
    memory = Memory({"a": 1, "b": 2})
    memory.set("c", 3)
    for key in memory:
        memory.delete(key)
    assert list(memory) == []


def test_what_is_deleted_from_the_memory_makes_room() -> None:
    memory = Memory({"a": "x" * (MEMORY_BYTES - 100)})
    with pytest.raises(MemoryFull):
        memory.set("b", "x" * 1_000)
    memory.delete("a")
    memory.set("b", "x" * (MEMORY_BYTES - 100))
    assert list(memory) == ["b"]


@pytest.mark.parametrize("key", [42, None, ("a", "b")])
def test_a_key_of_the_memory_is_text(key: Any) -> None:
    """Stored as JSON it would be another key, and a counter would begin again in every turn."""
    memory = Memory({})
    for change in (lambda: memory.set(key, 1), lambda: memory.add(key), lambda: memory.delete(key)):
        with pytest.raises(TypeError, match=r"a memory key must be a string: write str\("):
            change()
    assert memory.changes == []


def test_a_key_of_the_memory_can_be_stored() -> None:
    memory = Memory({})
    with pytest.raises(ValueError, match="surrogates not allowed"):
        memory.set("\ud800", 1)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        memory.delete("\ud800")
    assert memory.changes == []
