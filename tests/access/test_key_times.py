"""What is known of keys, to the second: when a copy is too old, and when Parameter Store is asked again."""

import logging
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from a2a_lambda import telemetry
from a2a_lambda.access import keys
from a2a_lambda.access.credentials import digest_of
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.key import Key
from a2a_lambda.access.key_reader import KeyReader
from a2a_lambda.access.keys import Keys
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.store.key_copies import KeyCopy, KeyLoad
from tests.access.conftest import unknown
from tests.access.unshared_copies import UnsharedKeyCopies
from tests.helpers.clock import Clock

ANN, GUEST = unknown(0), unknown(100)

ANNS_KEY = Key("ann", digest_of(ANN), "ann")

ISSUER = Issuer("login", "https://login.example", ("agents",))


class ParameterStore:
    """The keys that it has; it answers at once, unless it `is_silent`."""

    def __init__(self, *keys: Key) -> None:
        self.keys = keys
        self.issuers: list[Issuer] = []
        self.reads = 0
        self.is_silent = self.is_throttling = self.refuses_issuers = False
        self.refuses_second_page = False
        self.throttled_issuer_reads = 0

    def get_parameters_by_path(self, *, Path: str, NextToken: str = "", **_: Any) -> Any:
        if Path.endswith("/issuers"):
            if NextToken:
                raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetParametersByPath")
            if self.throttled_issuer_reads:
                self.throttled_issuer_reads -= 1
                raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParametersByPath")
            if self.refuses_issuers:
                raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetParametersByPath")
            page: Any = {
                "Parameters": [{"Name": "/i/login", "Value": row.parameter()} for row in self.issuers]
            }
            return page | ({"NextToken": "next"} if self.refuses_second_page else {})
        self.reads += 1
        if self.is_silent:
            raise EndpointConnectionError(endpoint_url="x")
        if self.is_throttling:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParametersByPath")
        return {"Parameters": [{"Name": f"/k/{key.label}", "Value": key.parameter()} for key in self.keys]}


@pytest.fixture
def parameters(clock: Clock) -> ParameterStore:
    guest = Key("guest", digest_of(GUEST), "ann", expires=clock() + 200)
    return ParameterStore(ANNS_KEY, guest)


