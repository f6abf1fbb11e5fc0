"""Issuers of a deployment, as an operator adds, lists and removes them."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError, KeysUnavailable
from a2a_lambda.settings import Settings
from tools.registers.issuers import IssuerRegister

URL = "https://idp.example"


def test_an_issuer_is_added_replaced_listed_and_removed(settings: Settings) -> None:
    register = IssuerRegister(clients.ssm(settings), "/registered/keys")
    issuer, other = (Issuer(name, URL, ("a",)) for name in ("one", "other"))
    register.add(issuer)
    register.add(other)
    assert sorted(each.name for each in register.list()) == ["one", "other"]
    register.add(replace(issuer, audiences=("b",)))
    register.remove("other")
    assert [each.audiences for each in register.list()] == [("b",)]
    with pytest.raises(ConfigurationError, match="there is no issuer 'other'"):
        register.remove("other")
    register.remove("one")
    assert register.list() == []


def test_issuers_that_cannot_be_read_are_not_an_empty_list(caplog: pytest.LogCaptureFixture) -> None:
    """The operator reads the reason, and reads it once."""
    client = Mock()
    text = "not authorized to perform: ssm:GetParametersByPath on x"
    error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": text}}, "GetParametersByPath")
    client.get_parameters_by_path.side_effect = error
    with pytest.raises(KeysUnavailable, match=r"not authorized to perform: ssm:GetParametersByPath"):
        IssuerRegister(client, "/k").list()
    assert caplog.records == []
