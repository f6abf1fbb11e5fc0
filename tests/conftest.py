"""What tests share: an emulator of AWS in its own process, a table, keys, the application."""

import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import hypothesis
import pytest
from starlette.testclient import TestClient

from a2a_lambda import agent_threads, telemetry
from a2a_lambda.access import keys
from a2a_lambda.access.tokens import documents
from a2a_lambda.aws import clients, hot_path
from a2a_lambda.background import placement
from a2a_lambda.errors import ConfigurationError, KeysUnavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.net import addresses, transport
from a2a_lambda.operations import messages
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns import journal, lease
from tests.helpers.clock import PATIENCE_SECONDS, Clock
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc
from tools import template
from tools.dev import emulator
from tools.registers.keys import KeyRegister

pytest_plugins = ["tests.background.durable_bench", "tests.processes.servers"]

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "layers" / "a2a" / "a2a_lambda"
AGENTS = ROOT / "tests" / "agents"
UV = str(Path(os.environ.get("UV") or shutil.which("uv") or ROOT / ".uv" / "bin" / "uv").absolute())
BASE_URL = "https://agents.example.com"
DAY = 86_400

SLOW_SECONDS = 10
"""What a file takes, about, that is marked slow and does not say how long."""

BROWSER_SECONDS = 30
"""What a file takes, about, whose tests click in a browser."""

SHARED: list[Settings] = []
"""The settings of this test run, if a test has asked for them."""

USE_TABLE: set[Path] = set()
"""Modules with a test that uses the emulated table."""

LIMITS = {
    "KEYS_WAIT_SECONDS": keys,
    "DOCUMENTS_SECONDS": documents,
    "IMPORT_WAIT_SECONDS": placement,
    "LOOKUP_SECONDS": addresses,
    "CONNECT_SECONDS": transport,
}
"""Limits on how long the kit waits for Parameter Store, an issuer, an import, a name server or a connection,
and their modules. On a busy machine, a healthy one may exceed them."""

NEW_KEYS: list[tuple[KeyRegister, str]] = []
"""Keys that a test has made: register and name."""

