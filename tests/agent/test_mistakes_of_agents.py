"""What an agent's author reads of an output that the kit cannot use: one sentence, with the agent's line."""

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import AgentMistake, ConfigurationError
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from tests.agent import folders
from tests.agent.folders import CARD, run, write
from tests.helpers.clock import PATIENCE_SECONDS
from tests.turns.run_bench import RunBench, within
from tools.dev.console import ConsoleFormatter

WRONG = {
    "return object()": "a skill cannot return or yield a value of type object. Use text",
    "yield 'x', {1, 2}": "a skill cannot return or yield a value of type set. Use text",
    "return b'abc'": 'Bytes are the content of a File("name", …)',
    "return [File('a.txt', b'1')]": "File inside a list would become JSON: return or",
    "return {'a': Ask('Which?')}": "Ask inside a dict would become JSON",
    "from dataclasses import dataclass; R = dataclass(type('R', (), {'__annotations__': {'f': object}}));"
    " return R(File('a.txt', b'1'))": "File inside a R would become JSON: return or",
    "from dataclasses import dataclass;"
    " R = dataclass(slots=True)(type('R', (), {'__annotations__': {'f': object}}));"
    " return R(File('a.txt', b'1'))": "File inside a R would become JSON: return or",
    "return {'a': (File('a.txt', b'1'),)}": "File inside a dict would become JSON: return or",
    "return [[File('a.txt', b'1')]]": "File inside a list would become JSON: return or",
    "return [Message('a')]": "Message inside a list would become JSON",
    "return Message('a'), Ask('Which?')": "Message and Ask would both end the turn",
    "yield 'a', Reject('no'), Authorize('Who?')": "Reject and Authorize would both end the turn",
    "return Artifact('a', 'b', metadata={'k': object()})": "a dict cannot become JSON",
    "return {'a': float('nan')}": "an output cannot be sent as JSON: JSON has no NaN and no infinity",
    "return {'a': object()}": "a dict cannot become JSON: Unable to serialize",
    "return {'a': b'\\xff'}": "a dict cannot become JSON: ",
    "a = {}; a['a'] = a; return a": "a dict cannot become JSON: Circular reference",
    "yield asyncio.sleep(0)": "a coroutine is not an output: write `await` before sleep(…)",
    "return SkillError('no')": "SkillError is not an output: write `raise SkillError(…)`",
    "return File('a', b'1', 'https://example.com')": "6: the File 'a' needs content or url, but not both",
    "return File('/tmp/a')": "the File '/tmp/a' needs content or url: write File(",
    "return File('a', b'1', 'text/csv')": "but not both: write its media type as media_type=…",
    "return Ask('Which?', fills='citty')": "Ask: skill hello has no parameter 'citty'; did you mean city?",
}

IMPORTS = "import asyncio, io\nfrom a2a_lambda import *\n\n"

CODE = IMPORTS + "@skill\ndef hello(turn, city: str = ''):\n    {line}\n"

ROUTED = CODE.format(line="return 'routed'") + "\n\n@route\ndef choose(turn):\n    return {chosen}\n"


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_output_is_one_sentence_with_its_line(tmp_path: Path, line: str) -> None:
    agent = Agent.load(write(tmp_path, CODE.format(line=line)))
    with pytest.raises(AgentMistake) as error:
        asyncio.run(agent.run("hi"))
    assert WRONG[line] in str(error.value)
    assert "hello/agent.py:6: " in str(error.value)


