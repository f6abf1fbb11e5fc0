"""Annotations of an author's functions, some of which may name what is imported only for the type checker.

From Python 3.14 on, annotations are evaluated when they are read (PEP 649), so such a name raises NameError
there even without quotes.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, ForwardRef, Literal, Self, Union, get_args, get_origin, get_type_hints

from typing_extensions import Format, get_annotations
from typing_inspection.typing_objects import is_typealiastype


def signature(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """The parameters of a function. Their annotations may be names that cannot be resolved."""
    if sys.version_info >= (3, 14):
        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's type hints. Those of `turn` and of the result may name what is imported only for the type
    checker, as ruff's TCH rules want it; they are left out then. Raises what the other hints raise."""
    try:
        hints = get_type_hints(function, include_extras=True)
        return {name: without_alias(hint) for name, hint in hints.items()}
    except NameError:
        hints = {}
        code = inspect.unwrap(function)
        for name, annotation in get_annotations(code, format=Format.FORWARDREF).items():
            try:
                hints[name] = without_alias(_resolve(annotation, code, include_extras=True))
            except NameError:
                if name not in ("turn", "return"):
                    raise
        return hints


def return_hint(function: Callable[..., Any]) -> Any:
    """The type that a function says it returns; Any if it does not say, or names what cannot be resolved. A
    class does not say it. function: also a `partial`, or an object that can be called."""
    if isinstance(function, partial):
        function = function.func
    hint: Any = Any
    try:
        hint = get_type_hints(function)["return"]
    except Exception:  # there is none, or it raises anything, because it is code
        with suppress(Exception):
            code = inspect.unwrap(function)
            code = code if inspect.isroutine(code) else type(code).__call__
            annotations = get_annotations(code, format=Format.FORWARDREF)
            hint = _resolve(annotations["return"], code, include_extras=False)
    if hint is Self and inspect.isclass(owner := getattr(function, "__self__", None)):
        return owner
    return get_args(hint)[-1] if get_origin(hint) in (Awaitable, Coroutine) else hint


def without_alias(hint: Any) -> Any:
    """The type that a `type` alias (PEP 695) names; any other hint as it is, and an alias whose type has
    names in strings, such as pydantic's JsonValue: only pydantic can resolve those."""
    while is_typealiastype(hint) and not _has_strings(hint.__value__):
        hint = hint.__value__
    return hint


def _has_strings(hint: Any) -> bool:
    """Whether a hint names types in strings. Those of a Literal are values, and those in `Annotated` are
    texts."""
    if isinstance(hint, str | ForwardRef):
        return True
    arguments = () if get_origin(hint) is Literal else get_args(hint)
    return any(map(_has_strings, arguments[:1] if get_origin(hint) is Annotated else arguments))


def members_of(hint: Any) -> list[Any]:
    """The types that a hint allows: those of a union, or itself. `Annotated` is left out."""
    hint = without_alias(hint)
    if get_origin(hint) is Annotated:
        return members_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [member for argument in get_args(hint) for member in members_of(argument)]
    return [hint]


def _resolve(annotation: Any, code: Any, *, include_extras: bool) -> Any:
    """The type hint in one annotation of a function, whatever its other annotations are. include_extras:
    keeps what `Annotated` adds."""
    holder = SimpleNamespace(__annotations__={"hint": annotation})
    return get_type_hints(holder, code.__globals__, include_extras=include_extras)["hint"]
