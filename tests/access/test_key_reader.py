"""Reading the pages of Parameter Store: where a load continues, and when it begins again."""

import math
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access import keys
from a2a_lambda.access.credentials import digest_of
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.key import Key
from a2a_lambda.access.key_reader import KeyReader
from a2a_lambda.access.keys import Keys
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.store.key_copies import KeyLoad
from tests.access.conftest import Ssm, unknown
from tests.helpers.clock import Clock
from tools.registers.keys import KeyRegister

ANN, BEN = (Key(name, digest_of(unknown(number)), name) for number, name in enumerate(("ann", "ben")))

ISSUER = Issuer("login", "https://login.example", ("agents",))


class ParameterStore:
    """Two pages of one key each, and one page of issuers. It accepts only its own page token."""

    def get_parameters_by_path(self, *, Path: str, NextToken: str = "", **_: Any) -> Any:
        if Path.endswith("/issuers"):
            return {"Parameters": [{"Name": "/issuers/login", "Value": ISSUER.parameter()}]}
        if NextToken not in ("", "second"):
            raise ClientError({"Error": {"Code": "InvalidNextToken"}}, "GetParametersByPath")
        key = BEN if NextToken else ANN
        page = {"Parameters": [{"Name": f"/k/{key.label}", "Value": key.parameter()}]}
        return page if NextToken else {**page, "NextToken": "second"}


@pytest.fixture
def parameters() -> ParameterStore:
    return ParameterStore()


def read(parameters: ParameterStore, load: KeyLoad, clock: Clock) -> bool:
    reader = KeyReader(parameters, "/k", clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
    return reader.read(load, math.inf)


def test_a_load_continues_where_another_container_has_stopped(
    parameters: ParameterStore, clock: Clock
) -> None:
    load = KeyLoad(clock(), pages=1, page_token="second", rows=[ANN.row()])
    assert read(parameters, load, clock)
    assert load.rows == [ANN.row(), BEN.row(), ISSUER.row()]
    assert load.pages == 3


def test_a_load_whose_token_has_expired_begins_again(parameters: ParameterStore, clock: Clock) -> None:
    """The age of the keys counts from the new first page."""
    load = KeyLoad(clock() - 200, pages=7, page_token="old", rows=[["of", "then"]])
    start = clock()
    assert read(parameters, load, clock)
    assert load.started_at == start
    assert load.pages == 3
    assert load.rows == [ANN.row(), BEN.row(), ISSUER.row()]


@pytest.mark.parametrize(("age", "pages"), [(keys.FRESH_SECONDS, 3), (keys.STALE_KEYS_SECONDS, 6)])
def test_only_a_key_that_must_wait_waits_until_all_keys_are_read(
    register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock, *, age: float, pages: int
) -> None:
    """A page takes a second, and there are six, with that of the issuers."""
    secrets = [register.create(f"key-{number}") for number in range(41)]
    assert made.find(secrets[0])
    clock.now += age
    ssm.seconds, start_time = 1.0, clock()
    assert made.find(secrets[0])
    assert pages <= clock() - start_time < pages + 1


def test_no_one_waits_until_all_keys_are_read_for_the_issuers(
    register: KeyRegister, made: Keys, ssm: Ssm, clock: Clock
) -> None:
    """A card names them, and needs no key."""
    for number in range(41):
        register.create(f"key-{number}")
    ssm.seconds, start_time = 1.0, clock()
    with pytest.raises(KeysUnavailable):
        made.find_issuers()
    assert clock() - start_time < keys.KEYS_WAIT_SECONDS + 1


def test_a_new_key_works_although_a_card_has_just_been_read(register: KeyRegister, made: Keys) -> None:
    """Reading a card reads all keys. A key that is unknown then must not be refused for five seconds."""
    register.create("first")
    made.find_issuers()
    assert made.find(register.create("second"))
