"""What the containers of a deployment share: keys of issuers, marks of schedules, and a secret."""

import uuid
from dataclasses import dataclass

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.errors import StoreError
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.issuer_copies import FETCH_LEASE_SECONDS, FetchState, IssuerCopies, IssuerCopy
from a2a_lambda.store.schedule_marks import ScheduleMarks
from a2a_lambda.store.shared_secret import SharedSecret
from a2a_lambda.store.table import Table
from tests.helpers.clock import Clock

JWKS = [{"kty": "RSA", "kid": "ключ"}]


@dataclass(frozen=True)
class Issuer:
    name: str = "idp"
    url: str = "https://idp.example"


IDP = Issuer()


@pytest.fixture
def table(settings: Settings, clock: Clock) -> Table:
    return Table(clients.dynamodb(settings), settings.table, clock=clock)


@pytest.fixture
def path() -> str:
    """A deployment that no one had before: tests share the table."""
    return f"/path/{uuid.uuid4()}"


@pytest.fixture
def copies(table: Table, path: str) -> IssuerCopies:
    return IssuerCopies(table, path)


def test_what_an_issuer_said_is_shared(copies: IssuerCopies, clock: Clock) -> None:
    assert (copies.read_copy(IDP), copies.read_fetch_state(IDP)) == (IssuerCopy(0.0, []), None)
    fetch = copies.begin_fetch(IDP, cooldown_seconds=30)
    assert fetch is not None
    assert copies.read_fetch_state(IDP) == FetchState.BUSY
    copies.finish_fetch(IDP, fetch, JWKS)
    assert copies.read_copy(IDP) == IssuerCopy(clock.now, JWKS)
    assert copies.read_fetch_state(IDP) == FetchState.DONE


def test_a_copy_is_of_one_issuer_and_one_deployment(copies: IssuerCopies, table: Table) -> None:
    fetch = copies.begin_fetch(IDP, cooldown_seconds=30)
    assert fetch is not None
    copies.finish_fetch(IDP, fetch, JWKS)
    assert copies.read_copy(Issuer(url="https://other.example")).jwks == []
    assert copies.read_copy(Issuer(name="other")).jwks == []
    assert IssuerCopies(table, "/elsewhere").read_copy(IDP).jwks == []


def test_one_container_asks_at_a_time(copies: IssuerCopies, clock: Clock) -> None:
    assert copies.begin_fetch(IDP, cooldown_seconds=30) is not None
    clock.now += 29
    assert copies.begin_fetch(IDP, cooldown_seconds=30) is None
    assert copies.begin_fetch(Issuer(name="other"), cooldown_seconds=30) is not None
    clock.now += 1
    assert copies.begin_fetch(IDP, cooldown_seconds=30) is not None


def test_a_fetch_fails_when_its_issuer_or_its_container_is_silent(copies: IssuerCopies, clock: Clock) -> None:
    fetch = copies.begin_fetch(IDP, cooldown_seconds=30)
    assert fetch is not None
    clock.now += FETCH_LEASE_SECONDS - 1
    assert copies.read_fetch_state(IDP) == FetchState.BUSY
    clock.now += 1
    assert copies.read_fetch_state(IDP) == FetchState.FAILED
    copies.finish_fetch(IDP, fetch, JWKS)
    assert copies.read_fetch_state(IDP) == FetchState.DONE, "it was late, but it has answered"
    copies.end_fetch(IDP, fetch, FetchState.FAILED)
    assert copies.read_fetch_state(IDP) == FetchState.FAILED


def test_a_slow_fetch_replaces_nothing_newer(copies: IssuerCopies, clock: Clock) -> None:
    slow = copies.begin_fetch(IDP, cooldown_seconds=5)
    clock.now += 5
    quick = copies.begin_fetch(IDP, cooldown_seconds=5)
    assert slow is not None
    assert quick is not None
    copies.finish_fetch(IDP, quick, JWKS)
    copies.finish_fetch(IDP, slow, [])
    copies.end_fetch(IDP, slow, FetchState.FAILED)
    assert copies.read_copy(IDP) == IssuerCopy(clock.now, JWKS)
    assert copies.read_fetch_state(IDP) == FetchState.DONE


