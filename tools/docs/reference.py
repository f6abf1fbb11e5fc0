"""Generated pages of the documentation: from docstrings, the schema of card.yaml, the template, and the
tables of the protocol."""

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import a2a_lambda
from a2a_lambda.agent import turn
from a2a_lambda.agent.steps import Steps
from a2a_lambda.protocol.requests import Operation
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v0_3_http, v1_0
from a2a_lambda.wire.interface import Wire
from tools import template
from tools.commands import GROUPS
from tools.docs.figures import table
from tools.fork import card_schema

OUTPUTS = (
    *("File", "Artifact", "Message", "Progress", "Command"),
    *("Ask", "Authorize", "Reject"),
)

KIT_METHODS = ("call", "take_call", "cancel", "check_operations")
"""Members of a turn that only the kit uses."""

OPERATIONS: Mapping[Operation, str] = {
    "send": "send a message",
    "stream": "send a message, and stream the answer",
    "get": "read a task",
    "list": "list tasks",
    "cancel": "cancel a task",
    "subscribe": "follow a task, or resume a stream",
    "set_push": "set a webhook",
    "get_push": "read a webhook",
    "list_push": "list webhooks",
    "delete_push": "delete a webhook",
    "card": "read the extended card",
}

RPC_PROTOCOLS = {
    "A2A 1.0": v1_0.WIRE,
    "A2A 0.2.5, 0.2.6, 0.3.0": v0_3.WIRE,
    "A2A 0.1": v0_1.WIRE,
    "Alibaba Model Studio": alibaba.WIRE,
    "Baidu Qianfan": qianfan.WIRE,
}

HTTP_PROTOCOLS = {"A2A 1.0": v1_0.WIRE, "A2A 0.3.0": v0_3_http.WIRE}

Page = tuple[str, str]
"""Name of a file, and its text."""


def pages(root: Path) -> list[Page]:
    """All generated pages. root: root of the repository."""
    return [
        ("reference-outputs.md", outputs_page()),
        ("reference-turn.md", turn_page()),
        ("reference-card.md", card_page(card_schema.schema())),
        ("reference-parameters.md", parameters_page(root / "template.yaml")),
        ("reference-commands.md", commands_page()),
        ("reference-protocols.md", protocols_page()),
    ]


def outputs_page() -> str:
    """What a skill may return."""
    parts = ["# Outputs of a skill", "What a skill may return or yield, besides text and structured values."]
    for name in OUTPUTS:
        output = getattr(a2a_lambda, name)
        parts += [f"## {name}", _code(_signature(output, name)), _text(output)]
    return _join(parts)


def turn_page() -> str:
    """Properties and methods of the turn, of its memory, and for durable skills."""
    parts = ["# The turn", _text(turn.Turn)]
    for owner, name in ((turn.Turn, "turn"), (turn.Memory, "turn.memory"), (Steps, "turn")):
        members = [
            (member, value)
            for member, value in vars(owner).items()
            if not member.startswith("_")
            and member not in KIT_METHODS
            and isinstance(value, property | FunctionType)
        ]
        for member, value in members:
            if isinstance(value, property):
                assert value.fget is not None
                signature = f"{name}.{member}: {_type(inspect.signature(value.fget).return_annotation)}"
            else:
                result = inspect.signature(value).return_annotation
                prefix = "await " if inspect.iscoroutinefunction(value) else ""
                signature = f"{prefix}{name}.{_signature(value)} -> {_type(result)}"
            parts += [f"## {name}.{member}", _code(signature), _text(value)]
    for kind in (a2a_lambda.Retry, a2a_lambda.Reply):
        parts += [f"## {kind.__name__}", _code(_signature(kind, kind.__name__)), _text(kind)]
    return _join(parts)


def card_page(schema: Mapping[str, Any]) -> str:
    """Fields of card.yaml."""
    parts = ["# card.yaml", "Editors complete the fields, and check them, by `schemas/card.json`."]
    parts += [_fields(schema)]
    plurals = {"CardSkill": "skills", "Extension": "extensions", "Schedule": "schedules"}
    for name in ("CardSkill", "Capabilities", "Extension", "Extended", "Provider", "Schedule"):
        level = plurals.get(name, name.lower())
        parts += [f"## {level}", _fields(schema["$defs"][name])]
    return _join(parts)


