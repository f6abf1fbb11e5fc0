"""What an agent's code loses without an error: outputs, replies and skills.

`Ask(…)` on a line of its own makes a question and discards it, and `raise Ask(…)` fails. `reply = yield
Ask(…)` in a plain skill gets no reply, because a question ends the turn: the next message starts the skill
again. A second function of the same name replaces a skill.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from a2a_lambda.mistakes import short_path
from a2a_lambda.protocol.card import Card

QUESTIONS = {"Ask", "Authorize"}

OUTPUTS = QUESTIONS | {"Artifact", "Command", "File", "Message", "Progress", "Reject"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_lost(agents: Path, cards: Mapping[str, Card]) -> list[str]:
    """A sentence for each output in agent.py that a skill discards, each question whose reply a plain skill
    would use, and each skill that is defined twice. agents: their folder. cards: by the name of their agent.
    Only these agents are read."""
    sentences: list[str] = []
    for name, card in cards.items():
        code = agents / name / "agent.py"
        with suppress(OSError, SyntaxError, RecursionError, MemoryError):  # make run names these itself
            module = ast.parse(code.read_bytes())
            outputs, problems = _outputs_in(module), list(_replaced_skills(module))
            for function in ast.walk(module):
                if isinstance(function, Function) and (skill_id := _skill_id(function)):
                    problems += _problems(function, outputs, is_durable=skill_id in card.durable_skills)
            sentences += [f"{short_path(code)}:{line}: {problem}" for line, problem in sorted(problems)]
    return sentences


def _outputs_in(module: ast.Module) -> dict[str, str]:
    """The kit's classes of outputs, by the names that a module has for them."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        match node:
            case ast.ImportFrom(module=str(path)) if path.partition(".")[0] == "a2a_lambda":
                for alias in node.names:
                    originals = OUTPUTS if alias.name == "*" else OUTPUTS & {alias.name}
                    names |= {alias.asname or original: original for original in originals}
            case ast.Import():
                for alias in node.names:
                    if alias.name.partition(".")[0] == "a2a_lambda":
                        for prefix in (alias.asname,) if alias.asname else ("a2a_lambda", alias.name):
                            names |= {f"{prefix}.{original}": original for original in OUTPUTS}
    return names


def _replaced_skills(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The line of each function that replaces a skill, and why that is a problem."""
    skills: dict[str, int] = {}
    for function in module.body:
        if isinstance(function, Function):
            if line := skills.pop(function.name, 0):
                yield (
                    function.lineno,
                    f"this {function.name} replaces the skill of line {line}: rename one of them",
                )
            if _skill_id(function):
                skills[function.name] = function.lineno


def _problems(
    function: Function, outputs: Mapping[str, str], *, is_durable: bool
) -> Iterator[tuple[int, str]]:
    """The line of each output that a skill discards, and of each reply that it cannot get, and why. outputs:
    see `_outputs_in`."""
    nodes = list(_nodes_in(function))
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        is_statement = id(node) in statements
        match node:
            case ast.Call(func=callee) if is_statement and (name := outputs.get(_name_of(callee))):
                yield node.lineno, f"this {name} is discarded: write `yield` or `return` before it"
            case ast.Raise(exc=ast.Call(func=callee) | (ast.Name() | ast.Attribute() as callee)) if (
                name := outputs.get(_name_of(callee))
            ):
                yield node.lineno, f"{name} is no exception: write `return` instead of `raise`"
            case ast.Yield(value=ast.Call(func=callee)) if (
                not is_statement and not is_durable and outputs.get(_name_of(callee)) in QUESTIONS
            ):
                yield (
                    node.lineno,
                    "this `yield` never returns the reply, because a question ends the turn of a plain skill."
                    " The reply starts the skill again: read it from turn.text when turn.answering is true,"
                    " or write `durable: true` in card.yaml",
                )


def _name_of(callee: ast.expr) -> str:
    """A name, or one with prefixes; "" for any other expression."""
    match callee:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if prefix := _name_of(value):
            return f"{prefix}.{name}"
    return ""


def _nodes_in(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function's own code, in their order, without the code of functions in it."""
    nodes: list[ast.AST] = [*reversed(function.body)]  # recursion would fail on deeply nested code
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            nodes += reversed([*ast.iter_child_nodes(node)])


def _skill_id(function: Function) -> str:
    """Id of the skill that a function is; "" = it is none."""
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="skill") | ast.Attribute(attr="skill"),
                args=[ast.Constant(value=str(skill_id)), *_],
            ):
                return skill_id
            case (
                ast.Name(id="skill")
                | ast.Attribute(attr="skill")
                | ast.Call(func=ast.Name(id="skill") | ast.Attribute(attr="skill"))
            ):
                return function.name.replace("_", "-")
    return ""
