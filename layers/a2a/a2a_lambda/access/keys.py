"""Checks the keys of callers. See `key` for what is stored.

Parameter Store allows about 40 reads a second to all workloads of an account and region, with ten keys a
read. So one container reads all keys, and shares a copy of them in the table:

    known key, the copy is fresh      nothing is read
    known key, the copy is older      the shared copy is read; one container renews it
    key of another form               refused; nothing is read
    unknown key                       refused if the keys were read a few seconds ago; else they are read

On average the whole deployment reads at most PAGES_PER_SECOND pages a second, however many containers it
has and whatever callers without a key send. Parameter Store stays the source of truth. Without it, a copy
works for STALE_KEYS_SECONDS. Sources:
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParametersByPath.html (ten a page)
https://docs.aws.amazon.com/general/latest/gr/ssm.html (40 a second)
"""

import hmac
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING

from a2a_lambda import telemetry
from a2a_lambda.access.credentials import KEY_FORM, digest_of
from a2a_lambda.access.issuer import Issuer, is_issuer_row
from a2a_lambda.access.key import Key
from a2a_lambda.access.key_reader import KeyReader
from a2a_lambda.errors import KeysUnavailable, StoreError, WriteRefused
from a2a_lambda.store.key_copies import KeyCopies, KeyCopy, KeyLoad

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

FRESH_SECONDS = 60.0
"""Seconds for which a copy is used without a look for a newer one."""

KEYS_REREAD_SECONDS = 5.0
"""Minimum seconds between two reads of Parameter Store for unknown keys."""

PAGES_PER_SECOND = 4
"""Maximum pages a second that the deployment reads on average: a tenth of the account's quota."""

STALE_KEYS_SECONDS = 300.0
"""Seconds for which a known key works while Parameter Store does not answer."""

KEYS_WAIT_SECONDS = 3.0
"""Seconds for which a request waits for Parameter Store: one with an unknown key, or the one that renews
the copy."""

KEYS_READ_SECONDS = 20.0
"""Seconds for which a request that needs a key continues to read while pages arrive, KEYS_WAIT_SECONDS at a
time. Otherwise, a stack that is seldom called would never read all of its keys."""

LOAD_SECONDS = 10.0
"""Seconds after which another container may take over a load that was neither finished nor stopped."""

RESUME_SECONDS = STALE_KEYS_SECONDS
"""Seconds after its first page for which a stopped load is continued, and not begun again."""

REFUSED_SECONDS = 10.0
"""Seconds for which a key that Parameter Store does not have is refused without another look."""

CLOCK_SKEW_SECONDS = 1.0
"""Seconds by which the clocks of containers may differ."""

REFUSED_KEYS = 10_000
"""Unknown keys that a container remembers."""

NO_KEYS = KeyCopy(float("-inf"), 0, [], 0.0)

logger = logging.getLogger(__name__)


class Renewal(Enum):
    """The result of an attempt to renew the keys: newer keys, some of their pages, or nothing."""

    DONE = auto()
    PARTIAL = auto()
    NONE = auto()


