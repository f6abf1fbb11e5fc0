"""What a skill puts out, and where its turn ends."""

import asyncio
import base64
from pathlib import Path

import pytest

from a2a_lambda import Agent, Answer, File
from a2a_lambda.errors import AgentMistake
from a2a_lambda.protocol.model import Part
from tests.agent.folders import CARD, run, write


@pytest.mark.parametrize(
    ("cleanup", "error"),
    [("pass", ""), ("raise OSError('cleanup')", "cleanup"), ("yield 'more'", "GeneratorExit")],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_cleanup_after_a_question_is_part_of_its_turn(
    tmp_path: Path, kind: str, cleanup: str, error: str
) -> None:
    """It runs before the question is asked, so an error of the cleanup is one of the turn."""
    code = f"""
    @skill
    {kind} hello(turn: Turn):
        try:
            yield Ask("Sure?")
        finally:
            {cleanup}
    """
    if not error:
        assert run(tmp_path, code).state == "input-required"
        return
    with pytest.raises((OSError, RuntimeError), match=error):
        run(tmp_path, code)


def test_nothing_in_a_tuple_is_no_output(tmp_path: Path) -> None:
    """None is no output outside of a tuple, either: a file may be there or not."""
    answer = run(tmp_path, "@skill\ndef hello(turn): return 'text', None")
    assert (answer.text, answer.state) == ("text", "completed")


def test_the_choices_of_a_question_may_come_from_a_generator(tmp_path: Path) -> None:
    code = "@skill\ndef hello(turn): return Ask('Which?', choices=(size for size in 'SML'))"
    asking = run(tmp_path, code)
    assert asking.task["status"]["message"]["metadata"]["choices"] == ["S", "M", "L"]


def test_a_question_may_be_yielded_within_a_task_group(tmp_path: Path) -> None:
    code = """
    import asyncio
    @skill
    async def hello(turn: Turn):
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            yield Ask("Sure?")
    """
    assert run(tmp_path, code).text == "Sure?"


def test_closing_a_task_group_hides_no_error_of_the_outputs(tmp_path: Path) -> None:
    code = """
    import asyncio
    async def chunks():
        raise OSError("cannot be read")
        yield b""
    @skill
    async def hello(turn: Turn):
        async with asyncio.TaskGroup():
            yield File("plan.txt", chunks())
    """
    with pytest.raises(OSError, match="cannot be read"):
        run(tmp_path, code)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_file_beside_a_question_is_read_before_its_stream_is_closed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "plan.txt").write_text("the plan")
    code = f"""
    @skill
    {kind} hello(turn: Turn):
        with open({str(tmp_path / "plan.txt")!r}, "rb") as stream:
            yield File("plan.txt", stream), Ask("Sure?")
    """
    [part] = run(tmp_path, code).artifacts[0]["parts"]
    assert base64.b64decode(part["raw"]) == b"the plan"


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    "output", ['Ask("Sure?")', 'Reject("No.")', 'Message("Bye.")', '("and", Authorize("Who?"))']
)
def test_code_after_an_output_that_ends_the_turn_does_not_run(tmp_path: Path, kind: str, output: str) -> None:
    code = f"""
    DONE = []
    @skill
    {kind} hello(turn: Turn):
        try:
            yield "first"
            yield {output}
            DONE.append("after")
            turn.memory.set("after", 1)
        finally:
            DONE.append("cleanup")
            turn.memory.set("cleanup", 1)
    """
    agent = Agent.load(write(tmp_path, code))
    answer = asyncio.run(agent.run("hi"))
    assert answer.context.memory == {"cleanup": 1}
    assert agent.skills["hello"].function.__globals__["DONE"] == ["cleanup"]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("output", ["{}", "Artifact('a', {})", "Artifact('a', 'x', metadata={{'rows': {}}})"])
def test_an_output_is_what_it_was_when_it_was_put_out(tmp_path: Path, kind: str, output: str) -> None:
    code = f"""
    @skill
    {kind} hello(turn):
        rows = []
        for number in range(3):
            rows.append(number)
            yield {output.format("rows")}
    """
    answer = run(tmp_path, code)
    artifacts = [event["artifactUpdate"]["artifact"] for event in answer.events if "artifactUpdate" in event]
    values = [
        artifact["metadata"]["rows"] if "metadata" in artifact else artifact["parts"][0]["data"]
        for artifact in artifacts
        if artifact["parts"] != [{"text": ""}]
    ]
    assert values == [[0], [0, 1], [0, 1, 2]]


