"""What an operator does with keys: make, list and revoke them in Parameter Store."""

import math
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from a2a_lambda.access.credentials import KEY_PREFIX, digest_of
from a2a_lambda.access.issuer import is_issuer_row
from a2a_lambda.access.key import LABEL, OWNER_FORM, Key
from a2a_lambda.access.key_reader import KeyReader, ParameterRefused, parameter_errors
from a2a_lambda.errors import ConfigurationError, KeysUnavailable
from a2a_lambda.store.key_copies import KeyLoad

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

MAX_KEY_DAYS = 36_500
"""Maximum days for which a key may be valid: a century."""


class KeyRegister:
    """Keys under a path of Parameter Store. Calls block."""

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path.rstrip("/")
        self._clock = clock
        self._reader = KeyReader(client, path, clock=clock, sleep=sleep)

    def create(
        self,
        label: str,
        *,
        owner: str | None = None,
        agents: tuple[str, ...] = (),
        days: float | None = None,
        secret: str | None = None,
        local: bool = False,
        overwrite: bool = False,
    ) -> str:
        """Store a new key; returns it, this once. Raises ConfigurationError, KeysUnavailable.

        owner: whom its tasks belong to; None = the label. secret: only for local keys.
        """
        owner = owner or label
        if not LABEL.fullmatch(label):
            raise ConfigurationError(
                f"the name of a key must have 1 to 64 letters, digits, _ . or -, not {label!r}"
            )
        if not OWNER_FORM.fullmatch(owner):
            raise ConfigurationError(
                f"an owner must have 1 to 64 letters, digits, _ . @ : or -, not {owner!r}"
            )
        if days is not None and not 0 < days <= MAX_KEY_DAYS:
            raise ConfigurationError(f"DAYS must be greater than 0 and at most {MAX_KEY_DAYS}, not {days}")
        secret = secret or f"{KEY_PREFIX}{secrets.token_urlsafe(32)}"
        expires = None if days is None else self._clock() + days * 86_400
        key = Key(label, digest_of(secret), owner, expires, agents, local)
        problem = f"there is already a key {label!r}: revoke it first, with REVOKE=1"
        with operator_errors(ParameterAlreadyExists=problem):
            self._client.put_parameter(
                Name=f"{self._path}/{label}", Value=key.parameter(), Type="String", Overwrite=overwrite
            )
        return secret

    def list(self) -> list[Key]:
        """All keys, without their secrets. Raises KeysUnavailable."""
        load = KeyLoad(self._clock())
        with operator_errors():
            self._reader.read(load, math.inf)
        return [Key.of_row(row) for row in load.rows if not is_issuer_row(row)]

    def revoke(self, label: str) -> None:
        """Delete a key. Raises ConfigurationError if there is none, KeysUnavailable."""
        with operator_errors(ParameterNotFound=f"there is no key {label!r}"):
            self._client.delete_parameter(Name=f"{self._path}/{label}")


@contextmanager
def operator_errors(**texts: str) -> Iterator[None]:
    """Refusals of Parameter Store become ConfigurationError with the text for their code; all others, and its
    silence, KeysUnavailable. For an operator, because AWS's text names the role, the action and the resource.
    """
    try:
        with parameter_errors():
            yield
    except (ParameterRefused, KeysUnavailable) as error:
        refusal = error.__cause__ if isinstance(error, KeysUnavailable) else error
        if not isinstance(refusal, ParameterRefused):
            raise
        if refusal.code in texts:
            raise ConfigurationError(texts[refusal.code]) from None
        raise KeysUnavailable(str(refusal.__cause__)) from error
