"""What the page of protocol support lists is there, and a version has no other methods."""

from typing import get_args

import pytest
from starlette.testclient import TestClient

from a2a_lambda.protocol.requests import Operation
from a2a_lambda.wire.interface import Wire
from tests.helpers.rpc import request
from tools.docs.reference import HTTP_PROTOCOLS, OPERATIONS, RPC_PROTOCOLS, http_paths

pytestmark = pytest.mark.slow


PATHS = {"alibaba": "/alibaba/probe", "qianfan": "/v2/a2a/probe"}

NOT_FOUND = -32601


def test_every_operation_is_on_the_page() -> None:
    assert set(OPERATIONS) == set(get_args(Operation))


def test_a_client_names_its_version_in_a_header_since_1_0() -> None:
    assert {wire.name for wire in RPC_PROTOCOLS.values() if wire.sends_version} == {"1.0"}


@pytest.mark.parametrize("protocol", RPC_PROTOCOLS)
def test_methods(client: TestClient, key: str, protocol: str) -> None:
    wire = RPC_PROTOCOLS[protocol]
    methods = {method: operation for operation in OPERATIONS if (method := wire.method_of(operation))}
    assert methods == wire.methods
    everyone = {other.method_of(operation) for other in RPC_PROTOCOLS.values() for operation in OPERATIONS}
    for method in sorted(everyone - {""}):
        path = PATHS.get(wire.name, "/a2a/probe")
        headers = {"X-API-Key": key}
        if wire.name not in PATHS:
            headers["A2A-Version"] = wire.versions[-1]
        answer = client.post(path, json=request(method, {}), headers=headers).json()
        is_there = answer.get("error", {}).get("code") != NOT_FOUND
        if method in wire.methods or wire.name not in PATHS:  # other clients may call a platform's path, too
            assert is_there == (method in wire.methods), (method, answer)


@pytest.mark.parametrize("protocol", HTTP_PROTOCOLS)
def test_paths(client: TestClient, key: str, protocol: str) -> None:
    wire: Wire = HTTP_PROTOCOLS[protocol]
    for operation in OPERATIONS:
        for http_path in http_paths(wire, operation):
            verb, path = http_path.split()
            path = path.replace("{id}", "1").replace("{taskId}", "1")
            headers = {"X-API-Key": key, "A2A-Version": wire.versions[-1]}
            answer = client.request(verb, f"/a2a/probe{path}", json={}, headers=headers)
            assert "nothing is served at" not in answer.text, (http_path, answer.text)
            assert answer.status_code != 405, (http_path, answer.text)
            assert answer.status_code < 500, (http_path, answer.text)
    served_paths = [http_path for operation in OPERATIONS for http_path in http_paths(wire, operation)]
    assert len(served_paths) == len(wire.routes)
