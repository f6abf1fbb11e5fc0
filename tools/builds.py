"""Where builds are, and what they are for: Lambda's architecture and Python."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from a2a_lambda.errors import ConfigurationError
from tools.command import read_text
from tools.commands import LAMBDA_PYTHON

PYPROJECT = Path("pyproject.toml")

BUILD, IMAGE = Path(".aws-sam/build"), Path(".aws-sam/image")
"""What `make build` and `make image` make."""

LAMBDA_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Lambda's runtimes that the kit runs on."""

NOT_OF_IMAGES = ("ExtraLayerArn", "ExtraLayerArn2", "ExtraLayerWrapper", "SnapStart")
"""Parameters that have no effect on an image."""

ARCHITECTURES = ("arm64", "x86_64")
"""As Lambda names them. The first is the default."""


def read_architecture(
    environ: Mapping[str, str], parameters: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Value of ARCH, or of the parameter Architecture of a deployment. Raises ConfigurationError.

    parameters: those that samconfig.toml and the call name.
    """
    parameter_value = parameters.get("Architecture", "")
    architecture = environ.get("ARCH") or parameter_value or ARCHITECTURES[0]
    if parameter_value and parameter_value != architecture:
        raise ConfigurationError(
            f"ARCH={architecture}, but Architecture={parameter_value}: leave out one of them"
        )
    if architecture not in ARCHITECTURES:
        raise ConfigurationError(f"ARCH={architecture}: use {' or '.join(ARCHITECTURES)}")
    return architecture


def read_python(environ: Mapping[str, str]) -> str:
    """Value of LAMBDA_PYTHON. Raises ConfigurationError."""
    version = environ.get("LAMBDA_PYTHON") or LAMBDA_PYTHON
    if version not in LAMBDA_PYTHONS:
        raise ConfigurationError(f"LAMBDA_PYTHON={version}: use one of {', '.join(LAMBDA_PYTHONS)}")
    return version


def lowest_python() -> str:
    """The first version of Python that may run the kit. Raises ConfigurationError."""
    lowest = re.search(r'(?m)^requires-python = ">=([\d.]+)[",]', read_text(PYPROJECT))
    if lowest is None:
        raise ConfigurationError(f'{PYPROJECT}: write requires-python = ">=3.11", or a later version')
    return lowest[1]


def newest_glibc(python: str) -> str:
    """The newest glibc that wheels for a version of Python may need, as their names have it: 2_17. Lambda's
    Python 3.11 runs on Amazon Linux 2, the others on Amazon Linux 2023.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
    """
    return "2_17" if python == "3.11" else "2_34"


def for_python(text: str, version: str) -> str:
    """A template, or a Dockerfile, for another version of Python than the one that it names."""
    return re.sub(rf"\b(python:?){re.escape(LAMBDA_PYTHON)}\b", rf"\g<1>{version}", text)


def check_system(command: str) -> None:
    """Raises ConfigurationError if this machine cannot run what is built for Lambda."""
    if sys.platform != "linux":
        raise ConfigurationError(
            f"{command} runs what is built for Lambda, which needs Linux: run it in the devcontainer, in WSL"
            " or in CI"
        )


def find_python(version: str) -> str:
    """An interpreter of this machine, such as for 3.13, or ""."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    name = f"python{version}"
    pyenv_paths: list[Path] = []
    with suppress(OSError):  # another user's
        pyenv_paths = sorted(versions.glob(f"{version}*/bin/{name}"))
    for python in (name, *map(str, pyenv_paths)):
        with suppress(OSError):  # pyenv's shim is there, and may have no such version
            if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
                return python
    return ""
