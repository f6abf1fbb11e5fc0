"""API keys in SSM Parameter Store: the only module that knows a secret.

One parameter per key, `<path>/<label>`. Its value is the SHA-256 of a generated key of 256 random bits, and
what the key stands for. The key itself is shown once, when it is made, and is not stored. A hash of that many
random bits is no secret, so it needs no KMS.

Parameter Store allows some 40 reads a second to all workloads of an account and region, ten keys a read. So
one container reads all keys and shares a copy in the table:

    known key, the copy is fresh      nothing is read
    known key, the copy is older      the shared copy is read; one container renews it
    key of another form               refused; nothing is read
    unknown key                       refused if the keys were read a few seconds ago; else they are read

On average the whole deployment reads at most PAGES_PER_SECOND pages a second, whatever callers without a key
send and however many containers it has. Parameter Store stays the source of truth: without it a copy works
for STALE seconds. Sources:
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParametersByPath.html (ten a page)
https://docs.aws.amazon.com/general/latest/gr/ssm.html (40 a second)
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import telemetry
from a2a_lambda.errors import ConfigurationError, KeysUnavailable, StoreError, WriteRefused
from a2a_lambda.store.key_copies import Copies, Copy, Load

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

FORM = re.compile(r"a2a_[A-Za-z0-9_-]{43}")
LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
OWNER = re.compile(r"[A-Za-z0-9_.@:-]{1,64}")
DIGEST = re.compile(r"[0-9a-f]{64}")

FRESH = 60.0
"""Seconds a copy is used without asking whether there is a newer one."""

REREAD = 5.0
"""Least seconds between two reads of Parameter Store for keys that no one knows."""

PAGES_PER_SECOND = 4
"""Most pages a second that the deployment reads on average: a tenth of the account's quota."""

PAGE_SECONDS = 0.05
"""Least seconds between two pages: not even for a second more than half of the quota is taken."""

STALE = 300.0
"""Seconds a known key continues to work while Parameter Store does not answer."""

PATIENCE = 3.0
"""Seconds a request waits for Parameter Store: one with an unknown key, or the one that renews the copy."""

LOADING = 10.0
"""Seconds after which another container may take over a load that was neither finished nor stopped."""

RESUMED = STALE
"""Seconds after its first page within which a load that was stopped is continued, not begun again."""

REFUSED = 10.0
"""Seconds a key that Parameter Store did not have is refused without another look."""

CLOCKS_DIFFER = 1.0
"""Seconds by which containers' clocks may differ."""

MOST_REFUSED = 10_000
"""Unknown keys a container remembers."""

THROTTLED = {"ThrottlingException", "TooManyUpdates", "RequestLimitExceeded", "InternalServerError"}