def test_a_fetch_of_another_url_replaces_a_newer_copy(copies: IssuerCopies, clock: Clock) -> None:
    slow, new_issuer = copies.begin_fetch(IDP, cooldown_seconds=5), Issuer(url="https://moved.example")
    clock.now += 5
    quick = copies.begin_fetch(new_issuer, cooldown_seconds=5)
    assert slow is not None
    assert quick is not None
    copies.finish_fetch(new_issuer, quick, JWKS)
    copies.finish_fetch(IDP, slow, JWKS)
    assert copies.read_copy(IDP).jwks == JWKS


def test_a_copy_is_kept_for_two_days(copies: IssuerCopies, clock: Clock) -> None:
    fetch = copies.begin_fetch(IDP, cooldown_seconds=30)
    assert fetch is not None
    copies.finish_fetch(IDP, fetch, JWKS)
    clock.now += 2 * 24 * 3600 - 1
    assert copies.read_copy(IDP).jwks == JWKS
    assert copies.read_fetch_state(IDP) == FetchState.DONE
    clock.now += 1
    assert copies.read_copy(IDP).jwks == []
    assert copies.read_fetch_state(IDP) is None


def test_a_copy_that_cannot_be_read_is_none(
    copies: IssuerCopies, table: Table, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    fetch = copies.begin_fetch(IDP, cooldown_seconds=30)
    assert fetch is not None
    copies.finish_fetch(IDP, fetch, JWKS)
    key = items.keys_key(path, "jwks#idp")
    item = {**(table.get(key) or {}), "keys": {"S": "{"}}
    table.put(item, "attribute_exists(pk)", {})
    assert copies.read_copy(IDP) == IssuerCopy()
    assert "made again" in caplog.text


def test_a_mark_moves_forward_only(table: Table, clock: Clock) -> None:
    marks, agent = ScheduleMarks(table), str(uuid.uuid4())
    assert marks.read(agent, "daily") is None
    for until in (clock.now, clock.now + 60.5, clock.now + 30):
        marks.advance(agent, "daily", until)
    assert marks.read(agent, "daily") == clock.now + 60.5
    assert marks.read(agent, "hourly") is None
    assert marks.read(str(uuid.uuid4()), "daily") is None


def test_a_mark_that_nothing_moves_is_kept_for_thirty_days(table: Table, clock: Clock) -> None:
    marks, agent = ScheduleMarks(table), str(uuid.uuid4())
    marks.advance(agent, "daily", clock.now)
    clock.now += 30 * 24 * 3600 - 1
    assert marks.read(agent, "daily") is not None
    clock.now += 1
    assert marks.read(agent, "daily") is None


def test_all_containers_have_one_secret_for_one_purpose(table: Table, path: str) -> None:
    first = SharedSecret(table, path, "questions")
    value = first.get()
    assert len(value) == 32
    assert first.get() == SharedSecret(table, path, "questions").get() == value
    assert SharedSecret(table, path, "other").get() != value
    assert SharedSecret(table, "/elsewhere", "questions").get() != value


def test_a_secret_is_read_once(table: Table, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = SharedSecret(table, path, "questions")
    value = secret.get()
    monkeypatch.setattr(table, "get", lambda key: pytest.fail("it was read before"))
    assert secret.get() == value


def test_two_containers_that_make_a_secret_agree(
    table: Table, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is quicker: it stores its secret after this one has found none."""
    get = table.get
    values: list[bytes] = []

    def find_none(key: dict[str, object]) -> None:
        monkeypatch.setattr(table, "get", get)
        assert get(key) is None
        values.append(SharedSecret(table, path, "questions").get())

    monkeypatch.setattr(table, "get", find_none)
    assert [SharedSecret(table, path, "questions").get()] == values


def test_a_secret_that_cannot_be_made_is_an_error(
    table: Table, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "get", lambda key: None)
    with pytest.raises(StoreError, match="could not be made"):
        SharedSecret(table, path, "questions").get()
