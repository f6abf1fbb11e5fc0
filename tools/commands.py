"""The commands of this repository. `make <command>` and `uv run a2a <command>` are the same.

This module imports no package: `make` lists the commands before any package is installed.
"""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Default(str):
    """The value that a variable has if it is not given."""


class MakeCommand(NamedTuple):
    """A command of make and of a2a.

    steps: modules that have a function `main`, each with its arguments; each runs if the one before it
    succeeded.
    variables: an example of each variable; one whose only value is 1 is a flag, and one without an example is
    not listed.
    folder: the command is listed only if this folder exists. builds: no other build may run meanwhile.
    """

    summary: str
    steps: Sequence[str]
    variables: Mapping[str, str] = MappingProxyType({})
    folder: str = "."
    builds: bool = False

    @property
    def options(self) -> list[str]:
        """Each variable with its example. A default is in brackets."""
        return [
            f"[{name}={example}]" if isinstance(example, Default) else f"{name}={example}"
            for name, example in self.variables.items()
            if example
        ]


LAMBDA_PYTHON = "3.13"
"""Version of Python for which functions are built by default."""

DEFAULT_PORT = 8080
"""Port of the development server by default."""

LAMBDA = {"ARCH": "arm64|x86_64", "LAMBDA_PYTHON": Default(LAMBDA_PYTHON)}

BUILD = {**LAMBDA, "BUILD_DIR": Default(".aws-sam/build")}

EVERY_DAY = {
    "run": MakeCommand(
        f"serve your agents on http://127.0.0.1:{DEFAULT_PORT}",
        ["tools.dev.server"],
        {
            "PORT": Default(DEFAULT_PORT),
            "LOCAL_KEY": Default("local-key"),
            "LONGEST_PAUSE": "5",
            "EMULATE": "template.yaml",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        },
    ),
    "chat": MakeCommand(
        "talk to an agent in the terminal",
        ["tools.client.chat"],
        {
            "AGENT": "weather",
            "VERSION": Default("1.0"),
            "PORT": Default(DEFAULT_PORT),
            "URL": "…",
            "STACK": "…",
            "KEY": "…",
            "TOKEN": "…",
            "TOKEN_COMMAND": "…",
            "TEXT": "…",
            "FILE": "sums.csv",
            "SAVE": "pictures",
            "TASK": "<id>",
        },
    ),
    "test": MakeCommand(
        "run your agents' tests and the kit's quick tests",
        ["tools.checks.main test"],
        {"AGENT": "weather", "ARGS": "'-k words'"},
    ),
    "eval": MakeCommand(
        "run your agents' evals, and compare with the last run",
        ["tools.evals.main"],
        {
            "AGENT": "weather",
            "STACK": "…",
            "URL": "…",
            "KEY": "…",
            "TOKEN": "…",
            "TOKEN_COMMAND": "…",
            "RECORD": "1",
            "LIVE": "1",
        },
    ),
    "agent": MakeCommand(
        "create an agent, or copy one from recipes/",
        ["tools.fork.agent"],
        {"NAME": "weather", "FROM": "bedrock", **LAMBDA},
    ),
    "add": MakeCommand(
        "add a package for your agents, or for one of them",
        ["tools.build.packages add"],
        {"PACKAGE": "openai", "AGENT": "weather", **LAMBDA},
    ),
    "remove": MakeCommand(
        "remove a package from your agents",
        ["tools.build.packages remove"],
        {"PACKAGE": "openai", "AGENT": "weather", **LAMBDA},
    ),
    "secret": MakeCommand(
        "set, list or remove your agents' secrets",
        ["tools.deployment.secret secret"],
        {"NAME": "openai", "STACK": "…", "REMOVE": "1", "VALUE": ""},
    ),
    "setting": MakeCommand(
        "set, list or remove your agents' settings",
        ["tools.deployment.secret setting"],
        {"NAME": "model", "VALUE": "…", "STACK": "…", "REMOVE": "1"},
    ),
    "build": MakeCommand(
        "run sam build, without Docker",
        ["tools.build.sam build"],
        {"STAGE": "dev|prod", "AGENTS": "weather", **BUILD},
        builds=True,
    ),
    "deploy": MakeCommand(
        "build, then deploy a stage from samconfig.toml",
        ["tools.deployment.deploy check", "tools.build.sam deployment", "tools.deployment.deploy"],
        {
            "STAGE": "dev|prod",
            "PARAMETERS": '"Name=value …"',
            "ROLE": "<ARN for CloudFormation>",
            "IMAGE": "1",
            **BUILD,
        },
        builds=True,
    ),
    "issuer": MakeCommand(
        "accept an identity provider's tokens, list or remove issuers",
        ["tools.access.issuer"],
        {
            "NAME": "entra",
            "ISSUER": "https://…",
            "AUDIENCE": "…",
            "OWNER": "oid",
            "SCOPE": "…",
            "AGENTS": "…",
            "CLAIMS": "…",
            "PRIVATE": "1",
            "INTROSPECTION": "https://…",
            "CLIENT": "…",
            "SECRET": "…",
            "REMOVE": "1",
            "STACK": "…",
            "PORT": "8090",
        },
    ),
    "key": MakeCommand(
        "list, make and revoke API keys",
        ["tools.access.key"],
        {
            "NAME": "alice",
            "OWNER": "team-a",
            "AGENTS": "…",
            "DAYS": "…",
            "REVOKE": "1",
            "STACK": "…",
            "PORT": "8090",
        },
    ),
    "doctor": MakeCommand(
        "call an agent as its clients would, and check its stack",
        ["tools.deployment.doctor"],
        {
            "URL": "…",
            "AGENT": "…",
            "KEY": "…",
            "TOKEN": "…",
            "TOKEN_COMMAND": "…",
            "TEXT": "…",
            "STACK": "…",
            "PORT": "8090",
        },
    ),
    "logs": MakeCommand("follow the log of a stack", ["tools.client.logs"], {"STACK": "…", "TASK": "…"}),
    "help": MakeCommand("list the commands", ["tools.commands"]),
}