@pytest.mark.parametrize("line", WRONG)
def test_a_log_has_the_sentence_and_no_frames(
    tmp_path: Path, bench: RunBench, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    bench.messages.agents = Agents.of(
        Agent.load(write(tmp_path, CODE.format(line=line), name=bench.namespace.agent))
    )
    task = within(bench.send("hello"))
    assert task["status"]["state"] == TaskState.FAILED
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert WRONG[line] in record.getMessage()
    assert "/agent.py:6: " in record.getMessage()
    assert "\n" not in ConsoleFormatter(colored=False).format(record)


@pytest.mark.parametrize("chosen", ["hello", "'hello'", "None"])
def test_a_router_returns_a_skill_or_its_id(tmp_path: Path, chosen: str) -> None:
    agent = Agent.load(write(tmp_path, ROUTED.format(chosen=chosen)))
    assert asyncio.run(agent.run("hi")).text == "routed"


@pytest.mark.parametrize("chosen", ["'helo'", "7", "turn"])
def test_another_value_of_a_router_is_one_sentence(tmp_path: Path, chosen: str) -> None:
    agent = Agent.load(write(tmp_path, ROUTED.format(chosen=chosen)))
    with pytest.raises(AgentMistake) as error:
        asyncio.run(agent.run("hi"))
    assert "agent.py:11: @route must return a skill, or the id of one (hello)" in str(error.value)
    assert ("did you mean hello?" in str(error.value)) == (chosen == "'helo'")


def test_a_skill_whose_id_differs_by_a_hyphen_is_named(tmp_path: Path) -> None:
    code = "from a2a_lambda import skill\n@skill\ndef say_hello(turn): ..."
    folder = write(tmp_path, code, CARD.replace("id: hello", "id: say_hello"))
    with pytest.raises(ConfigurationError, match="write `id: say-hello`, or @skill\\('say_hello'\\)"):
        Agent.load(folder)


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ("turn.memory.visits = 1", AttributeError, "visits"),
        ("turn.memory.set('day', object())", TypeError, r"memory\['day'\] must be JSON"),
        ("turn.memory.set('day', float('nan'))", ValueError, r"memory\['day'\] must be JSON.*no NaN"),
        ("turn.memory.set('day', {1: 'a', '1': 'b'})", ValueError, r"memory\['day'\] must be JSON"),
        ("turn.memory['visits'] = 1", TypeError, r"write turn.memory.set\('visits', …\)"),
        ("turn.memory.add('visits', 'a')", TypeError, "adds a number, not str"),
        ("turn.wait_for('go', 'Really?')", TypeError, r"write turn.wait_for\('go', Ask"),
        (
            "return File('a', b'1', media_type=('text/csv', None))",
            TypeError,
            "media_type must be a string, not tuple",
        ),
        (
            "turn.messages(blocks='gemini')",
            ValueError,
            "unknown blocks='gemini': write one of 'openai', 'anthropic'",
        ),
        ("return File(5, b'1')", TypeError, "a file's name must be a string, not int"),
        (
            "return Artifact('the whole report')",
            TypeError,
            r"an artifact needs content: write Artifact\(\"name\", \"text\"\)",
        ),
        ("return Artifact('', 'x')", TypeError, "an artifact needs a name"),
        ("return Artifact(5, 'x')", TypeError, "an artifact's name must be a string"),
        ("return Artifact('a', 'x', description=5)", TypeError, "an artifact's description must be a string"),
        ("return Message()", TypeError, r"write Message\(\"Hello!\"\)"),
        ("return Progress('x', stage=5)", TypeError, "a stage must be a string"),
        ("return Command(5)", TypeError, "a command's name must be a string"),
        ("return Command('a', request_id=5)", TypeError, "a command's request_id must be a string"),
        ("return Command('a', color=None)", TypeError, "color of a command must be a string.* not NoneType"),
        ("return Command('a', color=float('nan'))", TypeError, "color of a command must be a string"),
        ("return Command('a', color=object())", TypeError, "color of a command must be a string"),
        ("return Command('a', color=('r', 'g', 'b'))", TypeError, "color of a command must be a string"),
        ("return File(b'1', 'a')", TypeError, r'not bytes: write File\("sum.csv", content\)'),
        ("return Artifact(None)", TypeError, "an artifact's name must be a string, not None$"),
        ("return Artifact('a', Ask('b'))", AgentMistake, "Ask cannot be inside an Artifact or a Message"),
        ("return Message(Progress('b'))", AgentMistake, "Progress cannot be inside an Artifact"),
    ],
)
def test_a_wrong_call_says_what_to_write(
    tmp_path: Path, line: str, error: type[Exception], text: str
) -> None:
    agent = Agent.load(write(tmp_path, CODE.format(line=line)))
    with pytest.raises(error, match=text):
        asyncio.run(agent.run("hi"))


