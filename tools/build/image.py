"""make image: the build as a container image, for agents whose packages exceed a layer's 250 MB.

    make build ── .aws-sam/image ─┬─ opt, task, Dockerfile     the image's content
                                  └─ template.json             template.yaml with images instead of layers

Lambda takes images of up to 10 GB. All functions run the same image; each has its own handler as the command.
Source: https://docs.aws.amazon.com/lambda/latest/dg/python-image.html
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.errors import ConfigurationError
from tools.build.built_functions import LAYERS
from tools.builds import IMAGE, for_python
from tools.commands import LAMBDA_PYTHON
from tools.deployment.stack import DURABLE, FUNCTIONS

TEMPLATE = Path("template.yaml")

DOCKERFILE = Path("templates/Dockerfile")

FUNCTION = "AWS::Serverless::Function"


KITS = (*FUNCTIONS, DURABLE)

WRAPPERS = ("AWS_LAMBDA_EXEC_WRAPPER", "A2A_NEXT_WRAPPER")

OF_LAYERS = {
    "Parameters": ("ExtraLayerArn", "ExtraLayerArn2", "ExtraLayerWrapper"),
    "Conditions": ("HasExtraLayer", "HasSecondLayer", "HasExtraWrapper"),
    "Rules": ("SecondLayerNeedsRoom", "WrapperNeedsLayer"),
}
"""Parts of the template that are only for third-party layers, which an image cannot have."""


PATHS = frozenset({"TemplateURL", "CodeUri", "ContentUri"})
"""Properties that name a file or a folder of the project."""


def write(build: Path, version: str) -> None:
    """Make the image's folder of a build. version: version of Python. Raises ConfigurationError."""
    write_content(build, IMAGE, version)
    template = with_images(yaml_parse(TEMPLATE.read_text("utf-8")), IMAGE)
    (IMAGE / "template.json").write_text(json.dumps(template, indent=2), "utf-8")
    print(f"{IMAGE}: Dockerfile, its files, and template.json")


def write_content(build: Path, folder: Path, version: str = LAMBDA_PYTHON) -> None:
    """Write the content of the image: the layers as /opt, one function's code as /var/task.

    build: folder of `make build`. version: version of Python. Raises ConfigurationError if there is none.
    """
    if not (build / "RpcFunction").is_dir():
        raise ConfigurationError(f"{build} is not a build: run make build first")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for layer in LAYERS:
        shutil.copytree(build / layer, folder / "opt", dirs_exist_ok=True)
    shutil.copytree(build / "RpcFunction", folder / "task")
    dockerfile = for_python(DOCKERFILE.read_text("utf-8"), version)
    (folder / "Dockerfile").write_text(dockerfile, "utf-8")


def with_images(template: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A template whose functions run the image. It is changed in place. folder: folder of the Dockerfile."""
    defaults = template["Globals"]["Function"]
    package = {name: defaults.pop(name) for name in ("Runtime", "CodeUri", "Layers")}
    del defaults["Environment"]["Variables"]["AWS_LAMBDA_EXEC_WRAPPER"]
    del template["Conditions"]["HasSnapStart"]
    template["Conditions"]["HasSpans"] = template["Conditions"]["HasOtlp"]
    resources = template["Resources"]
    own = [item for name, item in resources.items() if item["Type"] == FUNCTION and name not in KITS]
    for function in own:  # a fork's: it stays as it is, with what it had from Globals
        function["Properties"] = {**package, **function["Properties"]}
    if not own:
        for name in LAYERS:
            del resources[name]
        for section, names in OF_LAYERS.items():
            for name in names:
                del template[section][name]
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        if name in KITS:
            properties["PackageType"] = "Image"
            properties["ImageConfig"] = {"Command": [properties.pop("Handler")]}
            for key in ("Layers", "SnapStart"):  # of an image
                properties.pop(key, None)
            for wrapper in WRAPPERS:
                properties.get("Environment", {}).get("Variables", {}).pop(wrapper, None)
            resource["Metadata"] = {"Dockerfile": "Dockerfile", "DockerContext": ".", "DockerTag": "agents"}
        else:  # paths are relative to the template
            for key in PATHS & properties.keys():
                if isinstance(value := properties[key], str) and "://" not in value:
                    properties[key] = os.path.relpath(Path(value).resolve(), folder.resolve())
    return template
