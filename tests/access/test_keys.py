"""Who is let in."""

import hmac
import json
import logging
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from starlette.testclient import TestClient

from a2a_lambda.access import keys
from a2a_lambda.access.key_reader import KeyReader
from a2a_lambda.access.keys import Keys
from a2a_lambda.aws import clients
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.key_copies import KeyCopies, KeyLoad
from a2a_lambda.store.table import Table
from tests.access.conftest import THROTTLED, Ssm, unknown
from tests.access.unshared_copies import UnsharedKeyCopies
from tests.conftest import BASE_URL, new_key
from tests.helpers.clock import Clock
from tests.helpers.rpc import Rpc, message, request
from tools.registers.keys import KeyRegister


def packed(rows: Any) -> bytes:
    return zlib.compress(json.dumps(rows).encode())


def test_a_key_stands_for_its_owner(register: KeyRegister, made: Keys) -> None:
    secret = register.create("alice", owner="team-a", agents=("assistant",))
    api_key = made.find(secret)
    assert api_key is not None
    assert (api_key.label, api_key.owner, api_key.agents) == ("alice", "team-a", ("assistant",))
    assert made.find(secret + "x") is None
    assert made.find("") is None
    assert (made.knows(secret), made.knows(secret + "x")) == (True, False), "without another read"


