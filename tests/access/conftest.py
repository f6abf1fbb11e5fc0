"""Keys in Parameter Store, whose calls are counted, and can fail."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access import keys
from a2a_lambda.access.keys import KEYS_WAIT_SECONDS, Keys
from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from tests.access.unshared_copies import UnsharedKeyCopies
from tests.helpers.clock import Clock
from tools.registers.keys import KeyRegister

THROTTLED = ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParametersByPath")


@pytest.fixture(autouse=True)
def restore_key_limit(wait_patiently: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about KEYS_WAIT_SECONDS. Nearly all of them have a clock of their own, so that it takes
    no time."""
    monkeypatch.setattr(keys, "KEYS_WAIT_SECONDS", KEYS_WAIT_SECONDS)


def unknown(number: int) -> str:
    """A key of the right form that no one made."""
    return f"a2a_{number:043d}"


class Ssm:
    """A client that counts loads, takes `seconds` for each, and fails while `fault` is set."""

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.loads = 0
        self.seconds = 0.0
        self.fault: Exception | None = None

    def get_parameters_by_path(self, **arguments: Any) -> Any:
        self.loads += "NextToken" not in arguments and not arguments["Path"].endswith("/issuers")
        self._clock.now += self.seconds
        if self.fault is not None:
            raise self.fault
        return self._client.get_parameters_by_path(**arguments)

    def put_parameter(self, **arguments: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        return self._client.put_parameter(**arguments)

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)


@pytest.fixture
def ssm(settings: Settings, clock: Clock) -> Ssm:
    return Ssm(clients.ssm(settings), clock)


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"/keys/{abs(hash(request.node.name))}"


@pytest.fixture
def made(ssm: Ssm, path: str, clock: Clock) -> Keys:
    return Keys(ssm, path, UnsharedKeyCopies(clock), clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]


@pytest.fixture
def register(ssm: Ssm, path: str, clock: Clock) -> KeyRegister:
    return KeyRegister(ssm, path, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type]
