"""The page's libraries: they are what npm has, and the page needs no other host."""

import json
import re

from tests.conftest import ROOT
from tools.playground.vendor import CHECKSUMS, ENVIRONMENT, FILES, LANGUAGES, VENDOR, checksums

PAGE = VENDOR.parent


def test_the_libraries_are_as_they_were_copied() -> None:
    assert CHECKSUMS.read_text() == checksums()
    there = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()}
    assert there == {*FILES, CHECKSUMS.name}


def test_their_versions_are_exact_and_locked() -> None:
    folder = ROOT / "environments" / ENVIRONMENT
    versions = json.loads((folder / "package.json").read_text())["dependencies"]
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in versions} == versions
    assert versions["marked"] in (VENDOR / "marked.js").read_text("utf-8")[:200]
    assert versions["dompurify"] in (VENDOR / "purify.js").read_text("utf-8")[:200]


def test_the_page_knows_the_languages_that_are_there() -> None:
    [languages_text] = re.findall(
        r"const LANGUAGES = \[(.*?)\];", (PAGE / "markdown.js").read_text("utf-8"), re.DOTALL
    )
    assert re.findall(r'"(\w+)"', languages_text) == list(LANGUAGES)


def test_the_page_loads_nothing_from_another_host() -> None:
    for path in PAGE.glob("*.*"):
        text = path.read_text("utf-8")
        assert not re.search(r"""(?:src|href|import|from|url)\s*[=(]?\s*["'(]\s*https?:""", text), path.name
