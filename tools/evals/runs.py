"""Runs the cases of an agent: on this machine, without a server, or as a client of a deployment."""

import importlib.util
import inspect
import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jsonschema

from a2a_lambda.agent import trial
from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.configuration import Configuration
from a2a_lambda.agent.event_builder import FAILED, EventBuilder
from a2a_lambda.agent.trial import Answer
from a2a_lambda.client import Client
from a2a_lambda.errors import ConfigurationError, SkillError
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.caller import LOCAL_CALLER
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    artifact_id,
    state_word,
)
from a2a_lambda.tasks.context import Context
from tools.evals.cases import Case, Expectation
from tools.evals.recordings import Recorder

ROUNDING = 1e-9
"""Tolerance for a share such as 7 of 25, which no float holds exactly."""

Judge = Callable[[Any], Any]


NO_JSON = object()
"""The value of text that is not JSON."""


class Asker(Protocol):
    """Has a conversation, and returns its last answer."""

    async def ask(self, case: Case) -> Answer: ...


class LocalAgent:
    """An agent on this machine. configuration: its secrets and settings."""

    def __init__(self, folder: Path, configuration: Configuration) -> None:
        self._agent = Agent.load(folder)
        self._configuration = configuration

    async def ask(self, case: Case) -> Answer:
        """Raises what the skill raises, unless the case expects the task to fail."""
        skill = self._agent.skills.get(case.skill or "")
        if skill is not None and (problem := skill.problem_of_names(case.arguments)):
            raise ConfigurationError(problem)
        answer: Answer | None = None
        for index, message in enumerate(case.messages):
            skill_id, slots = (None, {}) if index else (case.skill, case.arguments)
            try:
                request = trial.make_message(
                    self._agent, message, None, (), skill=skill_id, slots=slots, metadata={}
                )
                answer = await trial.run(
                    self._agent, request, answer, {}, self._configuration, caller=LOCAL_CALLER
                )
            except Exception as error:
                if case.expect.state != state_word(TaskState.FAILED) or index < len(case.messages) - 1:
                    raise
                builder = EventBuilder("", "")
                builder.fail(str(error) if isinstance(error, SkillError) else FAILED)
                assert builder.closing_status is not None
                answer = _answer(Task(id="", contextId="", status=builder.closing_status))
        assert answer is not None
        return answer


class DeployedAgent:
    """An agent of a deployment. Each conversation is a new context."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, case: Case) -> Answer:
        answer: Answer | None = None
        for text in case.messages:
            message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=[Part(text=text)])
            if answer is not None:
                if answer.task["contextId"]:
                    message["contextId"] = answer.task["contextId"]
                if answer.task["status"]["state"] in INTERRUPTED:
                    message["taskId"] = answer.task["id"]
            elif case.skill is not None:
                message["metadata"] = intent_metadata(case.skill, case.arguments)
            answer = _answer(await self._client.send(message))
        assert answer is not None
        return answer


def _answer(result: Any) -> Answer:
    """An answer, of which only the task is known. A message counts as the reply of a completed task."""
    if "status" in result:
        return Answer(result, [], Context(), None)
    task = Task(
        id="",
        contextId=result.get("contextId", ""),
        status=TaskStatus(state=TaskState.COMPLETED),
        artifacts=[Artifact(artifactId=artifact_id(0), parts=result["parts"])],
    )
    return Answer(task, [], Context(), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case.

    problems: problems of each run, none for one that passed. seconds: duration of each run.
    """

    case: Case
    problems: list[list[str]]
    seconds: list[float]

    @property
    def passed(self) -> int:
        return sum(not problems for problems in self.problems)

    @property
    def rate(self) -> float:
        """Share of the runs that passed."""
        return self.passed / len(self.problems)

    @property
    def is_good(self) -> bool:
        return self.rate >= self.case.pass_rate - ROUNDING

    @property
    def first_problem(self) -> str:
        return next(("; ".join(problems) for problems in self.problems if problems), "")