@pytest.fixture
def known(parameters: ParameterStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Keys that were read now. Nothing is left to chance."""
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    container = Keys(parameters, "/k", UnsharedKeyCopies(clock), clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    assert container.find(ANN)
    return container


def test_a_copy_is_used_without_a_look_for_a_minute(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    clock.now += keys.FRESH_SECONDS - 1
    assert known.find_cached(ANN)
    assert known.find_cached_issuers() == ()
    known.find(ANN)
    known.find_issuers()
    assert parameters.reads == 1
    clock.now += 1
    assert known.find_cached(ANN) is None
    assert known.find_cached_issuers() is None
    assert known.find(ANN)
    assert parameters.reads == 2


def test_while_the_issuers_cannot_be_read_they_stay_as_they_were(
    known: Keys, parameters: ParameterStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The keys are read without them."""
    parameters.issuers = [ISSUER]
    clock.now += keys.FRESH_SECONDS
    assert known.find_issuers() == tuple(parameters.issuers)
    parameters.refuses_issuers = True
    parameters.keys = parameters.keys[:1]
    clock.now += keys.FRESH_SECONDS
    with caplog.at_level(logging.ERROR):
        assert known.find(GUEST) is None
    assert known.find_issuers() == tuple(parameters.issuers)
    assert "AccessDeniedException" in caplog.text


def test_without_the_issuers_path_an_issuer_counts_for_five_minutes(
    known: Keys, parameters: ParameterStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been removed. The keys are read all the while."""
    parameters.issuers = [ISSUER]
    clock.now += keys.FRESH_SECONDS
    assert known.find_issuers() == (ISSUER,)
    parameters.refuses_issuers, measures = True, list[Any]()
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))
    end_at = clock.now + keys.STALE_KEYS_SECONDS
    while clock.now < end_at:
        assert (known.find(ANN) is not None, known.find_issuers()) == (True, (ISSUER,))
        clock.now += keys.FRESH_SECONDS
    assert {"KeyFailures": 1} in measures, "an alarm warns before tokens are refused"
    assert known.find_cached_issuers() is None
    with pytest.raises(KeysUnavailable, match="has not given the issuers"):
        known.find_issuers()
    assert known.find(ANN), "and works without issuers"
    parameters.refuses_issuers, parameters.issuers = False, []
    clock.now += keys.KEYS_REREAD_SECONDS
    assert known.find_issuers() == (), "it is asked again, though the keys are new"


def test_a_page_of_issuers_that_fails_doubles_none_of_them(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    """The first page has been read by then."""
    parameters.issuers = [ISSUER]
    clock.now += keys.FRESH_SECONDS
    assert known.find_issuers() == (ISSUER,)
    parameters.refuses_second_page = True
    for _ in range(3):
        clock.now += keys.FRESH_SECONDS
        assert known.find_issuers() == (ISSUER,)


def test_issuers_that_were_missed_are_asked_for_again_after_seconds(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    """The keys beside them are new, and would do for a minute."""
    parameters.refuses_issuers = True
    clock.now += keys.FRESH_SECONDS
    assert known.find(ANN)
    assert parameters.reads == 2
    clock.now += keys.KEYS_REREAD_SECONDS - 1
    known.find_issuers()
    assert parameters.reads == 2
    clock.now += 1
    known.find_issuers()
    assert parameters.reads == 3
    parameters.refuses_issuers, parameters.issuers = False, [ISSUER]
    clock.now += keys.KEYS_REREAD_SECONDS
    assert known.find_issuers() == (ISSUER,)
    clock.now += keys.FRESH_SECONDS - 1
    known.find_issuers()
    assert parameters.reads == 4, "nothing is missing any more"


def test_issuers_that_were_never_read_are_not_none(parameters: ParameterStore, clock: Clock) -> None:
    """A valid token is not refused, and no card says that there is no sign-in."""
    parameters.refuses_issuers = True
    container = Keys(parameters, "/k", UnsharedKeyCopies(clock), clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    assert container.find(ANN)
    assert container.find_cached_issuers() is None
    with pytest.raises(KeysUnavailable):
        container.find_issuers()


@pytest.mark.parametrize(("has_key", "has_issuer"), [(True, True), (True, False), (False, True)])
def test_a_key_or_an_issuer_is_enough(
    clock: Clock, caplog: pytest.LogCaptureFixture, has_key: bool, has_issuer: bool
) -> None:
    """The log does not say that every call is refused."""
    parameters = ParameterStore(*([ANNS_KEY] if has_key else []))
    parameters.issuers = [ISSUER] if has_issuer else []
    container = Keys(parameters, "/k", UnsharedKeyCopies(clock), clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        container.find_issuers()
    assert caplog.text == ""


def test_a_key_ends_at_its_time(known: Keys, clock: Clock) -> None:
    clock.now += 199
    assert known.find(GUEST)
    assert known.find_cached(GUEST)
    clock.now += 1
    assert known.find_cached(GUEST) is None
    assert known.find(GUEST) is None


def test_without_parameter_store_a_key_works_for_five_minutes(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    parameters.is_silent = True
    clock.now += keys.STALE_KEYS_SECONDS - 1
    assert known.find(ANN)
    assert known.find_issuers() == ()
    clock.now += 1
    with pytest.raises(KeysUnavailable):
        known.find(ANN)
    with pytest.raises(KeysUnavailable):
        known.find_issuers()


def test_without_parameter_store_an_unknown_key_is_refused_for_five_seconds(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    parameters.is_silent = True
    clock.now += keys.KEYS_REREAD_SECONDS - 1
    assert known.find(unknown(1)) is None
    assert parameters.reads == 1
    clock.now += 1
    with pytest.raises(KeysUnavailable, match="may be a new one"):
        known.find(unknown(1))


def test_a_try_that_failed_is_made_again_after_five_seconds(
    known: Keys, parameters: ParameterStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "KEYS_WAIT_SECONDS", 0.0)
    parameters.is_silent = True
    clock.now += keys.FRESH_SECONDS
    for seconds, reads in ((0.0, 2), (keys.KEYS_REREAD_SECONDS - 1, 2), (1, 3)):
        clock.now += seconds
        assert known.find(ANN)
        assert parameters.reads == reads, seconds


def test_a_refused_key_is_looked_for_again_after_ten_seconds(
    known: Keys, parameters: ParameterStore, clock: Clock
) -> None:
    clock.now += keys.KEYS_REREAD_SECONDS
    for seconds, reads in ((0.0, 2), (keys.REFUSED_SECONDS - 1, 2), (1, 3)):
        clock.now += seconds
        assert known.find(unknown(1)) is None
        assert parameters.reads == reads, seconds


def test_so_many_refused_keys_are_remembered_and_then_none(
    known: Keys, parameters: ParameterStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "REFUSED_KEYS", 2)
    monkeypatch.setattr(keys, "REFUSED_SECONDS", 3600.0)
    for number, reads in ((1, 2), (2, 3), (1, 3), (2, 3), (3, 4), (1, 5)):
        clock.now += keys.KEYS_REREAD_SECONDS
        known.find(unknown(number))
        assert parameters.reads == reads, number


class OtherContainer(UnsharedKeyCopies):
    """Has read the keys, and has shared a copy of them; or is reading them."""

    copy: KeyCopy | None = None
    is_reading = False

    def read_copy(self) -> KeyCopy | None:
        return self.copy

    def begin_load(self, *, seconds: float, resume: float) -> KeyLoad | None:
        return None if self.is_reading else super().begin_load(seconds=seconds, resume=resume)


@pytest.fixture
def other(clock: Clock) -> OtherContainer:
    return OtherContainer(clock)


@pytest.fixture
def sharing(
    parameters: ParameterStore, other: OtherContainer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Keys:
    """A container that has no keys yet, and cannot read Parameter Store."""
    parameters.is_silent = True
    monkeypatch.setattr(keys, "KEYS_WAIT_SECONDS", 0.0)
    return Keys(parameters, "/k", other, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "is_used"), [(1.0, True), (2.0, False)])
def test_a_copy_from_the_future_is_of_a_clock_that_is_a_second_off_at_most(
    sharing: Keys, other: OtherContainer, clock: Clock, *, seconds: float, is_used: bool
) -> None:
    other.copy = KeyCopy(clock() + seconds, 1, [ANNS_KEY.row()], clock() + seconds)
    if is_used:
        assert sharing.find(ANN)
        return
    with pytest.raises(KeysUnavailable):
        sharing.find(ANN)


@pytest.mark.parametrize(("age", "is_remembered"), [(1.0, True), (2.0, False)])
def test_a_key_that_an_older_copy_lacks_may_be_a_newer_key(
    sharing: Keys, other: OtherContainer, clock: Clock, *, age: float, is_remembered: bool
) -> None:
    other.copy = KeyCopy(clock() - age, 1, [ANNS_KEY.row()], clock() - age)
    assert sharing.find(unknown(1)) is None
    other.copy = KeyCopy(clock() + 1, 1, [Key("new", digest_of(unknown(1)), "ann").row()], clock() + 1)
    clock.now += keys.KEYS_REREAD_SECONDS
    assert bool(sharing.find(unknown(1))) != is_remembered


def test_while_parameter_store_throttles_a_working_key_does_not_try_again_and_again(
    sharing: Keys, parameters: ParameterStore, other: OtherContainer, clock: Clock, monkeypatch: Any
) -> None:
    """It came with the copy of another container, which is not fresh any more."""
    monkeypatch.setattr(keys, "KEYS_WAIT_SECONDS", 3.0)
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    parameters.is_silent, parameters.is_throttling = False, True
    other.copy = KeyCopy(clock() - 100, 1, [ANNS_KEY.row()], clock() - 100)
    assert sharing.find(ANN)
    assert parameters.reads == 3


@pytest.mark.parametrize(
    ("seconds", "waits"), [(keys.STALE_KEYS_SECONDS - 1, 0), (keys.STALE_KEYS_SECONDS, 1)]
)
def test_only_a_key_that_is_too_old_waits_for_the_container_that_reads_the_keys(
    parameters: ParameterStore, other: OtherContainer, clock: Clock, seconds: float, waits: int
) -> None:
    sleeps: list[float] = []

    def sleep(pause: float) -> None:
        sleeps.append(pause)
        other.copy = KeyCopy(clock(), 1, [ANNS_KEY.row()], clock())

    container = Keys(parameters, "/k", other, clock=clock, sleep=sleep)  # type: ignore[arg-type]
    assert container.find(ANN)
    clock.now += seconds
    other.is_reading = True
    assert container.find(ANN)
    assert len(sleeps) == waits


@pytest.mark.parametrize(("seconds", "reads"), [(0.1, 1), (0.2, 2)])
def test_a_throttled_read_is_tried_again_if_there_is_time(
    parameters: ParameterStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float, reads: int
) -> None:
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    parameters.is_throttling = True
    reader = KeyReader(parameters, "/k", clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    with pytest.raises(KeysUnavailable, match="ThrottlingException"):
        reader.read(KeyLoad(clock()), clock() + seconds)
    assert parameters.reads == reads


def test_a_throttled_read_of_the_issuers_is_tried_again(parameters: ParameterStore, clock: Clock) -> None:
    """Otherwise, every token would be refused until the keys are read again."""
    parameters.issuers = [Issuer("login", "https://login.example.com", ("agents",))]
    parameters.throttled_issuer_reads = 1
    container = Keys(parameters, "/k", UnsharedKeyCopies(clock), clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    assert [issuer.name for issuer in container.find_issuers()] == ["login"]
