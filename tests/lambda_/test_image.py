"""make image, without Docker: the image's files, started by its entry point, and the template with images."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.errors import ConfigurationError
from tests.conftest import ROOT
from tests.helpers.builds import build
from tests.helpers.rpc import message, request
from tests.lambda_.runtime.runtime_api import RuntimeApi, event, streamed
from tests.template.resources import FUNCTIONS, of_type
from tools.build import image, lint
from tools.build.built_functions import MACHINE_ARCHITECTURE, Built, interpreter

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's file system, as each COPY of the Dockerfile makes it."""
    context, folder = tmp_path_factory.mktemp("context") / "image", tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        image.write_content(build(MACHINE_ARCHITECTURE, interpreter()[1]), context)
    for line in (context / "Dockerfile").read_text().splitlines():
        if match := re.fullmatch(r"COPY (\S+) (\S+)", line):
            shutil.copytree(context / match[1], folder / match[2].strip("/"), dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def template() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        source = (ROOT / "template.yaml").read_text()
        return image.with_images(yaml_parse(source), ROOT / ".aws-sam" / "image")


def start(root: Path, handler: str, api: RuntimeApi, built: Built) -> "subprocess.Popen[bytes]":
    """A container of the image, with its file system below `root`."""
    variables = built._variables | {"AWS_LAMBDA_FUNCTION_TIMEOUT": "900", "AWS_DEFAULT_REGION": "us-east-1"}
    python = Path(shutil.which(interpreter()[0]) or interpreter()[0])
    return subprocess.Popen(
        [str(root / "opt" / "a2a-entry"), handler],
        cwd=root / "var" / "task",
        env={
            **variables,
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "LAMBDA_TASK_ROOT": str(root / "var" / "task"),
            "AWS_LAMBDA_RUNTIME_API": api.address,
            "AWS_EXECUTION_ENV": "AWS_Lambda_Image",
        },
    )


def test_the_entry_point_starts_each_handler(root: Path, built: Built) -> None:
    for handler in ("api.handler", "rpc.handler"):
        api = RuntimeApi()
        process = start(root, handler, api, built)
        try:
            card = api.invoke(event(None, "/.well-known/agent-card.json", httpMethod="GET"))
            assert card.streamed is (handler == "rpc.handler")
            assert b"supportedInterfaces" in card.content
            if handler == "rpc.handler":
                stream_event = event(request("message/stream", {"message": message("hi")}), "/stream")
                answer = streamed(api.invoke(stream_event))
                assert answer[-1]["status"]["state"] == "completed"
        finally:
            process.kill()
            process.wait()
            api.close()


def test_the_templates_functions_run_the_image(template: Any) -> None:
    for name in FUNCTIONS:
        template["Resources"][name]["Properties"]["ImageUri"] = (
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/a:b"
        )
    for resource in template["Resources"].values():
        if "TemplateURL" in resource.get("Properties", {}):
            path = (ROOT / ".aws-sam" / "image" / resource["Properties"]["TemplateURL"]).resolve()
            assert path == ROOT / "templates" / "monitoring.yaml"
            resource["Properties"]["TemplateURL"] = "https://s3.amazonaws.com/bucket/template"
    translated = transform(template, {}, lint._NoPolicies())
    assert not list(lint.faults(json.dumps(translated)))
    functions = of_type(translated["Resources"], "AWS::Lambda::Function")
    assert set(functions) == set(FUNCTIONS)
    for name, function in functions.items():
        properties = function["Properties"]
        assert properties["PackageType"] == "Image"
        assert properties["ImageConfig"]["Command"] == [FUNCTIONS[name][0]]
        assert not {"Handler", "Runtime", "Layers", "SnapStart"} & set(properties)
        assert "AWS_LAMBDA_EXEC_WRAPPER" not in properties["Environment"]["Variables"]
    assert not of_type(translated["Resources"], "AWS::Lambda::LayerVersion")


def test_a_function_of_the_forks_own_stays_as_it_is(source: str) -> None:
    template = yaml_parse(source)
    own = {"Type": "AWS::Serverless::Function", "Properties": {"Runtime": "nodejs22.x", "CodeUri": "web"}}
    template["Resources"]["Web"] = own
    document = image.with_images(template, ROOT / ".aws-sam" / "image")
    resources = document["Resources"]
    assert resources["Web"]["Properties"]["Runtime"] == "nodejs22.x"
    assert resources["Web"]["Properties"]["CodeUri"] == "../../web", "seen from the template"
    assert resources["A2ALayer"]["Properties"]["ContentUri"].startswith("../../layers")
    assert "HasExtraLayer" in document["Conditions"], "which the layers of Globals refer to"
    assert "PackageType" not in resources["Web"]["Properties"]
    assert resources["Web"]["Properties"]["Layers"], "the layers of Globals"
    assert "A2ALayer" in resources


def test_without_a_build_there_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="run make build first"):
        image.write_content(tmp_path / "build", tmp_path / "image")