def test_an_agent_that_configures_logging_silences_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default dictConfig disables every logger that it does not name."""
    logger = logging.getLogger("a2a_lambda.turns.run")
    monkeypatch.setattr(logger, "disabled", False)
    line = "return 'hi'\nimport logging\nlogging.getLogger('a2a_lambda.turns.run').disabled = True"
    Agent.load(write(tmp_path, CODE.format(line=line)))
    assert not logger.disabled


def test_a_file_that_is_empty_because_it_was_read_is_a_hint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = "b = io.BytesIO(b'1'); b.read(); return File('a.txt', b), File('b.txt', io.BytesIO())"
    with caplog.at_level(logging.INFO, "a2a_lambda.hints"):
        asyncio.run(Agent.load(write(tmp_path, CODE.format(line=line))).run("hi"))
    [record] = [each for each in caplog.records if each.name == "a2a_lambda.hints"]
    assert record.getMessage().startswith("a File is empty"), "its name may be the user's words"


def test_slots_in_a_test_are_of_a_skill(tmp_path: Path) -> None:
    agent = Agent.load(write(tmp_path, CODE.format(line="return city")))
    assert asyncio.run(agent.run(slots={"city": "Rome"})).text == "Rome"
    with pytest.raises(ValueError, match="write the text as one of the parts"):
        asyncio.run(agent.run("Rome", parts=[{"text": "Paris"}]))
    with pytest.raises(ValueError, match="skill hello has no parameter 'town'"):
        asyncio.run(agent.run(slots={"town": "Rome"}))
    two = CODE.format(line="return city") + "\n@skill\ndef other(turn): ..."
    card = CARD + "  - {{ id: other, name: Other, description: The other. }}\n"
    with pytest.raises(ValueError, match="name it with skill=…, one of hello, other"):
        asyncio.run(Agent.load(write(tmp_path / "two", two, card)).run(slots={"city": "Rome"}))


def test_the_value_of_an_enum_of_texts_is_sent(tmp_path: Path) -> None:
    enum = "\nimport enum\nclass Size(str, enum.Enum): LARGE = 'L'\n"
    code = CODE.format(line="return Size.LARGE") + enum
    assert asyncio.run(Agent.load(write(tmp_path, code)).run("hi")).text == "L"


def test_a_skill_that_puts_out_nothing_is_a_hint(
    tmp_path: Path, bench: RunBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    code = CODE.format(line="'no return'")
    bench.messages.agents = Agents.of(Agent.load(write(tmp_path, code, CARD, name=bench.namespace.agent)))
    assert within(bench.send("hello"))["status"]["state"] == TaskState.COMPLETED
    [hint] = [each for each in caplog.records if each.name == "a2a_lambda.hints"]
    line = ConsoleFormatter(colored=False).format(hint)
    assert "WARNING" in line
    assert "skill hello returned nothing" in line


@pytest.mark.parametrize("router", ["def pick(turn): yield 'hello'", "async def pick(turn): yield 'hello'"])
def test_a_router_returns_its_choice(tmp_path: Path, router: str) -> None:
    """Its turn would end at the first value that it yields."""
    code = f"@route\n{router}\n@skill\ndef hello(turn): return 'hi'"
    with pytest.raises(ConfigurationError, match=r"agent.py:\d+: @route returns one skill: .* `return`"):
        run(tmp_path, code)


@pytest.mark.parametrize("router", ["def pick(): ...", "def pick(turn, query): ..."])
def test_a_router_gets_the_turn_alone(tmp_path: Path, router: str) -> None:
    code = f"@route\n{router}\n@skill\ndef hello(turn): return 'hi'"
    with pytest.raises(ConfigurationError, match=r"@route takes only the turn: write `def pick\(turn\)`"):
        run(tmp_path, code)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("from a2a_lambda import Client", "write `from a2a_lambda.client import Client`"),
        ("from a2a_lambda import skil", "did you mean skill?"),
        ("del Ask\nanswer = Ask('?')", "name 'Ask' is not defined: write `from a2a_lambda import Ask`"),
        ("answer = AgentError", "write `from a2a_lambda.client import AgentError`"),
        ("limit = Field(ge=1)", "name 'Field' is not defined\n"),
    ],
)
def test_a_name_that_the_kit_has_elsewhere_or_not_is_explained(
    tmp_path: Path, line: str, advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(advice)):
        run(tmp_path, f"{line}\n@skill\ndef hello(turn): return 'hi'")


@contextmanager
def the_log_stays() -> Iterator[None]:
    """Fails if the log is another one at the end, and leaves it as it was in any case."""
    handlers = [*logging.root.handlers]
    assert handlers
    try:
        yield
        assert logging.root.handlers == handlers
        assert logging.root.manager.disable == logging.NOTSET
    finally:
        logging.root.handlers[:] = handlers
        logging.disable(logging.NOTSET)


def test_an_agent_cannot_take_the_log_from_the_others(tmp_path: Path) -> None:
    """The root's handler keeps texts of users out of it."""
    code = "import logging\nlogging.basicConfig(force=True)\nlogging.disable(logging.CRITICAL)\n"
    with the_log_stays():
        assert run(tmp_path, f"{code}@skill\ndef hello(turn): return 'hi'").text == "hi"


