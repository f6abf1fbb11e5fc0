"""Callers whom AWS has authenticated, in the events of function URLs."""

from typing import Any

import pytest

from a2a_lambda.access.iam import find_caller
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.errors import ConfigurationError
from tools.registers.issuer_checks import check_issuer

ACCOUNT = "123456789012"


def event(arn: Any) -> dict[str, Any]:
    return {"requestContext": {"authorizer": {"iam": {"userArn": arn, "accountId": ACCOUNT}}}}


@pytest.mark.parametrize(
    ("arn", "owner"),
    [
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/orders/session-1", "role%2Forders"),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/orders/a/b", "role%2Forders"),
        (f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/orders/session-2", "role%2Forders"),
        (f"arn:aws:iam::{ACCOUNT}:user/division/ann", "user%2Fdivision%2Fann"),
        (f"arn:aws:iam::{ACCOUNT}:root", "root%2F"),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/ann", "federated-user%2Fann"),
    ],
)
def test_the_owner_is_the_role_and_not_the_session(arn: str, owner: str) -> None:
    caller = find_caller(event(arn))
    assert caller is not None
    assert (caller.owner, caller.kind) == (f"iam|{ACCOUNT}:{owner}", "iam")


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"requestContext": None},
        {"requestContext": {"authorizer": None}},
        {"requestContext": {"authorizer": {"iam": None}}},
        {"requestContext": {"authorizer": "iam"}},
        {"requestContext": {"identity": {"userArn": f"arn:aws:iam::{ACCOUNT}:user/ann"}}},
        event(None),
        event("arn:aws:s3:::bucket"),
        event(f"arn:aws:iam::{ACCOUNT}"),
        event(f"arn:aws:iam::1:user/ann\narn:aws:iam::{ACCOUNT}:user/ann"),
    ],
)
def test_other_events_name_no_caller(event: dict[str, Any]) -> None:
    assert find_caller(event) is None


def test_no_issuer_has_its_name() -> None:
    with pytest.raises(ConfigurationError, match="choose another"):
        check_issuer(Issuer("iam", "https://login.example.com", ("a",)), is_local=False)