# How long an example takes says how busy the machine is, and nothing else.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    """Set the environment of the tests and of the programs that they start. The proof on AWS imports this
    module, too, and has its own environment."""
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    os.environ.pop("AWS_REGION", None)
    # A script that runs the tests in the background (`make test &`) makes them ignore Ctrl-C, and so do the
    # programs that they start. Some tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A package of the agents may be a plugin of pydantic, as logfire is, and import much with each model.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
    # For the processes that tests start, which do not inherit pytest's own path.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        str(ROOT / place) for place in ("layers/a2a", "functions", ".")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest begin first: one that begins last keeps one process busy alone."""

    def seconds(item: pytest.Item) -> float:
        if mark := item.get_closest_marker("slow"):
            return float(mark.kwargs.get("seconds", SLOW_SECONDS))
        return BROWSER_SECONDS if "browser" in getattr(item, "fixturenames", ()) else 0.0

    items.sort(key=seconds, reverse=True)
    # A table is asked for by a fixture, never by a test's own code.
    USE_TABLE.update(item.path for item in items if "settings" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def emulator_url() -> Iterator[str]:
    with emulator.running() as url:
        yield url


@pytest.fixture(scope="session")
def settings(emulator_url: str) -> Settings:
    """Of the tests' own agents, against the emulator; the table is template.yaml's own."""
    test_settings = Settings(
        table="tests",
        keys_path="/tests/keys",
        base_url=BASE_URL,
        agents=AGENTS,
        local=True,
        emulator=emulator_url,
        files_bucket="tests-files",
    )
    template.create_table(clients.dynamodb(test_settings), test_settings.table, table_properties())
    clients.s3(test_settings).create_bucket(Bucket=test_settings.files_bucket)
    SHARED.append(test_settings)
    return test_settings


@cache
def table_properties() -> dict[str, Any]:
    """Properties of template.yaml's table."""
    return template.properties(ROOT / "template.yaml")


@pytest.fixture(scope="module", autouse=True)
def empty_table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each module begins with an empty table: moto sorts all items for each query."""
    yield
    if request.path not in USE_TABLE:
        return
    for shared in SHARED:
        client = clients.dynamodb(shared)
        client.delete_table(TableName=shared.table)
        template.create_table(client, shared.table, table_properties())


@pytest.fixture(scope="session")
def source() -> str:
    """template.yaml, with the tests' lines in the fork's place."""
    from tests.helpers.project import with_place

    return with_place((ROOT / "template.yaml").read_text())


@pytest.fixture
def store(settings: Settings) -> Store:
    return Store(Table(clients.dynamodb(settings), settings.table), ttl=DAY)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def namespace() -> Namespace:
    """An owner no one had before: tests share the table."""
    return Namespace(f"owner-{uuid.uuid4()}", "assistant")


@pytest.fixture(scope="session")
def kit(settings: Settings) -> Kit:
    return Kit(settings)


@pytest.fixture(scope="session")
def client(kit: Kit) -> Iterator[TestClient]:
    with TestClient(create_app(kit), base_url=BASE_URL) as test_client:
        yield test_client


@pytest.fixture
def key(kit: Kit) -> str:
    """A new owner's key."""
    return new_key(kit)


def new_key(kit: Kit, **options: Any) -> str:
    label = f"k{uuid.uuid4().hex}"
    register = KeyRegister(hot_path.ssm(kit.settings), kit.settings.keys_path)
    secret = register.create(label, **options)
    NEW_KEYS.append((register, label))
    forget(kit)
    return secret


def owner_of(kit: Kit, key: str) -> str:
    grant = kit.keys.find(key)
    assert grant is not None
    return grant.owner


@pytest.fixture
def rest(client: TestClient, key: str) -> Rest:
    """Calls of the probe over HTTP+JSON."""
    return Rest(client, key)


@pytest.fixture
def rpc(client: TestClient, key: str) -> Rpc:
    """Calls of the probe over JSON-RPC."""
    return Rpc(client, key, "/a2a/probe")


@pytest.fixture(autouse=True)
def no_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test begins as a server does. On Lambda an invocation lasts until the next one begins, so that a
    test which invokes a handler would leave its ids to the tests after it."""
    monkeypatch.setattr(telemetry, "_invocation", None)


@pytest.fixture(autouse=True)
def wait_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit waits as long as the tests do. A test of one of these limits sets its own value."""
    for name, module in LIMITS.items():
        monkeypatch.setattr(module, name, PATIENCE_SECONDS)


@pytest.fixture
def no_timed_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a turn may last so long that it stores events before its end or looks at its lease,
    and a send so long that it takes a slot. Here neither does, so that a test can count calls."""
    for name in ("FLUSH_SECONDS", "SILENT_FLUSH_SECONDS"):
        monkeypatch.setattr(journal, name, 600.0)
    for name in ("CANCEL_POLL_SECONDS", "LEASE_LOOK_SECONDS", "LEASE_RENEWAL_SECONDS"):
        monkeypatch.setattr(lease, name, 600.0)
    monkeypatch.setattr(messages, "SLOTLESS_SEND_SECONDS", 600.0)


@pytest.fixture(autouse=True)
def revoke_keys() -> Iterator[None]:
    """A key goes with its test: a later test would read it, too, and ten keys take 50 ms."""
    yield
    while NEW_KEYS:
        register, label = NEW_KEYS.pop()
        with suppress(ConfigurationError, KeysUnavailable):
            register.revoke(label)


def replace_in(
    module: ModuleType, imported: ModuleType, monkeypatch: pytest.MonkeyPatch, **names: object
) -> None:
    """Replace names of a module that another one imports, for that one alone. Threads that other tests have
    left call the real ones."""
    monkeypatch.setattr(module, imported.__name__, SimpleNamespace(**vars(imported) | names))


def count_running_code() -> int:
    """Skills' functions, and calls of theirs in threads, that run now."""
    return len(agent_threads._busy)


@pytest.fixture
def own_agent_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent loop for this test, which knows nothing of the code that other tests have left running."""
    monkeypatch.setattr(agent_threads, "_loops", [])
    monkeypatch.setattr(agent_threads, "_busy", set())


def forget(kit: Kit) -> None:
    """Make a container, and the copy it shares, forget all keys: tests do not wait for a new one."""
    table = Table(hot_path.dynamodb(kit.settings), kit.settings.table)
    for what in ("copy", "load"):
        table.delete(items.keys_key(kit.settings.keys_path, what))
    for name in ("keys", "tokens"):  # each is made again when it is needed
        vars(kit).pop(name, None)