def test_an_error_without_a_truth_value_ends_the_turn(tmp_path: Path) -> None:
    code = """
    class Errors(Exception):
        def __len__(self): return 0
    @skill
    def hello(turn):
        yield "checking"
        raise Errors("none")
    """
    with pytest.raises(Exception, match="none"):
        run(tmp_path, code)


def test_a_question_of_the_kit_is_none_of_the_skill(tmp_path: Path) -> None:
    code = """
    @skill
    def hello(turn: Turn, amount: int):
        if not turn.answering:
            return Ask(f"Pay {amount}?", choices=["yes", "no"])
        return "paid" if turn.text == "yes" else "not paid"
    """
    agent = Agent.load(write(tmp_path, code))

    async def talk(*texts: str) -> list[str]:
        answer: Answer | None = None
        answers = []
        for text in texts:
            answer = await agent.run(text, after=answer)
            answers.append(answer.text)
        return answers

    assert asyncio.run(talk("pay", "a lot", "100", "yes"))[2:] == ["Pay 100?", "paid"]


TRANSLATE = """
from typing import Literal

@skill
def translate(turn: Turn, language: Literal["en", "de"], note: str = ""):
    names = [file.name for file in turn.files]
    return {"text": turn.text, "files": names, "note": note, "last": turn.messages()[-1]["content"]}

@skill
def other(turn: Turn):
    return {"text": turn.text, "answering": turn.answering}
"""


TRANSLATE_CARD = (
    CARD.replace("id: hello", "id: translate") + "  - {{ id: other, name: Other, description: O. }}\n"
)


@pytest.mark.parametrize("names_skill", [False, True])
def test_a_skill_gets_the_message_that_called_it_when_the_kit_has_asked(
    tmp_path: Path, names_skill: bool
) -> None:
    """The answer fills the parameter, and its files come, too, whether the client names the skill again or
    not."""
    agent = Agent.load(write(tmp_path, TRANSLATE, TRANSLATE_CARD))
    skill = "translate" if names_skill else None

    async def talk() -> Answer:
        note = {"note": "x" * 5_000}
        question = await agent.run(
            "Hello", skill="translate", slots=note, files=[File("a.txt", b"1"), File("b.txt", b"2")]
        )
        refusal = await agent.run("French", skill=skill, files=[File("c.txt", b"3")], after=question)
        assert "“French” cannot be used" in refusal.text
        return await agent.run("de", skill=skill, slots=note if names_skill else {}, after=refusal)

    [answer] = asyncio.run(talk()).data
    assert answer["text"] == "Hello"
    assert answer["files"] == ["a.txt", "b.txt", "c.txt"]
    assert len(answer["note"]) == 5_000
    assert answer["last"] == "de", "a model reads the conversation as it was"


def test_a_message_to_another_skill_answers_no_question(tmp_path: Path) -> None:
    agent = Agent.load(write(tmp_path, TRANSLATE, TRANSLATE_CARD))

    async def talk() -> Answer:
        answer = await agent.run("Hello", skill="translate")
        return await agent.run("Hi", skill="other", after=answer)

    assert asyncio.run(talk()).data == [{"text": "Hi", "answering": False}]


def test_an_answer_that_cannot_be_used_still_answers_the_skill(tmp_path: Path) -> None:
    code = """
    @skill
    def hello(turn: Turn, count: int = 0):
        return Ask("How many?", fills="count") if not turn.answering else f"{count} it is"
    """
    agent = Agent.load(write(tmp_path, code))

    async def talk() -> Answer:
        answer = await agent.run("hi")
        again = await agent.run("many", after=answer)
        assert "cannot be used" in again.text
        return await agent.run("7", after=again)

    assert asyncio.run(talk()).text == "7 it is"


def test_a_file_may_have_no_name(tmp_path: Path) -> None:
    """One that a client sent without may go back as a new one."""
    answer = run(
        tmp_path, "@skill\ndef hello(turn): return File(None, b'1'), File(None, b'2', media_type='a/b')"
    )
    first, second = answer.artifacts[0]["parts"]
    assert (first, second) == ({"raw": "MQ=="}, {"raw": "Mg==", "mediaType": "a/b"})


def test_a_command_may_have_a_parameter_called_name(tmp_path: Path) -> None:
    [command] = run(tmp_path, "@skill\ndef hello(turn): return Command('play', name='song')").commands
    assert command == {"name": "play", "params": [{"name": "name", "value": "song"}]}


