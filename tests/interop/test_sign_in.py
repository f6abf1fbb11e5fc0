"""A certified identity provider, and official clients that bring its tokens to a server of the kit."""

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from a2a_lambda.access.issuer import SUBJECT_OR_CLIENT, Issuer
from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS, wait_until
from tests.interop.provider import NODE_MODULES, OPAQUE_RESOURCE, RESOURCE, Provider, new_key, run_client
from tests.processes.servers import Server
from tools.registers.issuers import IssuerRegister

pytestmark = [
    pytest.mark.slow(seconds=20),
    pytest.mark.interop,
    pytest.mark.skipif(not NODE_MODULES.exists(), reason="no npm on this machine"),
]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="module")
def url(provider: Provider, servers: Server, ministack: Settings) -> str:
    """A server that accepts the provider's tokens."""
    path = "/sign-in/keys"  # of its own: another server may have shared the issuers of a common one
    issuer = Issuer("idp", provider.url, (RESOURCE,), scopes=("agents.call",))
    IssuerRegister(clients.ssm(ministack), path).add(issuer)
    return servers(A2A_KEYS_PATH=path)


@pytest.fixture
def running(provider: Provider) -> Iterator[Callable[[], None]]:
    """The provider; a call starts it again with the keys that it has now."""
    with ExitStack() as stack:
        stack.enter_context(provider.running())

        def restart() -> None:
            stack.close()
            stack.enter_context(provider.running())

        yield restart


def send(url: str, token: str) -> httpx2.Response:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
    body = {"message": message}
    return httpx2.post(f"{url}/message:send", json=body, headers=headers, timeout=PATIENCE_SECONDS)


@pytest.mark.usefixtures("running")
def test_programs_and_people_sign_in(url: str, provider: Provider) -> None:
    program = provider.token_of_program()["access_token"]
    task = send(url, program).raise_for_status().json()["task"]
    person = provider.token_of_person("alice")
    assert send(url, person["access_token"]).status_code == 200
    path, headers = f"{url}/tasks/{task['id']}", {"A2A-Version": "1.0"}
    program_headers = {**headers, "Authorization": f"Bearer {program}"}
    assert httpx2.get(path, headers=program_headers, timeout=PATIENCE_SECONDS).status_code == 200
    person_headers = {**headers, "Authorization": f"Bearer {person['access_token']}"}
    assert httpx2.get(path, headers=person_headers, timeout=PATIENCE_SECONDS).status_code == 404
    assert "ID token" in send(url, person["id_token"]).text


@pytest.mark.usefixtures("running")
def test_a_token_for_another_resource_or_without_a_scope(url: str, provider: Provider) -> None:
    other = provider.token_of_program(resource="https://other.example.com/")["access_token"]
    assert "audience" in send(url, other).text
    answer = send(url, provider.token_of_program(scope="agents.admin")["access_token"])
    assert answer.status_code == 403
    assert 'scope="agents.call"' in answer.headers["www-authenticate"]


@pytest.mark.usefixtures("running")
def test_a2a_sdk_signs_in_by_its_own_interceptor(url: str, provider: Provider) -> None:
    token = provider.token_of_program()["access_token"]
    script = str(ROOT / "tests/interop/client_sign_in.py")
    last = run_client(str(ROOT / ".venvs/a2a-1/bin/python"), script, url, token)
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.usefixtures("running")
def test_the_js_sdk_signs_in_by_its_own_handler(url: str, provider: Provider) -> None:
    """It does so after a 401, whose metadata names the provider."""
    script = provider.folder / "client_sign_in.mjs"
    script.write_text((ROOT / "tests/interop/client_sign_in.mjs").read_text())
    output = run_client("node", str(script), f"{url}/", provider.token_of_program()["access_token"])
    assert output["metadata"]["authorization_servers"] == [provider.url]
    assert output["metadata"]["scopes_supported"] == ["agents.call"]
    assert "hello" in json.dumps(output["answer"])


@pytest.mark.usefixtures("running")
def test_an_opaque_token_until_it_is_revoked(
    servers: Server, provider: Provider, ministack: Settings
) -> None:
    path = "/opaque/keys"
    issuer = Issuer(
        "idp",
        provider.url,
        (OPAQUE_RESOURCE,),
        owner_claim=SUBJECT_OR_CLIENT,  # its answer about a program's token has no subject
        introspection=f"{provider.url}/token/introspection",
        client="program",
        secret="provider",  # a secret's name
    )
    IssuerRegister(clients.ssm(ministack), path).add(issuer)
    variables = {"A2A_KEYS_PATH": path, "SECRET_PROVIDER": provider.secret}
    url = servers(**variables)
    token = provider.token_of_program(resource=OPAQUE_RESOURCE)["access_token"]
    assert "." not in token
    assert send(url, token).status_code == 200
    person = provider.token_of_person("alice", OPAQUE_RESOURCE)
    assert send(url, person["access_token"]).status_code == 200
    assert "ID token" not in send(url, person["id_token"]).text
    assert send(url, person["id_token"]).status_code == 401
    other = provider.token_of_program(resource="https://opaque.example.org/")["access_token"]
    assert "audience" in send(url, other).text
    assert send(url, "never-made").status_code == 401
    assert send(url, provider.token_of_program()["access_token"]).status_code == 401
    login = ("program", provider.secret)
    revocation = f"{provider.url}/token/revocation"
    httpx2.post(revocation, data={"token": token}, auth=login, timeout=PATIENCE_SECONDS).raise_for_status()
    # A process knows for a minute what it has checked (test_introspection.py), so another one is asked.
    assert send(servers(**variables), token).status_code == 401


def test_keys_rotate(url: str, provider: Provider, running: Callable[[], None]) -> None:
    old = provider.token_of_program()["access_token"]
    assert send(url, old).status_code == 200
    provider.keys.insert(0, new_key())  # it signs with its first key
    running()
    new = provider.token_of_program()["access_token"]
    assert header_of(new)["kid"] != header_of(old)["kid"]
    assert send(url, old).status_code == 200
    # The provider is asked once in half a minute.
    wait_until(lambda: send(url, new).status_code == 200, pause=0.5)


def header_of(token: str) -> Any:
    part = token.partition(".")[0]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