OPERATE = {
    "playground": MakeCommand(
        "open a web page that calls a deployed stack, or any agent",
        ["tools.playground.serve"],
        {"STACK": "…", "URL": "…", "KEY": "…", "TOKEN": "…", "TOKEN_COMMAND": "…", "PORT": Default("8081")},
    ),
    "invoke": MakeCommand(
        "send one event to the built function",
        ["tools.build.invoke"],
        {"EVENT": "events/send.json", "PORT": "8090"},
        builds=True,
    ),
    "image": MakeCommand(
        "build the files of a container image, for packages over 250 MB",
        ["tools.build.sam image"],
        BUILD,
        builds=True,
    ),
    "e2e": MakeCommand(
        "deploy your agents to an AWS emulator, and call them there",
        ["tools.checks.main e2e"],
        {
            "STAGE": Default("dev"),
            "AWS": "1|delete",
            "STACK": "a2a-proof",
            "ROLE": "<arn>",
            "BOUNDARY": "<arn>",
        },
    ),
    "account": MakeCommand(
        "create API Gateway's role for access logs, once per account and region",
        ["tools.deployment.account"],
        {"PARAMETERS": "…"},
    ),
    "fire": MakeCommand(
        "list the agents' schedules, or start one now",
        ["tools.client.fire"],
        {"AGENT": "reports", "SCHEDULE": "nightly", "STACK": "…", "PORT": Default(DEFAULT_PORT)},
    ),
    "erase": MakeCommand(
        "delete everything that a stack stores for an owner",
        ["tools.erasure.main"],
        {
            "OWNER": "alice",
            "CONTEXT": "…",
            "TASK": "…",
            "AGENT": "weather",
            "YES": "1",
            "STACK": "…",
            "PORT": "8090",
        },
    ),
    "rollback": MakeCommand(
        "roll back to the previous release",
        ["tools.deployment.versions rollback"],
        {"STACK": "…", "RELEASE": "…"},
    ),
    "prune": MakeCommand(
        "delete the functions' old versions", ["tools.deployment.versions prune"], {"STACK": "…", "KEEP": "3"}
    ),
    "redrive": MakeCommand(
        "resend messages from a dead-letter queue",
        ["tools.deployment.redrive"],
        {"QUEUE": "notices|turns|records", "STACK": "…"},
    ),
    "restore": MakeCommand(
        "copy missing items from a restored table",
        ["tools.deployment.restore"],
        {"FROM": "<table>", "STACK": "…"},
    ),
    "rename": MakeCommand(
        "rename the fork's stacks",
        ["tools.fork.rename", "tools.environments relock"],
        {"NAME": "acme-agents"},
    ),
    "upgrade": MakeCommand(
        "merge a release of the kit into your fork", ["tools.fork.upgrade"], {"UPSTREAM": "…", "TO": "v0.2.0"}
    ),
    "lock": MakeCommand("re-resolve and lock all packages", ["tools.environments lock"], LAMBDA),
    "install": MakeCommand(
        "install the packages into .venv, for your editor", ["tools.environments install"]
    ),
}

