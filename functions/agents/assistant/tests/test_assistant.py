"""The example agent, in English and Chinese."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, Answer


@pytest.fixture(scope="module")
def assistant() -> Agent:
    return Agent.load(Path(__file__).parents[1])


def say(agent: Agent, *texts: str, **options: Any) -> Answer:
    """The last answer of a conversation."""

    async def talk() -> Answer:
        answer: Answer | None = None
        for text in texts:
            answer = await agent.run(text, after=answer, **options)
        assert answer is not None
        return answer

    return asyncio.run(talk())


@pytest.mark.parametrize(
    "text", ["Will it rain today?", "今天会下雨吗？", "I like football", "address", " 1 "]
)
def test_repeats(assistant: Agent, text: str) -> None:
    assert say(assistant, text).text == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What is 1 plus 2?", "1 plus 2 is 3."),
        ("add 2 and 2", "2 plus 2 is 4."),
        ("5 + 3", "5 plus 3 is 8."),
        ("1 plus -2", "1 plus -2 is -1."),
        ("0.1 plus 0.2", "0.1 plus 0.2 is 0.3."),
        ("1,000 plus 1", "1000 plus 1 is 1001."),
        ("9007199254740993 plus 1", "9007199254740993 plus 1 is 9007199254740994."),
        (f"{'9' * 60} plus 0.5", f"{'9' * 60} plus 0.5 is {'9' * 60}.5."),
        ("1加2等于几？", "1 加 2 等于 3。"),
        ("请把１０加５", "10 加 5 等于 15。"),
        ("-0.0 plus 0", "0 plus 0 is 0."),
    ],
)
def test_calculates_from_the_text(assistant: Agent, text: str, answer: str) -> None:
    assert say(assistant, text).text == answer


@pytest.mark.parametrize(
    ("slots", "answer"),
    [
        ({"num1": "101", "num2": "102"}, "101 plus 102 is 203."),
        ({"num1": "1.50", "num2": "2"}, "1.5 plus 2 is 3.5."),
        ({"num1": "9" * 50, "num2": "1"}, f"{'9' * 50} plus 1 is 1{'0' * 50}."),
        ({"num1": "1"}, "1 plus 2 is 3."),
        ({"num1": "1,000", "num2": "１"}, "1000 plus 1 is 1001."),
    ],
)
def test_calculates_from_slots(assistant: Agent, slots: dict[str, str], answer: str) -> None:
    assert say(assistant, "What is 1 plus 2?", skill="ai-calculate", slots=slots).text == answer


def test_a_number_that_the_text_and_a_slot_have_counts_once(assistant: Agent) -> None:
    question = say(assistant, "add 5", skill="ai-calculate", slots={"num1": "5"})
    assert question.text == "What should I add to 5?"


def test_asks_for_numbers_until_it_has_two(assistant: Agent) -> None:
    assert say(assistant, "add").state == "input-required"
    assert say(assistant, "add", "5").text == "What should I add to 5?"
    assert say(assistant, "add", "5", "5").text == "5 plus 5 is 10."
    assert say(assistant, "加").text == "请问是哪两个数？"


@pytest.mark.parametrize(
    "text",
    [
        "5-3 plus 2",
        "1e5 + 1",
        "add 1/3 and 1/3",
        "2*3 plus 1",
        "minus 3 plus 4",
        "2 times 3 plus 1",
        "负3加5",
    ],
)
def test_does_not_add_what_is_no_sum(assistant: Agent, text: str) -> None:
    assert say(assistant, text).state == "input-required"


def test_a_question_is_left_for_another_skill(assistant: Agent) -> None:
    assert say(assistant, "coach me", "what is 1 plus 2").text == "1 plus 2 is 3."
    assert say(assistant, "add", "flash please").text == "Flash!"
    assert say(assistant, "add 1", "plus 2").text == "1 plus 2 is 3."
    assert say(assistant, "coach me", "chess").state == "input-required"


def test_a_question_stays_where_the_other_skill_would_ask_too(assistant: Agent) -> None:
    for text in ("add", "add 5", f"add 1 and {'9' * 11_000}"):
        assert "basketball or football" in say(assistant, "coach me", text).text
    assert "Dribble" in say(assistant, "coach me", "add 5", "basketball").text
    assert "Which two numbers" in say(assistant, "add", "coach me").text


def test_does_not_add_what_would_take_for_ever(assistant: Agent) -> None:
    slots = {"num1": "1e999999", "num2": "1"}
    assert say(assistant, "add", skill="ai-calculate", slots=slots).state == "input-required"


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["Count how many sentences I have said."], 1),
        (["Hello. How are you?", "count"], 3),
        (["你好！今天怎么样？挺好的。", "我说了几句？"], 4),
        (["It costs 1.50 today... really?!", "count!"], 3),
        (["...", "count"], 1),
        (["one\ntwo", "how many sentences did I say?"], 3),
        (["e.g. this one.", "count"], 2),
        (["v1.2.3 works. Dr. Who lives!", "count"], 3),
        (["U.S.A. is big.", "count"], 2),
        (["See http://a.b/c?d=e&f=g! now.", "count"], 3),
        (["他说:Hello!你好。", "count"], 3),
    ],
)
def test_counts_sentences(assistant: Agent, texts: list[str], count: int) -> None:
    assert f" {count} " in say(assistant, *texts).text


def test_flashes(assistant: Agent) -> None:
    for text, answer in (("Perform a flash.", "Flash!"), ("闪一下", "闪一下！")):
        reply = say(assistant, text)
        assert (reply.text, reply.commands) == (answer, [{"name": "flash"}])


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (["Teach me basketball"], "Dribble"),
        (["How to play basketball well."], "Dribble"),
        (["coach me", "soccer"], "touch"),
        (["coach me", "the weather is fine", "basketball"], "Dribble"),
        (["教我打篮球"], "运球"),
        (["教教我", "足球"], "触球"),
    ],
)
def test_coaches(assistant: Agent, texts: list[str], word: str) -> None:
    answer = say(assistant, *texts)
    assert answer.state == "completed"
    assert word in answer.text
    assert len(answer.events) >= 4


def test_asks_which_sport(assistant: Agent) -> None:
    assert say(assistant, "Teach me something").state == "input-required"
    for named in ("football", "Basketball", "篮球"):
        assert say(assistant, "coach", skill="ai-coach", slots={"sport": named}).state == "completed"
    assert say(assistant, "coach", skill="ai-coach", slots={"sport": "chess"}).state == "input-required"


def test_many_dots_are_counted_at_once(assistant: Agent) -> None:
    """A search that began again at each of them would take minutes."""
    assert say(assistant, "Count the sentences: one. two" + "." * 200_000 + "x").text
