"""The authoring interface, as the one who writes an agent meets it: without HTTP."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, Answer, Caller, Turn, agent_threads
from a2a_lambda.errors import AgentMistake, ConfigurationError
from tests.agent.folders import CARD, run, write
from tests.conftest import ROOT, count_running_code
from tests.helpers.clock import wait_until


@pytest.mark.parametrize(
    "code",
    [
        "@skill\ndef hello(turn: Turn): return turn.text",
        "@skill\nasync def hello(turn: Turn): return turn.text",
        "@skill\ndef hello(turn: Turn): yield turn.text",
        "@skill\nasync def hello(turn: Turn): yield turn.text",
        "@skill\ndef hello(turn): return (turn.text[0], turn.text[1:])",
        "@skill\ndef hello(turn: Turn): return other(turn)\nasync def other(turn): return turn.text",
        "@skill\ndef hello(turn: Turn): return other(turn)\nasync def other(turn): yield turn.text",
        "@skill\nasync def hello(turn: Turn): return other(turn)\nasync def other(turn): yield turn.text",
        "@skill('hello')\ndef anything(turn: Turn): return turn.text",
    ],
)
def test_a_skill_is_any_function(tmp_path: Path, code: str) -> None:
    answer = run(tmp_path, code)
    assert (answer.text, answer.state) == ("hi", "completed")


def test_an_answer_may_have_a_field_with_the_name_of_its_parameter(tmp_path: Path) -> None:
    code = """
    from pydantic import BaseModel
    class Address(BaseModel):
        address: str
        city: str
    @skill
    def hello(turn, address: Address): return f"{address.address}, {address.city}"
    """
    agent = Agent.load(write(tmp_path, code))
    asking = asyncio.run(agent.run("hi"))
    answer = '{"address": "Main St", "city": "Rome"}'
    assert asyncio.run(agent.run(answer, after=asking)).text == "Main St, Rome"
    answer = f'{{"address": {answer}}}'
    assert asyncio.run(agent.run(answer, after=asking)).text == "Main St, Rome"


def test_an_agent_reads_the_files_beside_it(tmp_path: Path) -> None:
    code = """
    import pkgutil
    from importlib import resources
    @skill
    def hello(turn):
        path = resources.files(__package__).joinpath("data.txt")
        return path.read_text() + pkgutil.get_data(__package__, "data.txt").decode()
    """
    folder = write(tmp_path, code)
    (folder / "data.txt").write_text("anvil ")
    assert asyncio.run(Agent.load(folder).run("hi")).text == "anvil anvil "


def test_what_has_every_attribute_is_no_skill(tmp_path: Path) -> None:
    code = """
    from unittest.mock import MagicMock, call
    from xmlrpc.client import ServerProxy
    wiki, mock = ServerProxy("http://localhost/"), MagicMock()
    @skill
    def hello(turn): return "hi"
    """
    assert run(tmp_path, code).text == "hi"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "@skill('hello')\ndef a(turn): return 1\n@skill('hello')\ndef b(turn): return 2",
            "agent.py:[0-9]+: this function and the one at .*agent.py:[0-9]+ are both the skill 'hello'",
        ),
        (
            "@skill\ndef hello(turn): return 1\n@route\ndef a(turn): ...\n@route\ndef b(turn): ...",
            "several functions have @route",
        ),
    ],
)
def test_one_function_is_one_skill(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(tmp_path, code)
    assert run(tmp_path / "other", "@skill\ndef hello(turn): return 'hi'\nsame = hello").text == "hi"


def test_a_wrapper_takes_the_place_of_the_skill_or_router_that_it_wraps(tmp_path: Path) -> None:
    code = """
    import functools
    def loud(function):
        @functools.wraps(function)
        def wrapper(turn): return function(turn) + "!"
        return wrapper
    @skill
    def hello(turn): return "hello"
    louder = loud(loud(hello))
    @route
    def choose(turn): return "hel"
    choose_loudly = functools.wraps(choose)(lambda turn: choose(turn) + "lo")
    """
    assert run(tmp_path, code).text == "hello!!"


def test_a_wrapper_with_an_id_of_its_own_is_another_skill(tmp_path: Path) -> None:
    card = CARD + "  - {{ id: hello-loud, name: Loud, description: Loud. }}\n"
    code = """
    import functools
    @skill(default=True)
    def hello(turn): return "hello"
    @skill("hello-loud")
    @functools.wraps(hello)
    def loud(turn): return hello(turn) + "!"
    """
    agent = Agent.load(write(tmp_path, code, card))
    assert asyncio.run(agent.run("hi")).text == "hello"
    assert asyncio.run(agent.run("hi", skill="hello-loud")).text == "hello!"
    with pytest.raises(TypeError, match="a message must be a string, not a dict: data goes into parts="):
        asyncio.run(agent.run({"a": 1}))  # type: ignore[arg-type]


def test_a_skill_needs_no_turn(tmp_path: Path) -> None:
    code = "@skill\ndef hello(first: int, second: int = 2): return first + second"
    answer = run(tmp_path, code, skill="hello", slots={"first": "40"})
    assert answer.data == [42]


def test_what_a_skill_raises_reaches_the_test(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, "@skill\ndef hello(turn): return 1 / 0")


def test_a_missing_argument_is_asked_for_and_filled_by_the_answer(tmp_path: Path) -> None:
    code = """
    from typing import Annotated
    @skill
    def hello(name: str, age: Annotated[int, "your age"]): return f"{name} is {age}"
    """
    agent = Agent.load(write(tmp_path, code))

    async def talk() -> list[Answer]:
        first = await agent.run(skill="hello", slots={"age": "old"})
        second = await agent.run("Ann", after=first)
        third = await agent.run("seven", after=second)
        return [first, second, third, await agent.run("7", after=third)]

    name, age, again, end = asyncio.run(talk())
    assert [answer.state for answer in (name, age, again)] == ["input-required"] * 3
    assert "name" in name.text
    assert "your age" in age.text
    assert (end.text, end.state) == ("Ann is 7", "completed")


def test_memory_and_history_continue(tmp_path: Path) -> None:
    code = """
    @skill
    def hello(turn):
        before = [f"{said.role}: {said.text}" for said in turn.history]
        turn.memory.set("last", turn.text)
        return {"n": turn.memory.add("n"), "before": before}
    """
    agent = Agent.load(write(tmp_path, code))

    async def talk() -> Answer:
        return await agent.run("two", after=await agent.run("one"))

    answer = asyncio.run(talk())
    assert answer.data == [{"n": 2, "before": ["user: one", "agent: "]}]
    assert answer.context.memory == {"last": "two", "n": 2}


LOOP = """
import asyncio, threading
from a2a_lambda import skill