KITS_OWN = {
    "check": MakeCommand(
        "run all tests, linters and the type checker, as CI does", ["tools.checks.main check"]
    ),
    "validate": MakeCommand(
        "check the templates, samconfig.toml and your agents for what AWS would refuse",
        ["tools.build.lint"],
    ),
    "costs": MakeCommand("compute the price of a million messages", ["tools.checks.main costs"]),
    "bench": MakeCommand(
        "measure the kit's speed against its peers", ["tools.checks.lab bench"], {"WRITE": "1"}, "lab"
    ),
    "scale": MakeCommand(
        "simulate large loads on AWS, and see what breaks first",
        ["tools.checks.lab scale"],
        {"WRITE": "1"},
        "lab",
    ),
    "conformance": MakeCommand(
        "run the public conformance kits of A2A and MCP",
        ["tools.checks.main conformance"],
        {"TCK": "<checkout>", "LINE": "1.0|0.3|mcp"},
    ),
    "docs": MakeCommand("build the documentation site in .site", ["tools.docs.site"], {"SERVE": "1"}),
    "pictures": MakeCommand(
        "retake the docs' screenshots from a running make run",
        ["tools.checks.main pictures"],
        {"URL": "…"},
    ),
}

GROUPS = {
    "Every day": EVERY_DAY,
    "To operate a stack, and to keep a fork up to date": OPERATE,
    "To work on the kit itself": KITS_OWN,
}

COMMANDS = EVERY_DAY | OPERATE | KITS_OWN


def listed_groups() -> dict[str, dict[str, MakeCommand]]:
    """The groups, with the commands whose folder exists: a fork may have deleted the laboratory's."""
    return {
        title: {name: command for name, command in commands.items() if Path(command.folder).exists()}
        for title, commands in GROUPS.items()
    }


OPTIONS_WIDTH = 83
"""Characters of a line of options. With what is before them, a line has 100."""


def main() -> int:
    print(
        "Write make <command> NAME=value …, or uv run a2a <command> NAME=value …. A value in brackets is the"
    )
    print("default; the others are examples.")
    for title, commands in listed_groups().items():
        print(f"{title}:")
        for name, command in commands.items():
            print(f"  {name:<13}{command.summary}")
            # A line may not end within an example.
            text = " ".join(option.replace(" ", "\0") for option in command.options)
            for line in textwrap.wrap(text, OPTIONS_WIDTH, break_long_words=False, break_on_hyphens=False):
                print(f"{'':17}{line}".replace("\0", " "))
    return 0
