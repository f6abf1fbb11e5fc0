"""A key as Parameter Store has it.

Each key is one parameter, `<path>/<label>`. Its value is the SHA-256 of a generated key of 256 random bits,
its owner and its limits. The key itself is shown once, when it is made, and is not stored. The hash of so
many random bits can be public, so it needs no KMS.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from a2a_lambda.access.credentials import Grant
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.card import OWNER_PATTERN

LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
OWNER_FORM = re.compile(OWNER_PATTERN)
DIGEST = re.compile(r"[0-9a-f]{64}")

LATEST_UNIX_TIME = 1e12
"""A Unix time after every sensible end of a key, or of a token."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as stored.

    digest: SHA-256, hex. expires: Unix seconds, or None. agents: names of those it may call; empty = all.
    local: the development server made it, and no other server accepts it.
    Raises ValueError if a field has a value that no key has.
    """

    label: str
    digest: str
    owner: str
    expires: float | None = None
    agents: tuple[str, ...] = ()
    local: bool = False

    def __post_init__(self) -> None:
        if not (
            isinstance(self.digest, str)
            and DIGEST.fullmatch(self.digest)
            and isinstance(self.owner, str)
            and OWNER_FORM.fullmatch(self.owner)
            and (self.expires is None or isinstance(self.expires, int | float))
            and (self.expires is None or abs(self.expires) < LATEST_UNIX_TIME)  # false for NaN
            and all(isinstance(agent, str) for agent in self.agents)
            and isinstance(self.local, bool)
        ):
            raise ValueError("not a key")

    @classmethod
    def of_parameter(cls, label: str, text: str) -> "Key":
        """Key in the value of a parameter. Raises ValueError, TypeError, KeyError."""
        value = json.loads(text)
        if not isinstance(value["agents"], list):
            raise ValueError("not a key")
        return cls(label, **value | {"agents": tuple(value["agents"])})

    def parameter(self) -> str:
        """Value of the key's parameter."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "label"})

    @property
    def grant(self) -> Grant:
        """What the key allows."""
        return Grant(Caller(self.owner), self.agents, key_name=self.label)

    @classmethod
    def of_row(cls, row: list[Any]) -> "Key":
        """The key in a row. Raises ValueError, TypeError for a row that `Key.row` of this release cannot have
        written."""
        label, digest, owner, expires, agents, local = row
        if not isinstance(agents, list):
            raise ValueError("not a key")
        return cls(label, digest, owner, expires, tuple(agents), local)

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    def row(self) -> list[Any]:
        """The key as JSON values."""
        return [self.label, self.digest, self.owner, self.expires, list(self.agents), self.local]