seen = []

@skill
def hello(turn):
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    seen.append(threading.get_ident())
    return f"{threading.current_thread().name}, threads: {len(set(seen))}"
"""


def test_a_kept_thread_has_no_event_loop_of_the_turn_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skill may make an event loop for its thread, and close it."""
    # A thread that still runs for an earlier test would join the idle ones.
    wait_until(lambda: not count_running_code())
    monkeypatch.setattr(agent_threads, "_idle_threads", deque())
    agent = Agent.load(write(tmp_path, LOOP))
    for _ in range(3):
        assert asyncio.run(agent.run("hi")).text == "skill hello, threads: 1"
        wait_until(lambda: agent_threads._idle_threads)


def test_a_router_chooses_where_no_intent_is_named(tmp_path: Path) -> None:
    card = CARD + "  - { id: other, name: Other, description: The other. }\n"
    code = """
    @skill(default=True)
    def hello(turn): return "hello"
    @skill
    def other(turn): return "other"
    @route
    async def choose(turn): return other if "other" in turn.text else None
    """
    agent = Agent.load(
        write(tmp_path, code, card.replace("{ id: other", "{{ id: other").replace("other. }", "other. }}"))
    )

    async def talk() -> list[str]:
        answer = await agent.run("other", skill="hello")
        return [(await agent.run("the other")).text, (await agent.run("x")).text, answer.text]

    assert asyncio.run(talk()) == ["other", "hello", "hello"]


def test_a_test_replaces_what_an_agent_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from json import dumps\n@skill\ndef hello(turn): return dumps([])"
    agent = Agent.load(write(tmp_path, code))
    monkeypatch.setattr("agents.hello.agent.dumps", lambda value: "replaced")
    assert asyncio.run(agent.run("x")).text == "replaced"


def test_an_agent_that_is_loaded_again_has_nothing_of_its_old_file(tmp_path: Path) -> None:
    folder = write(tmp_path, "@route\ndef old(turn): return hello\n@skill\ndef hello(turn): ...")
    Agent.load(folder)
    (folder / "agent.py").write_text("from a2a_lambda import skill\n@skill\ndef hello(turn): return 'new'")
    assert Agent.load(folder).profile.default_skill == "hello"


def test_an_agent_imports_its_neighbours(tmp_path: Path) -> None:
    folder = write(tmp_path, "from . import words\n@skill\ndef hello(turn): return words.GREETING")
    (folder / "words.py").write_text("GREETING = 'Good day'")
    assert asyncio.run(Agent.load(folder).run("x")).text == "Good day"