def test_agents_that_are_imported_at_once_leave_the_log_as_it_was(tmp_path: Path) -> None:
    """One begins while the other has changed the log."""
    started, ended = threading.Event(), threading.Event()
    vars(folders).update(STARTED=started, ENDED=ended)
    changing = "import logging; import tests.agent.folders as f\n"
    changing += "logging.basicConfig(force=True); logging.disable(logging.CRITICAL)\n"
    changing += "f.STARTED.set(); f.ENDED.wait(120)\n@skill\ndef hello(turn): return 'hi'"
    waiting = "import tests.agent.folders as f\nf.ENDED.set()\n@skill\ndef hello(turn): return 'hi'"
    places = [write(tmp_path, changing, name="a"), write(tmp_path, waiting, name="b")]
    with the_log_stays():
        first = threading.Thread(target=Agent.load, args=(places[0],))
        first.start()
        assert started.wait(PATIENCE_SECONDS)
        Agent.load(places[1])
        first.join()


def test_an_error_without_a_text_is_explained_all_the_same(tmp_path: Path) -> None:
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError('x')\n"
    with pytest.raises(ConfigurationError, match="Bad"):
        run(tmp_path, f"{code}raise Bad()\n@skill\ndef hello(turn): return 'hi'")


def test_a_router_may_have_a_decorator_that_adds_arguments(tmp_path: Path) -> None:
    code = """
    import functools
    def inject(function):
        @functools.wraps(function)
        def wrapper(turn): return function(turn, "client")
        return wrapper
    @route
    @inject
    def pick(turn, client): return "hello"
    @skill
    def hello(turn): return "hi"
    """
    assert run(tmp_path, code).text == "hi"


def test_a_test_fails_for_an_agent_that_no_build_takes(tmp_path: Path) -> None:
    code = "from collections.abc import Callable\n"
    code += "@skill\ndef hello(turn, fmt: Callable[[str], str] = str.upper): return 'hi'"
    with pytest.raises(ConfigurationError, match="parameter fmt has no JSON Schema"):
        run(tmp_path, code)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, None])
def test_a_slot_is_a_text(tmp_path: Path, value: Any) -> None:
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(turn, x: str): return x"))
    with pytest.raises(TypeError, match=r"the slot 'x' must be a string, not a .*: write a string"):
        asyncio.run(agent.run(slots={"x": value}))


def test_an_async_skill_cannot_return_a_generator(tmp_path: Path) -> None:
    code = "@skill\nasync def hello(turn): return (part for part in 'hi')"
    with pytest.raises(AgentMistake, match="write `for part in …: yield part`"):
        run(tmp_path, code)


def test_a_skill_that_the_agent_does_not_have_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The default skill gets the message. The log has no word of the client's."""
    caplog.set_level("INFO", logger="a2a_lambda.hints")
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(turn): return 'x'"))
    asyncio.run(agent.run("hi", metadata={"skillId": "helloo"}))
    assert "a message names a skill that agent hello does not have; did you mean hello?" in caplog.text
    assert "helloo" not in caplog.text


def test_a_test_of_an_agent_shows_that_a_return_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the level that pytest shows without options."""
    agent = Agent.load(write(tmp_path, CODE.format(line="'no return'")))
    assert asyncio.run(agent.run("hello")).text == ""
    [hint] = caplog.records
    assert hint.levelno == logging.WARNING
    assert "skill hello returned nothing: a `return` may be missing" in caplog.text
