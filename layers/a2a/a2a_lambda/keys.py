"""API keys in SSM Parameter Store: the only module that knows a secret.

One SecureString per key, `<path>/<label>`; its value is the SHA-256 of a generated key and what it
stands for. The key itself is shown once, when it is made, and kept nowhere.
Source: https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParametersByPath.html
(ten parameters a page).
"""

import hashlib
import hmac
import json
import logging
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.errors import ConfigurationError, KeysUnavailable

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
OWNER = re.compile(r"[A-Za-z0-9_.@:-]{1,64}")
DIGEST = re.compile(r"[0-9a-f]{64}")

FRESH = 60.0
"""Seconds loaded keys are used without asking again."""

REREAD = 5.0
"""Least seconds between two loads for keys nobody knows."""

STALE = 300.0
"""Seconds a known key goes on working while Parameter Store does not answer."""

PATIENCE = 3.0
"""Seconds of retries against throttling."""

THROTTLED = {"ThrottlingException", "TooManyUpdates", "RequestLimitExceeded", "InternalServerError"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as stored.

    digest: SHA-256, hex. expires: Unix seconds, or None. agents: names it may call; empty = all.
    local: made by the development server, refused elsewhere.
    """

    label: str
    digest: str
    owner: str
    expires: float | None = None
    agents: tuple[str, ...] = ()
    local: bool = False

    def allows(self, agent: str) -> bool:
        return not self.agents or agent in self.agents


class Keys:
    """Keys under one path. Calls block.

    local: whether local keys are let in.
    """

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        *,
        local: bool = False,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path.rstrip("/")
        self._local = local
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._known: list[Key] = []
        self._loaded = self._tried = float("-inf")

    def find(self, secret: str) -> Key | None:
        """The key a client showed, or None. Raises KeysUnavailable."""
        asked = self._clock()
        found = self._match(secret)
        if asked - self._loaded >= (FRESH if found else REREAD):
            self._reload(asked, wait=found is None)
            found = self._match(secret)
        if found is None and self._tried > self._loaded:
            raise KeysUnavailable("Parameter Store does not answer: the key may be a new one")
        if found is None or (found.expires is not None and found.expires <= asked):
            return None
        if found.local and not self._local:
            logger.warning("the local key %s was refused: it works in development only", found.label)
            return None
        return found

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

        owner: whom its tasks belong to; the label unless given. secret: only for local keys.
        """
        owner = owner or label
        if not LABEL.fullmatch(label):
            raise ConfigurationError(f"a key's name is letters, digits, _ . - (at most 64), not {label!r}")
        if not OWNER.fullmatch(owner):
            raise ConfigurationError(f"an owner is letters, digits, _ . @ : - (at most 64), not {owner!r}")
        if days is not None and days <= 0:
            raise ConfigurationError(f"a key works for more than 0 days, not {days:g}")
        secret = secret or f"a2a_{secrets.token_urlsafe(32)}"
        expires = None if days is None else self._clock() + days * 86_400
        key = Key(label, _digest(secret), owner, expires, agents, local)
        value = {name: getattr(key, name) for name in ("digest", "owner", "expires", "agents", "local")}
        try:
            with _errors():
                self._client.put_parameter(
                    Name=f"{self._path}/{label}",
                    Value=json.dumps(value),
                    Type="SecureString",
                    Overwrite=overwrite,
                )
        except _Refused as error:
            if error.code == "ParameterAlreadyExists":
                raise ConfigurationError(f"there is a key {label!r} already; revoke it first") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
        return secret

    def all(self) -> list[Key]:
        """All keys, without their secrets. Raises KeysUnavailable."""
        return self._load()

    def revoke(self, label: str) -> None:
        """Delete a key. Raises ConfigurationError when there is none, KeysUnavailable."""
        try:
            with _errors():
                self._client.delete_parameter(Name=f"{self._path}/{label}")
        except _Refused as error:
            if error.code == "ParameterNotFound":
                raise ConfigurationError(f"there is no key {label!r}") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error

    def _match(self, secret: str) -> Key | None:
        """Compares with every key, in constant time, so that none shows by how long it took."""
        digest = _digest(secret)
        found: Key | None = None
        for key in self._known:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def _reload(self, asked: float, *, wait: bool) -> None:
        """Load the keys, unless that was tried a moment ago; `wait` for a load that is under way."""
        if not self._lock.acquire(blocking=wait):
            self._check_age(asked)
            return
        try:
            if asked < max(self._loaded, self._tried) + REREAD:
                self._check_age(asked)
                return
            self._tried = asked
            try:
                self._known, self._loaded = self._load(), asked
            except KeysUnavailable as error:
                self._check_age(asked)
                logger.warning("%s; the keys loaded before still work", error)
                return
            if not self._known:
                logger.error("there is no API key under %s: every call is refused; see make key", self._path)
        finally:
            self._lock.release()

    def _check_age(self, asked: float) -> None:
        """Raises KeysUnavailable when what is known is too old to go by."""
        if asked - self._loaded >= STALE:
            raise KeysUnavailable("Parameter Store has not answered for a while")

    def _load(self) -> list[Key]:
        give_up = self._clock() + PATIENCE
        pause = 0.1
        while True:
            try:
                return list(self._pages())
            except _Refused as error:
                if error.code not in THROTTLED or self._clock() + pause > give_up:
                    raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
            self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, no secret
            pause *= 2

    def _pages(self) -> Iterator[Key]:
        arguments: dict[str, Any] = {"Path": self._path, "WithDecryption": True, "MaxResults": 10}
        while True:
            with _errors():
                page = self._client.get_parameters_by_path(**arguments)
            for parameter in page["Parameters"]:
                label = parameter["Name"].rsplit("/", 1)[1]
                try:
                    yield _stored(label, json.loads(parameter["Value"]))
                except (ValueError, TypeError, KeyError):
                    logger.error("the parameter %s/%s is not a key; it lets nobody in", self._path, label)
            if "NextToken" not in page:
                return
            arguments["NextToken"] = page["NextToken"]


def _stored(label: str, value: dict[str, Any]) -> Key:
    """Key of a parameter's value. Raises ValueError, TypeError, KeyError."""
    key = Key(label, **value | {"agents": tuple(value["agents"])})
    if not (
        isinstance(key.digest, str)
        and DIGEST.fullmatch(key.digest)
        and isinstance(key.owner, str)
        and OWNER.fullmatch(key.owner)
        and (key.expires is None or isinstance(key.expires, int | float))
        and all(isinstance(agent, str) for agent in key.agents)
        and isinstance(value["agents"], list)
    ):
        raise ValueError("not a key")
    return key


class _Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _Refused(error.response["Error"]["Code"]) from error
    except BotoCoreError as error:
        raise KeysUnavailable(f"Parameter Store did not answer: {type(error).__name__}") from error


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
