"""The checks that `tests.e2e.proof` makes of a stack on AWS, made here of `make run`."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.live import AGENTS, Live
from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    server = DevServer(copy_kit(tmp_path_factory.mktemp("live"), AGENTS), LONGEST_PAUSE="0.2")
    server.until(lambda: "Serving" in server.output.read_text() and server.rpc().post({}).status_code < 500)
    yield Live(server.url, "local-key", is_private=True)
    server.interrupt()


def test_the_proof_works_in_the_region_that_its_operator_has_chosen() -> None:
    program = (
        "import os, tests.e2e.proof; print(os.environ['AWS_REGION'], os.environ.get('AWS_DEFAULT_REGION'))"
    )
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    output = subprocess.check_output(
        [sys.executable, "-c", program], env={**variables, "AWS_REGION": "eu-central-1"}, text=True
    )
    assert output.split() == ["eu-central-1", "None"]


@pytest.mark.parametrize("aws", ["1", "delete"])
def test_the_proof_says_which_credentials_are_missing(aws: str) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables |= {"AWS": aws, "AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "eu-central-1"}
    variables |= dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    command = [sys.executable, "-m", "tests.e2e.proof"]
    outcome = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert outcome.stderr.startswith(f"error: make e2e AWS={aws}: no AWS credentials; set AWS_PROFILE")
    assert outcome.returncode == 1


def test_a_stream(live: Live) -> None:
    assert "4 events" in asyncio.run(live.check_stream(4))


def test_a_background_turn_and_its_webhook(live: Live) -> None:
    asyncio.run(live.check_background_turn_and_webhook())


def test_a_durable_turn_that_pauses(live: Live) -> None:
    asyncio.run(live.check_pause())


def test_files_through_the_bucket(live: Live) -> None:
    assert "6,000,000 bytes in, 9,000,000 bytes out" in asyncio.run(live.check_files())