async def run_case(case: Case, asker: Asker, judge: Judge | None, record: Recorder) -> Outcome:
    """Run a case as often as it says. What the agent raises is a problem of its run."""
    problems, seconds = list[list[str]](), list[float]()
    for number in range(1, case.repeats + 1):
        began = time.monotonic()
        try:
            with record(f"{case.name}-{number}"):
                answer = await asker.ask(case)
                mistakes = find_problems(case.expect, answer, time.monotonic() - began)
                problems.append(mistakes + await _ask_judge(case.expect.judge, judge, answer))
        except Exception as error:
            problems.append([f"{type(error).__name__}: {error}"])
        if record.has_missed:
            problems[-1] = ["a call has no recorded answer: run make eval RECORD=1"]
        seconds.append(time.monotonic() - began)
    return Outcome(case, problems, seconds)


def find_problems(expect: Expectation, answer: Answer, seconds: float) -> list[str]:
    """What is not as expected, as sentences."""
    problems: list[str] = []
    if answer.state != expect.state:
        problems.append(f"the state is {answer.state}, not {expect.state}")
    without_text = "it has data, which `equals` checks" if answer.data else "it has no text"
    reply = _short(answer.text) or without_text
    for text in expect.contains:
        if text.lower() not in answer.text.lower():
            problems.append(f"the reply does not contain {text!r}: {reply}")
    if expect.matches is not None and not re.search(expect.matches, answer.text):
        problems.append(f"the reply does not match {expect.matches}: {reply}")
    value = answer.data[0] if len(answer.data) == 1 else answer.data or _json_in(answer.text)
    has_equals = "equals" in expect.model_fields_set  # which may be null
    if value is NO_JSON:
        if has_equals or expect.json_schema is not None:
            problems.append(f"the reply is not JSON: {_short(answer.text)}")
    elif has_equals and not jsonschema.Draft202012Validator({"const": expect.equals}).is_valid(value):
        # In Python, true would be 1.
        problems.append(f"the data is {_short(str(value))}, not {_short(str(expect.equals))}")
    if expect.json_schema is not None and value is not NO_JSON:
        error = next(jsonschema.Draft202012Validator(expect.json_schema).iter_errors(value), None)
        if error is not None:
            problems.append(f"the data does not fit the schema: {error.message}")
    if expect.skill is not None and answer.skill and answer.skill != expect.skill:
        problems.append(f"skill {answer.skill} answered, not {expect.skill}")
    if expect.seconds is not None and seconds > expect.seconds:
        problems.append(f"it took {seconds:.1f} s")
    return problems


def _json_in(text: str) -> Any:
    """The JSON value that text spells, as models answer, or NO_JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return NO_JSON


async def _ask_judge(name: str | None, judge: Judge | None, answer: Answer) -> list[str]:
    if judge is None:
        return []
    verdict = judge(answer)
    if inspect.isawaitable(verdict):
        verdict = await verdict
    if verdict is True:
        return []
    if not isinstance(verdict, str):
        verdict = f"it returned {verdict!r}, and must return True, or a string that says what is wrong"
    return [f"{name}: {verdict}"]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def load_judges(folder: Path, cases: list[Case]) -> dict[str, Judge]:
    """Functions that the cases name, from the agent's tests/judges.py. Raises ConfigurationError."""
    names = {case.expect.judge for case in cases if case.expect.judge}
    if not names:
        return {}
    path = folder / "tests" / "judges.py"
    if not path.exists():
        name = min(names)
        raise ConfigurationError(
            f"{path}: not found, but evals.yaml names the judge {name}: write it, with"
            f" `def {name}(answer): …`"
        )
    spec = importlib.util.spec_from_file_location(f"judges_of_{folder.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in sorted(names):
        if not callable(getattr(module, name, None)):
            raise ConfigurationError(f"{path}: there is no function {name}: write `def {name}(answer): …`")
    return {name: getattr(module, name) for name in names}