@pytest.mark.parametrize(
    ("code", "card", "what"),
    [
        ("", CARD, "no function has @skill: write it above"),
        ("@skill\ndef bye(turn): ...\n@skill\ndef hello(turn): ...", CARD, "'bye' is not in card.yaml"),
        ("@skill\ndef hello(turn, *rest): ...", CARD, "parameter rest"),
        ("@skill\ndef hello(turn): ...", "name: x", "description is missing"),
        ("@skill\ndef hello(turn): ...", CARD + "colour: red\n", "colour is not a field of a card"),
        (
            "@skill\ndef hello(turn): ...",
            CARD + "url: https://example.com\n",
            "url is not a field of a card: remove it, because the kit fills it in",
        ),
        ("@skill\ndef hello(turn): ...", "[", "not valid YAML"),
        ("@skill\ndef hello(turn): ...", CARD.partition("  -")[0], "skills is empty: write at least one"),
        ("@skill\ndef hello(turn): ...", "version: 2026-02-30", "not valid YAML: day is out of range"),
        (
            "@skill\ndef hello(turn): ...",
            CARD + "version: 1.0.0\n\nversion: 2.0.0\n",
            ":7: .*'version' appears twice: remove one",
        ),
        ("@skill\ndef hello(turn): ...", CARD.replace("id: hello", "id: x, id: hello"), "'id' appears twice"),
        ("@skill\ndef hello(turn): ...", r'name: "\ud83d\ude00"', "write the emoji itself"),
        (
            "@skill(default=True)\ndef hello(turn): ...\n@skill('bye', default=True)\ndef bye(turn): ...",
            CARD + "  - {{ id: bye, name: Bye, description: Says bye. }}\n",
            "several skills have default=True: remove it from all but one",
        ),
        ("@skill\ndef hello(turn): ...", CARD.replace(" }}", ", tags: [] }}"), "skills.0.tags is empty"),
    ],
)
def test_mistakes_are_named_where_they_are(tmp_path: Path, code: str, card: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as error:
        Agent.load(write(tmp_path, code, card))
    assert "hello" in str(error.value)


@pytest.mark.parametrize("name", ["v1", "v2", "a2a", "alibaba", "stream", "tasks", "messages", "a.b", "V1"])
def test_names_that_are_paths_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name"):
        Agent.load(write(tmp_path, "@skill\ndef hello(turn): ...", name=name))


def test_the_readmes_agent(tmp_path: Path) -> None:
    """The five lines of README.md, run."""
    readme = (ROOT / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    card = readme.split("```yaml\n")[1].split("```")[0]
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "card.yaml").write_text(card)
    (folder / "agent.py").write_text(code)
    answer = asyncio.run(Agent.load(folder).run("Ann"))
    assert answer.state == "completed"
    assert "Ann" in answer.text


def test_turn_is_quiet(tmp_path: Path) -> None:
    """What a log might print of a turn holds none of its text."""
    message: Any = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "private"}]}
    assert "private" not in repr(Turn(message=message))


@pytest.mark.parametrize("code", ["turn.step('pay', print)", "[turn.sleep(hours=1)]"])
def test_an_operation_that_a_plain_skill_never_awaits_is_a_mistake(tmp_path: Path, code: str) -> None:
    with pytest.raises(AgentMistake, match="was never awaited"):
        run(tmp_path, f"@skill\ndef hello(turn):\n    {code}\n    return 'ok'")


def test_a_generator_that_cancels_its_own_turn_ends(tmp_path: Path) -> None:
    code = "@skill\ndef hello(turn):\n    yield 'a'\n    turn.cancel()\n    yield 'b'"
    assert run(tmp_path, code).text.startswith("a")


def test_the_history_that_a_skill_changes_is_its_own(tmp_path: Path) -> None:
    code = """
        @skill
        def hello(turn):
            said = [entry.text for entry in turn.history]
            for entry in turn.history:
                for part in entry.parts:
                    part["text"] = "changed"
            return " ".join(said) or "nothing"
    """
    agent = Agent.load(write(tmp_path, code))
    answer = asyncio.run(agent.run("one"))
    for expected in ("one nothing", "one nothing two one nothing"):
        answer = asyncio.run(agent.run("two", after=answer))
        assert answer.text == expected


@pytest.mark.parametrize("text", ['{"size": 3}', '{"name": null, "size": 3}'])
def test_an_answer_with_other_arguments_is_not_the_argument(tmp_path: Path, text: str) -> None:
    agent = Agent.load(
        write(tmp_path, "@skill\ndef hello(name: str, size: int = 1): return f'{name} {size}'")
    )
    question = asyncio.run(agent.run(""))
    again = asyncio.run(agent.run(text, after=question))
    assert again.state == "input-required"
    assert asyncio.run(agent.run("Ann", after=again)).text == "Ann 3"


def test_what_a_turn_continues_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"after must be the answer of an earlier agent\.run, not a str"):
        run(tmp_path, "@skill\ndef hello(turn): ...", after="hi")


@pytest.mark.parametrize("caller", ["ann", Caller("ann", scopes="chat")])  # type: ignore[arg-type]
def test_the_scopes_of_a_caller_are_a_tuple(tmp_path: Path, caller: Any) -> None:
    with pytest.raises(TypeError, match=r'Caller\("ann", scopes=\("chat",\)\)'):
        run(tmp_path, "@skill\ndef hello(turn): ...", caller=caller)
