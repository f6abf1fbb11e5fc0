"""What `make key` stores, and what it refuses."""

import json
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access.credentials import KEY_FORM
from a2a_lambda.access.key import Key
from a2a_lambda.errors import ConfigurationError, KeysUnavailable
from tests.access.conftest import THROTTLED, Ssm
from tests.helpers.clock import Clock
from tools.registers.keys import MAX_KEY_DAYS, KeyRegister


def test_a_key_is_256_bits_and_kept_nowhere(register: KeyRegister, ssm: Ssm, path: str) -> None:
    secret = register.create("alice")
    assert KEY_FORM.fullmatch(secret)
    parameter = ssm.get_parameter(Name=f"{path}/alice")["Parameter"]
    assert parameter["Type"] == "String", "a hash of 256 random bits needs no KMS"
    assert secret not in parameter["Value"]
    assert len(json.loads(parameter["Value"])["digest"]) == 64


@pytest.mark.parametrize("name", ["", "a/b", "x" * 65, "ä", "a b"])
def test_names_are_checked(register: KeyRegister, name: str) -> None:
    with pytest.raises(ConfigurationError):
        register.create(name)
    with pytest.raises(ConfigurationError):
        register.create(name, owner="fine")
    with pytest.raises(ConfigurationError):
        register.create("fine", owner=name or "#")


def test_a_name_is_taken_once(register: KeyRegister) -> None:
    register.create("alice")
    with pytest.raises(ConfigurationError, match="already"):
        register.create("alice")
    with pytest.raises(ConfigurationError, match="no key"):
        register.revoke("bob")


def test_a_refusal_says_who_may_not_do_what(register: KeyRegister, ssm: Ssm) -> None:
    text = "not authorized to perform: ssm:PutParameter on x"
    ssm.fault = ClientError({"Error": {"Code": "AccessDeniedException", "Message": text}}, "PutParameter")
    for call in (partial(register.create, "alice"), register.list):
        with pytest.raises(
            KeysUnavailable, match=r"AccessDeniedException.*not authorized to perform: ssm:Put"
        ):
            call()


def test_a_key_is_valid_for_a_century_at_most(register: KeyRegister, clock: Clock) -> None:
    register.create("old", days=MAX_KEY_DAYS)
    assert register.list()[0].expires == clock.now + MAX_KEY_DAYS * 86_400
    for days in (0, -1, MAX_KEY_DAYS + 1, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="DAYS must be greater than 0 and at most 36500"):
            register.create("alice", days=days)


def test_the_list_of_keys_waits_while_it_is_throttled(
    register: KeyRegister, ssm: Ssm, path: str, clock: Clock
) -> None:
    register.create("alice")
    ssm.fault = THROTTLED

    def pass_on(seconds: float) -> None:
        clock.sleep(seconds)
        ssm.fault = None

    register = KeyRegister(ssm, path, clock=clock, sleep=pass_on)  # type: ignore[arg-type]
    assert [key.label for key in register.list()] == ["alice"]
    assert ssm.loads == 2


ROW: list[Any] = ["label", "0" * 64, "owner", None, [], False]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((1, "0" * 63), (1, 7), (2, ""), (2, 7)),
        *((3, "soon"), (3, 1e12), (3, float("nan"))),
        *((4, "a"), (4, [7]), (5, 1)),
    ],
)
def test_a_row_that_no_release_wrote_is_no_key(place: int, value: Any) -> None:
    assert Key.of_row(ROW).row() == ROW
    with pytest.raises(ValueError, match="not a key"):
        Key.of_row([*ROW[:place], value, *ROW[place + 1 :]])


def test_a_parameter_that_no_release_wrote_is_no_key() -> None:
    with pytest.raises(ValueError, match="not a key"):
        Key.of_parameter("label", json.dumps({"digest": "0" * 64, "owner": "o", "agents": "a"}))
