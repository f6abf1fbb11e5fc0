"""The built functions under AWS's own Runtime Interface Emulator, and what is in a build."""

import inspect
import json
import os
import struct
import warnings
from importlib.metadata import version
from typing import Any

import httpx2
import pytest
from awslambdaric import bootstrap
from awslambdaric.lambda_runtime_client import BaseLambdaRuntimeClient
from botocore.loaders import Loader

from tests.conftest import PACKAGE, ROOT
from tests.helpers.builds import build
from tests.helpers.lambda_events import STATUSES, is_completed, last_event
from tools.build.built_functions import Built, find_rie
from tools.build.invoke import format_answer, function_of, with_agent
from tools.build.size import zipped_size_of
from tools.commands import LAMBDA_PYTHON

pytestmark = pytest.mark.slow


EVENTS = sorted((ROOT / "events").glob("*.json"))

MACHINE = {"arm64": 183, "x86_64": 62}
"""e_machine of an ELF header."""


@pytest.mark.parametrize("function", ["api", "rpc"])
def test_each_function_answers_every_event(built: Built, function: str) -> None:
    with built.emulate(function, find_rie(ROOT / ".venvs" / "sam")) as url:
        for path in EVENTS:
            answer = format_answer(httpx2.post(url, content=path.read_bytes(), timeout=180).content)
            status, _, rest = answer.partition("\n")
            body = rest.split("\n\n", 1)[1]
            assert status == str(STATUSES.get(path.stem, 200)), path.name
            if "stream" in path.stem:
                assert is_completed(last_event(body)), path.name
            elif path.stem != "resubscribe":
                assert isinstance(json.loads(body), dict), path.name


def test_an_event_reaches_an_agent_that_is_there() -> None:
    document = json.loads((ROOT / "events" / "send-to-an-agent.json").read_text())
    assert with_agent(document, ["weather"], "weather")["path"] == "/a2a/weather"
    assert with_agent(document, ["assistant", "weather"], "weather") == document
    root = json.loads((ROOT / "events" / "send.json").read_text())
    assert with_agent(root, ["weather"], "weather") == root


def test_events_go_where_the_routes_say() -> None:
    functions = {path.stem: function_of(json.loads(path.read_text())) for path in EVENTS}
    assert {name for name, function in functions.items() if function == "api"} == {
        "card-0.2.5",
        "card-0.3.0",
        "card-1.0",
        "send-alb",
        "send-http-api",
    }


@pytest.mark.parametrize("architecture", MACHINE)
def test_a_build_is_for_its_architecture(architecture: str) -> None:
    folder = build(architecture)
    libraries = list((folder / "DependenciesLayer").rglob("*.so"))
    assert len(libraries) >= 3
    for library in libraries:
        header = library.read_bytes()[:20]
        assert struct.unpack_from("<H", header, 18)[0] == MACHINE[architecture], library
        if "cpython-" in library.name:
            assert f"cpython-{LAMBDA_PYTHON.replace('.', '')}" in library.name


@pytest.mark.parametrize("architecture", MACHINE)
def test_a_build_holds_what_lambda_needs_and_no_more(architecture: str, built: Built) -> None:
    folder = build(architecture)
    wrapper = folder / "A2ALayer" / "a2a-runtime"
    assert os.access(wrapper, os.X_OK)
    assert wrapper.read_text().startswith("#!/bin/sh\n")
    package = folder / "A2ALayer" / "python" / "a2a_lambda"
    assert not (package / "local").exists()
    assert (package / "lambda_" / "runtime.py").exists()
    for built_file in package.rglob("*.py"):
        assert built_file.read_bytes() == (PACKAGE / built_file.relative_to(package)).read_bytes()
    for function in ("ApiFunction", "RpcFunction"):
        assert (folder / function / "agents" / "assistant" / "card.yaml").exists()
    size = sum(zipped_size_of(folder / layer) for layer in ("DependenciesLayer", "A2ALayer"))
    print(f"\nlayers of {architecture}: {size / 1e6:.1f} MB zipped")
    assert size < 23e6, "Lambda takes 50 MB"
    if built.version != LAMBDA_PYTHON:
        warnings.warn(f"no python{LAMBDA_PYTHON} here: nothing is compiled", stacklevel=1)
        return
    for source in [*folder.glob("*Function/**/*.py"), *package.rglob("*.py")]:
        [pyc] = (source.parent / "__pycache__").glob(f"{source.stem}.cpython-313.pyc")
        assert struct.unpack_from("<I", pyc.read_bytes(), 4)[0] == 0b01, "unchecked hash"
    dependencies = folder / "DependenciesLayer" / "python"
    assert list((dependencies / "starlette" / "__pycache__").glob("*.cpython-313.pyc"))


@pytest.mark.parametrize("service", ["apigateway", "bedrock-runtime", "dynamodb", "ec2", "lambda", "s3"])
def test_an_agent_can_call_every_service(built: Built, service: str) -> None:
    """The documentation in the layer's models is empty. Nothing else has changed."""
    folder = built.opt / "python" / "botocore" / "data"
    small_model = Loader([str(folder)], include_default_search_paths=False).load_service_model(
        service, "service-2"
    )
    whole = Loader().load_service_model(service, "service-2")
    for model in folder.glob(f"{service}/*/service-2.json.gz"):
        assert model.read_bytes()[9] == 255, (
            "the same by each version of Python, which writes its system here"
        )
    for kind in ("operations", "shapes"):
        assert {name: parts(value) for name, value in small_model[kind].items()} == {
            name: parts(value) for name, value in whole[kind].items()
        }
    assert not any(shape.get("documentation") for shape in small_model["shapes"].values())
    for name, parameter in whole.get("clientContextParams", {}).items():
        assert set(small_model["clientContextParams"][name]) == set(parameter), "botocore needs each of them"


def parts(value: Any) -> Any:
    """A shape or an operation: its fields except its documentation, and the names of its members."""
    names = {name for name, field in value.items() if not isinstance(field, str) or name != "documentation"}
    return names, list(value.get("members", ()))


def test_awslambdaric_is_what_the_runtime_leans_on() -> None:
    """Read lambda_/runtime.py again before changing what this expects."""
    assert version("awslambdaric") == "4.2.2"
    assert list(inspect.signature(BaseLambdaRuntimeClient.post_invocation_result).parameters) == [
        "self",
        "invoke_id",
        "result_data",
        "content_type",
        "invocation_id",
    ]
    assert list(inspect.signature(BaseLambdaRuntimeClient.__init__).parameters) == [
        "self",
        "lambda_runtime_address",
        "use_thread_for_polling_next",
    ]
    source = inspect.getsource(bootstrap.handle_event_request)
    assert "lambda_runtime_client.marshaller.marshal_response(" in source
    assert "invoke_id, result, result_content_type, invocation_id" in source
    assert "override" in (inspect.getdoc(BaseLambdaRuntimeClient) or "") + inspect.getsource(
        BaseLambdaRuntimeClient
    )
