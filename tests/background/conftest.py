"""What the tests of durable turns share."""

from collections.abc import Iterator

import pytest

from a2a_lambda.settings import Settings
from tests.background.durable_bench import DurableBench


@pytest.fixture
def bench(durable_settings: Settings) -> Iterator[DurableBench]:
    bench = DurableBench(durable_settings)
    yield bench
    bench.calls.clear()
