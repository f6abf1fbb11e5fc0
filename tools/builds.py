"""Where builds are, and what they are for."""

from collections.abc import Mapping
from pathlib import Path

from a2a_lambda.errors import ConfigurationError

BUILD, IMAGE = Path(".aws-sam/build"), Path(".aws-sam/image")
"""What `make build` and `make image` make."""

LAMBDA_PYTHON = "3.13"
"""Version of Python in template.yaml."""

ARCHITECTURES = ("arm64", "x86_64")
"""As Lambda names them. The first is the default."""


def read_architecture(environ: Mapping[str, str]) -> str:
    """Value of ARCH. Raises ConfigurationError."""
    found = environ.get("ARCH") or ARCHITECTURES[0]
    if found not in ARCHITECTURES:
        raise ConfigurationError(f"ARCH={found}: use {' or '.join(ARCHITECTURES)}")
    return found
