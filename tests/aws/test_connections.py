"""Which connection carries the next request."""

from collections.abc import Iterator

import pytest

from a2a_lambda.aws.lean import connections
from a2a_lambda.aws.lean.connections import Connections
from a2a_lambda.aws.limits import Timeouts
from tests.aws.fake_service import FakeService


@pytest.fixture
def service() -> Iterator[FakeService]:
    service = FakeService([])
    yield service
    service.close()


@pytest.mark.parametrize(("idle_seconds", "count"), [(60.0, 1), (0.0, 2)])
def test_a_connection_that_was_idle_for_long_is_not_used_again(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, idle_seconds: float, count: int
) -> None:
    """While Lambda froze the process, the network may have forgotten it: the next call would time out."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", idle_seconds)
    client = Connections(service.url, Timeouts(connect=60.0, read=60.0))
    for _ in range(2):
        client.post({"host": "service"}, b"{}")
    assert service.connections == count