def test_more_keys_than_a_page(register: KeyRegister, made: Keys, ssm: Ssm, path: str, clock: Clock) -> None:
    secrets = [register.create(f"key-{number}") for number in range(23)]
    assert all(made.find(secret) for secret in secrets)
    assert len(register.list()) == 23
    load = KeyLoad(clock(), holder="me")
    reader = KeyReader(ssm, path, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    assert reader.read(load, clock() + 60)
    assert load.pages == 4, "three of keys, one of issuers: their number says how often they are read"


def test_an_expired_key_is_refused(register: KeyRegister, made: Keys, clock: Clock) -> None:
    secret = register.create("alice", days=1)
    assert made.find(secret)
    clock.now += 86_400
    assert made.find(secret) is None


def test_a_revoked_key_is_refused_within_a_minute(register: KeyRegister, made: Keys, clock: Clock) -> None:
    secret = register.create("alice")
    assert made.find(secret)
    register.revoke("alice")
    clock.now += keys.FRESH_SECONDS
    assert made.find(secret) is None


def test_keys_are_loaded_once_a_minute(register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock) -> None:
    secret = register.create("alice")
    for _ in range(100):
        made.find(secret)
    assert ssm.loads == 1
    clock.now += keys.FRESH_SECONDS
    made.find(secret)
    assert ssm.loads == 2


def test_unknown_keys_do_not_make_it_ask_every_time(
    register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock
) -> None:
    register.create("alice")
    for number in range(100):
        made.find(unknown(number))
    assert ssm.loads == 1
    clock.now += keys.KEYS_REREAD_SECONDS
    new = register.create("bob")
    assert made.find(new)
    assert ssm.loads == 2


def test_a_key_that_was_refused_is_not_looked_for_again_for_a_while(
    register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock
) -> None:
    register.create("alice")
    assert keys.KEYS_REREAD_SECONDS < keys.REFUSED_SECONDS - 1
    made.find(unknown(1))
    clock.now += keys.REFUSED_SECONDS - 1
    made.find(unknown(1))
    assert ssm.loads == 1
    made.find(unknown(2))
    assert ssm.loads == 2, "of another key nothing is known"
    clock.now += 1 + keys.KEYS_REREAD_SECONDS
    made.find(unknown(1))
    assert ssm.loads == 3


DAMAGES: dict[str, dict[str, Any]] = {
    "a row of the next release": {
        "rows": {"B": packed([["alice", "0" * 64, "alice", None, [], False, "new"]])}
    },
    "the next release's version": {"version": {"N": "2"}},
    "nothing": {"rows": {"B": packed(None)}},
    "no rows": {"rows": {"B": packed([None])}},
    "no key": {"rows": {"B": packed([["alice", "x", "alice", None, [], False]])}},
    "other bytes": {"rows": {"B": b"damaged"}},
    "a text": {"rows": {"S": "damaged"}},
    "no time": {"loaded": {"S": "yesterday"}},
}


@pytest.fixture
def copies(settings: Settings, path: str, clock: Clock) -> KeyCopies:
    return KeyCopies(Table(clients.dynamodb(settings), settings.table, clock=clock), path)


@pytest.fixture
def make(ssm: Ssm, path: str, copies: KeyCopies, clock: Clock) -> Callable[[], Keys]:
    """A new container, which shares a copy with the others."""
    return lambda: Keys(ssm, path, copies, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]


@pytest.fixture
def damage_copy(settings: Settings, path: str) -> Callable[[dict[str, Any]], None]:
    table, place = clients.dynamodb(settings), items.keys_key(path, "copy")

    def damage(fields: dict[str, Any]) -> None:
        item = table.get_item(TableName=settings.table, Key=place)["Item"]
        table.put_item(TableName=settings.table, Item={**item, **fields})

    return damage


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_copy_that_cannot_be_read_is_no_copy(
    register: KeyRegister,
    make: Callable[[], Keys],
    ssm: Ssm,
    damage_copy: Callable[[dict[str, Any]], None],
    clock: Clock,
    *,
    damage: str,
) -> None:
    """It is made again, so that the other containers can read it."""
    secret = register.create("alice")
    running = make()
    assert running.find(secret)
    for container in (running, make()):
        damage_copy(DAMAGES[damage])
        clock.now += keys.FRESH_SECONDS
        assert container.find(secret)
        loads = ssm.loads
        assert make().find(secret)
        assert ssm.loads == loads, "it found the copy"


def test_a_load_that_cannot_be_continued_begins_again(
    register: KeyRegister, make: Callable[[], Keys], copies: KeyCopies
) -> None:
    secret = register.create("alice")
    load = copies.begin_load(seconds=10, resume=300)
    assert load is not None
    load.pages, load.page_token, load.rows = 1, "0", [["of", "another", "release"]]
    copies.stop_load(load, cooldown_seconds=0)
    assert make().find(secret)


@pytest.mark.parametrize("expires", ["NaN", "-Infinity", "1" + "0" * 400, '"soon"', "[]"])
def test_a_key_whose_end_is_no_number_is_no_key(
    register: KeyRegister, made: Keys, ssm: Ssm, path: str, expires: str
) -> None:
    secret = register.create("alice", days=1)
    value = json.loads(ssm.get_parameter(Name=f"{path}/alice")["Parameter"]["Value"])
    text = json.dumps({**value, "expires": None}).replace("null", expires)
    other = register.create("bob")
    ssm.put_parameter(Name=f"{path}/alice", Value=text, Type="String", Overwrite=True)
    assert made.find(secret) is None
    assert made.find(other), "the keys of others work"


def test_throttling_is_not_absence(register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock) -> None:
    secret = register.create("alice")
    ssm.fault = THROTTLED
    with pytest.raises(KeysUnavailable):
        made.find(secret)
    tries = ssm.loads
    assert tries > 2
    with pytest.raises(KeysUnavailable):
        made.find(secret)
    assert ssm.loads == tries, "not every request asks again"
    ssm.fault = None
    clock.now += keys.KEYS_REREAD_SECONDS
    assert made.find(secret)
    loaded_at = clock.now
    clock.now += keys.FRESH_SECONDS
    ssm.fault = EndpointConnectionError(endpoint_url="x")
    for _ in range(2):
        with pytest.raises(KeysUnavailable):
            made.find(unknown(1))
    assert made.find(secret), "a known key still works for a while"
    tries = ssm.loads
    for _ in range(10):
        assert made.find(secret)
    assert ssm.loads == tries
    assert made.find_issuers() == ()
    clock.now += keys.STALE_KEYS_SECONDS - (clock.now - loaded_at)
    with pytest.raises(KeysUnavailable):
        made.find(secret)
    with pytest.raises(KeysUnavailable):
        made.find_issuers()


def test_every_key_is_compared(register: KeyRegister, made: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comparison takes constant time, and none is left out once a key fits."""
    secrets = [register.create(f"key-{number}") for number in range(5)]
    compared: list[str] = []
    compare: Callable[[str, str], bool] = hmac.compare_digest

    def counting(left: str, right: str) -> bool:
        compared.append(left)
        return compare(left, right)

    assert made.find(secrets[0])
    monkeypatch.setattr(hmac, "compare_digest", counting)
    for secret in secrets:
        compared.clear()
        assert made.find(secret)
        assert len(set(compared)) == 5
        assert len(compared) % 5 == 0


def test_a_parameter_that_is_no_key_lets_no_one_in(
    register: KeyRegister, made: Keys, ssm: Ssm, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = register.create("alice")
    whole = json.loads(ssm.get_parameter(Name=f"{path}/alice")["Parameter"]["Value"])
    wrong = {
        "text": "hello",
        "list": "[]",
        "empty": "{}",
        "null": json.dumps(whole | {"digest": None}),
        "umlaut": json.dumps(whole | {"digest": "ä" * 64}),
        "owner": json.dumps(whole | {"owner": "a#b"}),
        "expiry": json.dumps(whole | {"expires": "soon"}),
        "agents": json.dumps(whole | {"agents": "assistant"}),
    }
    for name, value in wrong.items():
        ssm.put_parameter(Name=f"{path}/{name}", Value=value, Type="String")
    assert made.find(secret)
    caplog.clear()
    assert [key.label for key in register.list()] == ["alice"]
    assert len(caplog.messages) == len(wrong), "the operator learns of each"


def test_the_local_key_works_in_development_only(
    settings: Settings, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    register = KeyRegister(clients.ssm(settings), path)
    register.create("local", secret="local-key", local=True)
    local = Keys(clients.ssm(settings), path, UnsharedKeyCopies(), local=True)
    assert local.find("local-key")
    assert Keys(clients.ssm(settings), path, UnsharedKeyCopies()).find("local-key") is None
    secret = register.create("other", local=True)
    assert Keys(clients.ssm(settings), path, UnsharedKeyCopies()).find(secret) is None
    assert "the local key other was refused" in caplog.text


class TestOverHttp:
    def send(self, client: TestClient, path: str = "/", **headers: str) -> Any:
        body = request("message/send", {"message": message()})
        return client.post(path, json=body, headers=headers)

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"X-API-Key": "wrong"},
            {"X-API-Key": ""},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic x"},
        ],
    )
    def test_401(self, client: TestClient, headers: dict[str, str]) -> None:
        response = self.send(client, **headers)
        assert response.status_code == 401
        assert "Bearer" in response.headers["www-authenticate"]
        body = response.json()
        assert (body["jsonrpc"], body["id"]) == ("2.0", None)
        assert body["error"]["code"] == -32600

    def test_both_headers(self, client: TestClient, key: str) -> None:
        for headers in ({"X-API-Key": key}, {"x-api-KEY": key}, {"Authorization": f"Bearer {key}"}):
            assert self.send(client, **headers).status_code == 200
        assert self.send(client, Authorization=f"bearer {key}").status_code == 200

    def test_a_key_for_one_agent(self, client: TestClient, kit: Kit) -> None:
        secret = new_key(kit, agents=("probe",))
        assert self.send(client, "/a2a/probe", **{"X-API-Key": secret}).status_code == 200
        assert self.send(client, "/", **{"X-API-Key": secret}).status_code == 403

    def test_without_any_key_everything_is_refused(
        self, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        empty = Kit(settings.model_copy(update={"keys_path": "/nobody/keys"}))
        with caplog.at_level(logging.ERROR), TestClient(create_app(empty), base_url=BASE_URL) as client:
            assert self.send(client, **{"X-API-Key": unknown(1)}).status_code == 401
        assert "no API key under /nobody/keys" in caplog.text

    def test_503_while_keys_cannot_be_read(self, settings: Settings) -> None:
        down = Kit(settings)
        ssm = Ssm(None, Clock())
        ssm.fault = EndpointConnectionError(endpoint_url="x")
        down.__dict__["keys"] = Keys(ssm, "/x", UnsharedKeyCopies())  # type: ignore[arg-type]
        with TestClient(create_app(down), base_url=BASE_URL) as client:
            response = self.send(client, **{"X-API-Key": unknown(1)})
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"

    def test_keys_never_reach_the_log(
        self, client: TestClient, key: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG, logger="a2a_lambda"):
            Rpc(client, key, "/a2a/probe").send("a private word")
            self.send(client, **{"X-API-Key": "a-wrong-secret"})
        own = "\n".join(
            record.getMessage() for record in caplog.records if record.name.startswith("a2a_lambda")
        )
        assert "refused" in own
        for secret in (key, "a private word", "a-wrong-secret"):
            assert secret not in own


def test_a_load_that_parameter_store_refuses_is_another_containers_a_second_later(
    register: KeyRegister, make: Callable[[], Keys], copies: KeyCopies, ssm: Ssm, clock: Clock
) -> None:
    """The other container need not wait until the time of the first load is over."""
    secret, failing = register.create("alice"), make()
    ssm.fault = EndpointConnectionError(endpoint_url="x")
    ssm.seconds = keys.KEYS_WAIT_SECONDS
    with pytest.raises(KeysUnavailable):
        failing.find(secret)
    assert copies.begin_load(seconds=10, resume=30) is None, "it rests"
    clock.now += 1
    assert copies.begin_load(seconds=10, resume=30) is not None


def test_a_load_that_took_too_long_is_another_containers_at_once(
    register: KeyRegister, make: Callable[[], Keys], copies: KeyCopies, ssm: Ssm
) -> None:
    secrets = [register.create(f"key-{number}") for number in range(11)]  # more than a page has
    ssm.seconds = keys.KEYS_READ_SECONDS
    with pytest.raises(KeysUnavailable):
        make().find(secrets[0])
    assert copies.begin_load(seconds=10, resume=30) is not None