class Keys:
    """Keys under a path of Parameter Store. Calls block, except `find_cached`, `find_cached_issuers` and
    `knows`.

    copies: what the containers of the deployment share.
    local: local keys are accepted. They may have any form.
    """

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        copies: KeyCopies,
        *,
        local: bool = False,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path.rstrip("/")
        self._reader = KeyReader(client, path, clock=clock, sleep=sleep)
        self._copies = copies
        self._local = local
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._try_to_use(NO_KEYS)
        self._tried_at = float("-inf")
        self._refused: dict[str, float] = {}

    def knows(self, secret: str) -> bool:
        """Whether there was such a key when the keys were read last."""
        return self._match(digest_of(secret)) is not None

    def find_cached(self, secret: str) -> Key | None:
        """The key with a secret, if that is known without a call, else None."""
        now = self._clock()
        # Stale keys are not used here, because the caller runs on the event loop and must not block it.
        # `find` decides in a thread.
        if now - self._copy.loaded_at >= self._fresh_seconds:
            return None
        return self._usable(self._match(digest_of(secret)), now)

    def find(self, secret: str) -> Key | None:
        """The key with a secret, or None. Raises KeysUnavailable."""
        # What cannot be a key costs nothing: no digest, no read, no place in a cache.
        if not (self._local or KEY_FORM.fullmatch(secret)):
            return None
        digest, arrival = digest_of(secret), self._clock()
        if self._refused.get(digest, 0.0) > arrival:
            return None
        was_stale = not self._is_fresh(digest, arrival)
        if was_stale:
            self._renew(digest, arrival)
        key = self._match(digest)
        age = arrival - self._copy.loaded_at
        if age >= STALE_KEYS_SECONDS:
            raise KeysUnavailable("Parameter Store has not answered for a while")
        if key is None and age >= self._reread_seconds:
            raise KeysUnavailable("Parameter Store does not answer, and the key may be a new one")
        if key is None and was_stale and age <= CLOCK_SKEW_SECONDS:  # an older copy may lack a newer key
            if len(self._refused) >= REFUSED_KEYS:
                self._refused.clear()
            self._refused[digest] = arrival + REFUSED_SECONDS
        return self._usable(key, arrival)

    def find_cached_issuers(self) -> Sequence[Issuer] | None:
        """The issuers of tokens, if they are known without a call, else None."""
        now = self._clock()
        is_known = now - self._copy.loaded_at < self._fresh_seconds and not self._lacks_issuers(now)
        return self._issuers if is_known else None

    def find_issuers(self) -> Sequence[Issuer]:
        """The issuers of tokens, as they were at most STALE_KEYS_SECONDS ago. Raises KeysUnavailable."""
        arrival = self._clock()
        if not self._is_fresh(None, arrival):
            self._renew(None, arrival)
        if self._lacks_issuers(arrival):
            raise KeysUnavailable("Parameter Store has not given the issuers of tokens for a while")
        return self._issuers

    def _lacks_issuers(self, now: float) -> bool:
        """Whether the issuers were never read, or too long ago. A newer copy of the keys may have old
        issuers."""
        return now - self._copy.issuers_loaded_at >= STALE_KEYS_SECONDS

    def _match(self, digest: str) -> Key | None:
        """Compare with every key, in constant time, so that the time shows nothing."""
        match: Key | None = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match

    def _usable(self, key: Key | None, now: float) -> Key | None:
        if key is None or key.has_expired(now):
            return None
        if key.local and not self._local:
            logger.warning("the local key %s was refused: it is for development only", key.label)
            return None
        return key

    def _try_to_use(self, copy: KeyCopy) -> bool:
        """Use the keys of a copy. False if its rows are no keys of this release; then nothing changes."""
        try:
            keys = [Key.of_row(row) for row in copy.rows if not is_issuer_row(row)]
            issuers = tuple(Issuer.of_row(row) for row in copy.rows if is_issuer_row(row))
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("a copy of the keys cannot be read: %r", error)
            return False
        self._keys, self._issuers, self._copy = keys, issuers, copy
        # Containers that started together must not ask again together.
        self._fresh_seconds = FRESH_SECONDS * random.uniform(0.75, 1.0)  # noqa: S311  # no secret
        self._reread_seconds = max(KEYS_REREAD_SECONDS, copy.pages / PAGES_PER_SECOND)
        return True

    def _is_fresh(self, digest: str | None, arrival: float) -> bool:
        """Whether what is in use is recent enough to decide. How often an unknown key may cause a read
        depends on the number of pages. digest: digest of the key that is wanted; None = the issuers are."""
        age = arrival - self._copy.loaded_at
        has_missed_issuers = self._copy.issuers_loaded_at < self._copy.loaded_at  # at the last look
        if digest is None and has_missed_issuers:
            return age < self._reread_seconds
        if digest is None or self._match(digest) is not None:
            return age < self._fresh_seconds
        # A card that was read a moment ago must not delay a new key.
        return age < self._reread_seconds and not self._copy.is_of_card

    def _must_wait(self, digest: str | None, arrival: float) -> bool:
        """Whether a request must wait for Parameter Store. One with a working key need not."""
        if digest is None:
            return self._lacks_issuers(arrival)
        return self._match(digest) is None or arrival - self._copy.loaded_at >= STALE_KEYS_SECONDS

    def _renew(self, digest: str | None, arrival: float) -> None:
        """Use newer keys, if possible: the copy of another container, or those in Parameter Store.

        A request with a known key does not wait for a container that reads them already."""
        must_wait = self._must_wait(digest, arrival)
        if not self._lock.acquire(blocking=must_wait):
            return
        try:
            # A try failed a moment ago. The next one is KEYS_REREAD_SECONDS after the request that made it.
            if arrival < self._tried_at + KEYS_REREAD_SECONDS:
                return
            give_up_at = self._clock() + KEYS_WAIT_SECONDS
            # Issuers are wanted without a key, as for a card, so no one waits long for them.
            end_at = self._clock() + (KEYS_READ_SECONDS if must_wait and digest is not None else 0.0)
            while (renewal := self._try_to_renew(digest, arrival, give_up_at)) is not Renewal.DONE:
                if renewal is Renewal.PARTIAL and self._clock() < end_at:
                    give_up_at = self._clock() + KEYS_WAIT_SECONDS
                    continue
                if not must_wait or self._clock() >= give_up_at:
                    self._tried_at = arrival
                    return
                self._sleep(random.uniform(0.1, 0.3))  # noqa: S311  # no secret
        except StoreError as error:
            raise KeysUnavailable(f"the copy of the keys cannot be read: {error}") from error
        finally:
            self._lock.release()

    def _try_to_renew(self, digest: str | None, arrival: float, give_up_at: float) -> Renewal:
        copy = self._copies.read_copy()
        # A copy from the future is of a container whose clock is wrong. It would count as fresh for too long.
        if copy is not None and self._copy.loaded_at < copy.loaded_at <= self._clock() + CLOCK_SKEW_SECONDS:
            self._try_to_use(copy)
        if self._is_fresh(digest, arrival):
            return Renewal.DONE
        # One container reads for all. The others use its copy, or keep their old keys until it is there.
        load = self._copies.begin_load(seconds=LOAD_SECONDS, resume=RESUME_SECONDS)
        if load is None:
            return Renewal.NONE
        try:
            # If it is throttled, a request with a working key does not try again. A later request continues.
            if not self._reader.read(load, give_up_at, retries=self._must_wait(digest, arrival)):
                self._copies.stop_load(load, cooldown_seconds=0)
                return Renewal.PARTIAL
        except KeysUnavailable as error:
            telemetry.measure({"KeyFailures": 1})
            logger.warning("%s; the keys that were read before still work", error)
            self._copies.stop_load(load, cooldown_seconds=1)
            return Renewal.NONE
        load.is_of_card = digest is None and load.refusal is None
        if load.refusal is not None:
            telemetry.measure({"KeyFailures": 1})
            logger.error("the issuers of tokens could not be read: %s", load.refusal)
            load.issuers_loaded_at = self._copy.issuers_loaded_at
            load.rows += [issuer.row() for issuer in self._issuers]
        # Another release may have read the first pages.
        if not self._try_to_use(load.as_copy()):
            self._copies.stop_load(KeyLoad(self._clock(), holder=load.holder), cooldown_seconds=0)
            return Renewal.NONE
        with suppress(WriteRefused):  # too many keys for one item: then each container reads them by itself
            self._copies.finish_load(load)
        if not self._keys and not self._issuers:
            logger.error("there is no API key under %s, so every call is refused; see make key", self._path)
        return Renewal.DONE
