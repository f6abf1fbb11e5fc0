"""make eval [AGENT=…] [STACK=… KEY=…] [RECORD=1|LIVE=1]: runs the evals of your agents.

    functions/agents/<name>/evals.yaml ── the agent ── a table, .aws-sam/evals/junit.xml

The agents run on this machine, without a server. With STACK or URL, those of a deployment are called.
RECORD=1 records what models answer; then the next runs replay it, and call no model, until LIVE=1 or the next
RECORD=1.
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from a2a_lambda.agent.card_file import read_card
from a2a_lambda.client import Client
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean
from tools.callers.records import SharedTransport, make_http
from tools.command import AGENTS, agent_folder, agent_folders, named_agent, reports_errors
from tools.deployment.stack import url_of
from tools.evals import report
from tools.evals.cases import NAME, Case, read_evals
from tools.evals.recordings import Recorder
from tools.evals.runs import Asker, DeployedAgent, LocalAgent, Outcome, load_judges, run_case
from tools.state import key_for
from tools.terminal import log_text

RESULTS = Path(".aws-sam/evals")


def find_cases(agents: Path, name: str) -> dict[str, list[Case]]:
    """Cases by agent. name: name of the only agent to run; "" = all. Raises ConfigurationError."""
    folders = agent_folders(agents)
    chosen_folders = [agent_folder(name, agents)] if name else folders.values()
    cases = {folder.name: read_evals(folder) for folder in chosen_folders}
    for folder in folders.values():
        _check_skills(folder, cases.get(folder.name, []))
    agents_with_cases = {agent: entries for agent, entries in cases.items() if entries}
    if not agents_with_cases:
        path = agents / (name or "<name>") / NAME
        raise ConfigurationError(
            f"{name or 'no agent'} has {'no ' if name else ''}evals: write {path}, as in docs/authoring.md"
        )
    return agents_with_cases


def _check_skills(folder: Path, cases: list[Case]) -> None:
    """Raises ConfigurationError if a case calls a skill that the agent does not have."""
    names = {case.skill: case.name for case in cases if case.skill is not None}
    ids = {skill.id for skill in read_card(folder / "card.yaml").all_skills} if names else set()
    for skill in names.keys() - ids:
        raise ConfigurationError(
            f"{folder / NAME}: case {names[skill]}: there is no skill {skill!r}{did_you_mean(skill, ids)}"
            f" Skills: {', '.join(sorted(ids))}"
        )


async def run_all(
    cases: Mapping[str, list[Case]], environ: Mapping[str, str], console: Console
) -> dict[str, list[Outcome]]:
    """Outcomes by agent. Raises ConfigurationError."""
    if environ.get("RECORD") and environ.get("LIVE"):
        raise ConfigurationError("RECORD=1 and LIVE=1 cannot be combined: write one of them")
    mode = "record" if environ.get("RECORD") else "live" if environ.get("LIVE") else "replay"
    if environ.get("RECORD") and (environ.get("STACK") or environ.get("URL")):
        raise ConfigurationError("RECORD=1 records what agents on this machine call: leave out STACK and URL")
    url = url_of(environ)
    key = key_for(url, environ) if url else ""
    results: dict[str, list[Outcome]] = {}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(make_http(url)) if url else None
        progress = stack.enter_context(Progress(console=console, transient=True))
        bar = progress.add_task("", total=sum(map(len, cases.values())))
        for agent, entries in cases.items():
            folder = AGENTS / agent
            judges = load_judges(folder, entries)
            # The URL of the server, or of an agent there, as clients have it.
            base = re.sub(r"/a2a/[^/]+$", "", url.rstrip("/"))
            recorder = Recorder(folder, "live" if url else mode)
            results[agent] = []
            with recorder.environment():
                asker: Asker
                if http is None:
                    asker = LocalAgent(folder, recorder.configuration)
                else:
                    transport = SharedTransport(http)
                    asker = DeployedAgent(Client(f"{base}/a2a/{agent}", key=key, transport=transport))
                for case in entries:
                    progress.update(bar, description=f"{agent}: {case.name}")
                    judge = judges.get(case.expect.judge or "")
                    results[agent].append(await run_case(case, asker, judge, recorder))
                    progress.advance(bar)
    return results


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    console = Console(highlight=False)
    place = environ.get("STACK") or ("url" if environ.get("URL") else "here")
    results = asyncio.run(run_all(find_cases(AGENTS, named_agent(environ)), environ, console))
    for agent, outcomes in results.items():
        path = RESULTS / place / f"{agent}.json"
        console.print(report.table_of(agent, outcomes, report.read_rates(path)))
        for line in report.problems_of(outcomes):
            console.print(log_text(line), markup=False)
        report.write_rates(path, report.rates_of(outcomes))
    report.write_junit(RESULTS / "junit.xml", results)
    if place != "here" and any(
        outcome.case.expect.skill for outcomes in results.values() for outcome in outcomes
    ):
        console.print("expect.skill is not checked: a server does not say which skill answered")
    failures = [outcome for outcomes in results.values() for outcome in outcomes if not outcome.is_good]
    console.print("all passed" if not failures else f"{len(failures)} failed")
    return min(len(failures), 1)


if __name__ == "__main__":
    sys.exit(main())
