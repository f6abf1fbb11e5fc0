"""Replies that an agent cannot get. In a plain skill, a question ends the turn, so `reply = yield Ask(…)` has
none: the next message starts the skill again."""

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from a2a_lambda.mistakes import short_path
from a2a_lambda.protocol.card import Card

QUESTIONS = {"Ask", "Authorize"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_lost(agents: Path, cards: Mapping[str, Card]) -> list[str]:
    """A sentence for each question in agent.py whose reply a plain skill would use. agents: their folder.
    cards: by the name of their agent. Only these agents are read."""
    sentences: list[str] = []
    for name, card in cards.items():
        code = agents / name / "agent.py"
        with suppress(OSError, SyntaxError):  # make run names these itself
            sentences += [
                f"{short_path(code)}:{line}: this `yield` never returns the reply, because a question ends"
                " the turn of a plain skill. The reply starts the skill again: read it from turn.text when"
                " turn.answering is true, or write `durable: true` in card.yaml"
                for skill_id, line in _used_replies(ast.parse(code.read_bytes()))
                if skill_id not in card.durable_skills
            ]
    return sentences


def _used_replies(module: ast.Module) -> Iterator[tuple[str, int]]:
    """The skill and the line of each `yield` of a question whose value is used."""
    for function in ast.walk(module):
        if isinstance(function, Function) and (skill_id := _skill_id(function)):
            nodes = list(_nodes_in(function))
            statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                match node:
                    case ast.Yield(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if (
                        id(node) not in statements and name in QUESTIONS
                    ):
                        yield skill_id, node.lineno


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
