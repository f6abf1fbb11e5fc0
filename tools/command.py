"""What commands share: an error is one line on standard error, and exit status 1."""

import functools
import sys
import tomllib
from collections.abc import Callable
from typing import ParamSpec

from a2a_lambda.errors import ConfigurationError, KeysUnavailable, StoreError

Arguments = ParamSpec("Arguments")

EXPECTED = (ConfigurationError, KeysUnavailable, StoreError, OSError, tomllib.TOMLDecodeError)


def reports_errors(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """A `main` that prints its expected errors. Both return the exit status of the process."""

    @functools.wraps(main)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except EXPECTED as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

    return run


def read_port(value: str) -> int:
    """Raises ConfigurationError."""
    if not value.isdigit() or not 0 < int(value) < 65536:
        raise ConfigurationError(f"PORT must be a number from 1 to 65535, not {value!r}")
    return int(value)