def parameters_page(path: Path) -> str:
    """Parameters of the deployment, in the groups of the template."""
    text = path.read_text("utf-8")
    declarations = template.parameters(path)
    parts = [
        "# Parameters of a deployment",
        "Set them in `samconfig.toml`, or for one deployment:",
        _code('make deploy STAGE=dev PARAMETERS="LogDays=30"', "sh"),
    ]
    rows: list[Sequence[str]] = []
    block = text.partition("\nParameters:\n")[2]
    for line in block.splitlines():
        if match := re.match(r"  # --- (.+)", line):
            if rows:
                parts.append(table(("parameter", "default", ""), rows))
            parts.append(f"## {match[1]}")
            rows = []
        elif (match := re.match(r"  (\w+):", line)) and match[1] in declarations:
            parameter = declarations[match[1]]
            default = parameter.get("Default", "")
            rows.append((f"`{match[1]}`", f"`{default}`" if default != "" else "", parameter["Description"]))
        elif line and not line.startswith(" "):
            break
    return _join([*parts, table(("parameter", "default", ""), rows)])


def commands_page() -> str:
    """Commands, with their variables."""
    parts = [
        "# Commands",
        "`uv run a2a <command>` is the same as `make <command>`. A value in brackets is the default, and the"
        " others are examples. A command with `STACK` and `PORT` is for a deployed stack, or for the"
        " `make run` that serves at that port.",
    ]
    for title, commands in GROUPS.items():
        rows = [
            (f"`make {name}`", command.summary, f"`{' '.join(command.options)}`" if command.options else "")
            for name, command in commands.items()
        ]
        parts += [f"## {title}", table(("command", "", "variables"), rows)]
    return _join(parts)


def protocols_page() -> str:
    """Operations of every version and dialect, by their method or path."""
    parts = [
        "# Protocol support",
        "What clients of each version and dialect can do, and the method or path for it. A test calls every"
        " one of them.",
        "## JSON-RPC",
    ]
    parts += [
        table(
            ("", *RPC_PROTOCOLS),
            [
                (title, *(_code_list(wire.method_of(name)) for wire in RPC_PROTOCOLS.values()))
                for name, title in OPERATIONS.items()
            ],
        ),
        "## HTTP+JSON",
        table(
            ("", *HTTP_PROTOCOLS),
            [
                (title, *(_code_list(*http_paths(wire, name)) for wire in HTTP_PROTOCOLS.values()))
                for name, title in OPERATIONS.items()
            ],
        ),
    ]
    return _join(parts)


def http_paths(wire: Wire, operation: Operation) -> list[str]:
    """Verbs and paths of an operation, such as "GET /tasks"."""
    prefix = f"/{wire.path_prefix}/" if wire.path_prefix else "/"
    return [f"{route.verb} {prefix}{route.path}" for route in wire.routes if route.operation == operation]


def _code_list(*names: str) -> str:
    return "<br>".join(f"`{name}`" for name in names if name) or "–"


def _fields(schema: Mapping[str, Any]) -> str:
    requirements = schema.get("required", [])
    rows = []
    for name, field in schema["properties"].items():
        default = "required" if name in requirements else json.dumps(field.get("default"))
        rows.append((f"`{name}`", "" if default == "null" else default, field["description"]))
    return table(("field", "default", ""), rows)


def _signature(function: Any, name: str = "") -> str:
    parameters = [
        parameter for name, parameter in inspect.signature(function).parameters.items() if name != "self"
    ]
    words = [_parameter(parameter) for parameter in parameters]
    kinds = [parameter.kind.name for parameter in parameters]
    if "KEYWORD_ONLY" in kinds and "VAR_POSITIONAL" not in kinds:
        words.insert(kinds.index("KEYWORD_ONLY"), "*")
    if count := kinds.count("POSITIONAL_ONLY"):
        words.insert(count, "/")
    return f"{name or function.__name__}({', '.join(words)})"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    text = f"{stars}{parameter.name}: {_type(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    is_plain = isinstance(parameter.default, str | int | float | None)
    return f"{text} = {parameter.default!r}" if is_plain else f"{text} = …"


def _type(annotation: Any) -> str:
    """A type, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")


def _text(subject: Any) -> str:
    """A docstring as Markdown: `name: …` is about a field, and a paragraph of calls is an example."""
    text = re.sub(
        r"(?m)^(\w+): |(?<=[.;])\s([a-z_]+): ",
        lambda match: f"{'' if match[1] else chr(10)}- `{match[1] or match[2]}`: ",
        inspect.getdoc(subject) or "",
    )
    before, mark, fields = text.partition("- `")  # Markdown wants an empty line before a list
    text = f"{before.rstrip()}\n\n{mark}{fields}" if mark else text
    paragraphs = text.split("\n\n")
    is_code = re.compile(r"([\w.]+\(.*\n?)+")
    return "\n\n".join(
        _code(paragraph) if is_code.fullmatch(paragraph) else paragraph for paragraph in paragraphs
    )


def _code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