@pytest.mark.parametrize(
    "output", ["Ask(5)", "Ask('City?', known={'a': 1})", "Progress(5)", "Reject(None)", "Authorize(5)"]
)
def test_texts_of_outputs_are_texts(tmp_path: Path, output: str) -> None:
    with pytest.raises(TypeError, match="must be a string, not"):
        run(tmp_path, f"@skill\ndef hello(turn): return {output}")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_values_are_the_same_wherever_the_turn_ends(tmp_path: Path, kind: str) -> None:
    def answer(name: str, output: str) -> Answer:
        return run(tmp_path / name, f"@skill\n{kind} hello(turn):\n    yield {output}")

    assert answer("message", "Message({'a': 1})").data == [{"a": 1}]
    assert answer("question", "{'n': 1}, Ask('Which?')").data == [{"n": 1}]
    assert answer("value", "{'n': 1}").data == [{"n": 1}]


def test_the_data_of_a_message_is_that_of_the_answer(tmp_path: Path) -> None:
    assert run(tmp_path, "@skill\ndef hello(turn): return Message('x', {'a': 1})").data == [{"a": 1}]


@pytest.mark.parametrize("value", ["object()", "b'bytes'", "float('nan')", "{'a': float('inf')}", "{1, 2}"])
def test_what_no_event_can_carry_fails(tmp_path: Path, value: str) -> None:
    with pytest.raises((AgentMistake, TypeError, ValueError)):
        run(tmp_path, f"@skill\ndef hello(turn): return {value}")


def test_the_parameters_of_a_command_are_texts_or_json(tmp_path: Path) -> None:
    params = "a='text', b=True, c=2, d=['x', 'é'], e=('3', '03'), f=(1, True), g=date(2026, 1, 31)"
    code = f"from datetime import date\n@skill\ndef hello(turn): return Command('play', {params})"
    [command] = run(tmp_path, code).commands
    texts = [(param["value"], param.get("normValue")) for param in command["params"]]
    assert texts == [
        ("text", None),
        ("true", None),
        ("2", None),
        ('["x","é"]', None),
        ("3", "03"),
        ("1", "true"),
        ("2026-01-31", None),
    ]


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("Decimal('1.10')", {"text": "1.10"}),
        ("date(2026, 1, 31)", {"text": "2026-01-31"}),
        ("datetime(2026, 1, 31, 18)", {"text": "2026-01-31T18:00:00"}),
        ("UUID(int=1)", {"text": "00000000-0000-0000-0000-000000000001"}),
        ("Enum('Unit', {'KM': 'km'}).KM", {"text": "km"}),
        ("Enum('Size', {'BIG': (1, 2)}).BIG", {"data": [1, 2]}),
    ],
)
def test_a_value_that_json_has_as_a_string_is_text(tmp_path: Path, output: str, part: Part) -> None:
    imports = "from datetime import date, datetime\nfrom decimal import Decimal\nfrom enum import Enum\n"
    code = f"{imports}from uuid import UUID\n@skill\ndef hello(turn): return {output}"
    [artifact] = run(tmp_path, code).task["artifacts"]
    assert artifact["parts"] == [part]


@pytest.mark.parametrize("words", ["'Done.'", "Message('Done.')", "Ask('Again?')"])
def test_commands_are_found_wherever_they_are_sent(tmp_path: Path, words: str) -> None:
    """They are in the last artifact, or in the message that ends the turn."""
    answer = run(tmp_path, f"@skill\ndef hello(turn): return Command('flash'), {words}")
    assert answer.commands == [{"name": "flash"}]


@pytest.mark.parametrize(
    ("outputs", "text", "state"),
    [
        ('Ask("Which?"), "First, this."', "First, this.Which?", "input-required"),
        ('Reject("No."), "Because."', "Because.No.", "rejected"),
    ],
)
def test_what_stands_beside_the_end_of_a_turn_is_not_lost(
    tmp_path: Path, outputs: str, text: str, state: str
) -> None:
    answer = run(tmp_path, f"@skill\ndef hello(turn): return {outputs}")
    assert answer.state == state
    words = [part["text"] for artifact in answer.artifacts for part in artifact["parts"]]
    assert "".join([*words, answer.text]) == text


def test_a_message_has_the_command_beside_it(tmp_path: Path) -> None:
    answer = run(tmp_path, "@skill\ndef hello(turn): return Message('hi'), Command('flash')")
    assert (answer.text, [command["name"] for command in answer.commands]) == ("hi", ["flash"])


def test_a_serializer_that_fails_does_not_say_with_what(tmp_path: Path) -> None:
    code = """
        from pydantic import BaseModel, field_serializer

        class Card(BaseModel):
            number: str

            @field_serializer("number")
            def mask(self, value): raise ValueError(f"cannot mask {value}")

        @skill
        def hello(turn): return Card(number=turn.text)
    """
    with pytest.raises(AgentMistake, match="a Card cannot become JSON: its serializer failed") as error:
        run(tmp_path, code, "4111")
    assert "4111" not in str(error.value)