NOTHING = Copy(float("-inf"), 0, [])

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
    """Keys under one path. Calls block, but for `find_cached` and `knows`.

    copies: what the deployment's containers share; without it this one reads Parameter Store by itself.
    local: whether local keys, which have no form, are let in.
    """

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        copies: Copies | None = None,
        *,
        local: bool = False,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path.rstrip("/")
        self._copies: Copies | Alone = copies or Alone(clock)
        self._local = local
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._use(NOTHING)
        self._tried = float("-inf")
        self._refused: dict[str, float] = {}

    def knows(self, secret: str) -> bool:
        """Whether the key was there when the keys were read last."""
        return self._match(_digest(secret)) is not None

    def find_cached(self, secret: str) -> Key | None:
        """The key a client showed, if that is known without a call."""
        now = self._clock()
        if now - self._copy.loaded >= self._fresh:
            return None
        return self._usable(self._match(_digest(secret)), now)

    def find(self, secret: str) -> Key | None:
        """The key a client showed, or None. Raises KeysUnavailable."""
        if not (self._local or FORM.fullmatch(secret)):
            return None
        digest, asked = _digest(secret), self._clock()
        if self._refused.get(digest, 0.0) > asked:
            return None
        looked = not self._is_fresh(digest, asked)
        if looked:
            self._renew(digest, asked)
        found = self._match(digest)
        age = asked - self._copy.loaded
        if age >= STALE:
            raise KeysUnavailable("Parameter Store has not answered for a while")
        if found is None and age >= self._reread:
            raise KeysUnavailable("Parameter Store does not answer: the key may be a new one")
        if found is None and looked and age <= CLOCKS_DIFFER:  # an older copy may lack a key made since
            if len(self._refused) >= MOST_REFUSED:
                self._refused.clear()
            self._refused[digest] = asked + REFUSED
        return self._usable(found, asked)

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
                    Type="String",
                    Overwrite=overwrite,
                )
        except _Refused as error:
            if error.code == "ParameterAlreadyExists":
                raise ConfigurationError(f"there is a key {label!r} already; revoke it first") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
        return secret

    def all(self) -> list[Key]:
        """All keys, without their secrets. Raises KeysUnavailable."""
        load = Load(self._clock())
        self._read(load, float("inf"))
        return [_of_row(row) for row in load.rows]

    def revoke(self, label: str) -> None:
        """Delete a key. Raises ConfigurationError when there is none, KeysUnavailable."""
        try:
            with _errors():
                self._client.delete_parameter(Name=f"{self._path}/{label}")
        except _Refused as error:
            if error.code == "ParameterNotFound":
                raise ConfigurationError(f"there is no key {label!r}") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error

    def _match(self, digest: str) -> Key | None:
        """Compares with every key, in constant time, so that none shows by how long it took."""
        found: Key | None = None
        for key in self._known:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def _usable(self, key: Key | None, now: float) -> Key | None:
        if key is None or (key.expires is not None and key.expires <= now):
            return None
        if key.local and not self._local:
            logger.warning("the local key %s was refused: it works in development only", key.label)
            return None
        return key

    def _use(self, copy: Copy) -> None:
        self._known = [_of_row(row) for row in copy.rows]
        self._copy = copy
        # Containers that began together do not ask again together.
        self._fresh = FRESH * random.uniform(0.75, 1.0)  # noqa: S311  # no secret
        self._reread = max(REREAD, copy.pages / PAGES_PER_SECOND)

    def _is_fresh(self, digest: str, asked: float) -> bool:
        """Whether the keys in use answer for this one. How often an unknown one may cause a read depends on
        how many pages a read has."""
        age = asked - self._copy.loaded
        return age < (self._reread if self._match(digest) is None else self._fresh)

    def _waits(self, digest: str, asked: float) -> bool:
        """Whether a request waits for Parameter Store: not one with a key that works."""
        return self._match(digest) is None or asked - self._copy.loaded >= STALE

    def _renew(self, digest: str, asked: float) -> None:
        """Use newer keys, if they can be had: another container's copy, or what Parameter Store says.

        A request with a known key waits for no container that reads them already."""
        waits = self._waits(digest, asked)
        if not self._lock.acquire(blocking=waits):
            return
        try:
            if asked < self._tried + REREAD:
                return
            give_up = self._clock() + PATIENCE
            while not self._try_to_renew(digest, asked, give_up):
                if not waits or self._clock() >= give_up:
                    self._tried = asked
                    return
                self._sleep(random.uniform(0.1, 0.3))  # noqa: S311  # no secret
        except StoreError as error:
            raise KeysUnavailable(f"the copy of the keys cannot be read: {error}") from error
        finally:
            self._lock.release()

    def _try_to_renew(self, digest: str, asked: float, give_up: float) -> bool:
        copy = self._copies.copy()
        # One from the future is of a container whose clock is wrong: it would count as fresh for too long.
        if copy is not None and self._copy.loaded < copy.loaded <= self._clock() + CLOCKS_DIFFER:
            self._use(copy)
        if self._is_fresh(digest, asked):
            return True
        load = self._copies.begin_load(seconds=LOADING, resume=RESUMED)
        if load is None:
            return False
        try:
            # Throttled, a request with a key that works does not try again: a later one continues.
            if not self._read(load, give_up, insists=self._waits(digest, asked)):
                self._copies.stop_load(load, rest=0)
                return False
        except KeysUnavailable as error:
            telemetry.measure({"KeyFailures": 1})
            logger.warning("%s; the keys read before still work", error)
            self._copies.stop_load(load, rest=1)
            return False
        self._use(Copy(load.begun, load.pages, load.rows))
        with suppress(WriteRefused):  # too many keys for one item: each container reads them by itself
            self._copies.finish_load(load)
        if not self._known:
            logger.error("there is no API key under %s: every call is refused; see make key", self._path)
        return True

    def _read(self, load: Load, give_up: float, *, insists: bool = True) -> bool:
        """Read the pages a load has not got yet; returns whether it has all in time.

        insists: tries again where throttled. Raises KeysUnavailable.
        """
        pause = 0.1
        while True:
            begun = self._clock()
            try:
                token = self._page(load)
            except _Refused as error:
                if error.code == "InvalidNextToken":
                    load.begun, load.pages, load.token, load.rows = self._clock(), 0, "", []
                elif error.code not in THROTTLED or not insists or self._clock() + pause >= give_up:
                    raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
                self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
                pause = min(2 * pause, 1.0)
                continue
            if not token:
                return True
            if self._clock() >= give_up:
                return False
            self._sleep(max(0.0, begun + PAGE_SECONDS - self._clock()))

    def _page(self, load: Load) -> str:
        """Read a page into a load; returns the token of the next. Raises _Refused, KeysUnavailable."""
        arguments: dict[str, Any] = {"Path": self._path, "MaxResults": 10}
        if load.token:
            arguments["NextToken"] = load.token
        with _errors():
            page = self._client.get_parameters_by_path(**arguments)
        for parameter in page["Parameters"]:
            label = parameter["Name"].rsplit("/", 1)[1]
            try:
                load.rows.append(_row(_stored(label, json.loads(parameter["Value"]))))
            except (ValueError, TypeError, KeyError):
                logger.error("the parameter %s/%s is not a key; it lets no one in", self._path, label)
        load.pages += 1
        load.token = page.get("NextToken", "")
        return load.token


class Alone:
    """The copies of a process that shares none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._copy: Copy | None = None
        self._stopped: tuple[float, Load] | None = None

    def copy(self) -> Copy | None:
        return self._copy

    def begin_load(self, *, seconds: float, resume: float) -> Load | None:
        if self._stopped is None:
            return Load(self._clock())
        free, load = self._stopped
        if self._clock() < free:
            return None
        self._stopped = None
        return load if self._clock() - load.begun <= resume else Load(self._clock())

    def finish_load(self, load: Load) -> None:
        self._copy = Copy(load.begun, load.pages, load.rows)

    def stop_load(self, load: Load, *, rest: float) -> None:
        self._stopped = (self._clock() + rest, load)


def _row(key: Key) -> list[Any]:
    return [key.label, key.digest, key.owner, key.expires, list(key.agents), key.local]


def _of_row(row: list[Any]) -> Key:
    label, digest, owner, expires, agents, local = row
    return Key(label, digest, owner, expires, tuple(agents), local)


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
