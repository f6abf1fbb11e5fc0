"""The templates, read and translated once."""

from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.template.resources import of_type
from tools.build import lint


@pytest.fixture(scope="session")
def translated(source: str) -> Any:
    return lint.translate(source)["Resources"]


@pytest.fixture(scope="session")
def monitoring() -> Any:
    return yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())["Resources"]


@pytest.fixture(scope="session")
def parameters(source: str) -> Any:
    return yaml_parse(source)["Parameters"]


@pytest.fixture(scope="session")
def paths(translated: Any) -> Any:
    [api] = of_type(translated, "AWS::ApiGateway::RestApi").values()
    return api["Properties"]["Body"]["paths"]
