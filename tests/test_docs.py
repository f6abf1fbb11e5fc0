"""The documentation: its links, and its length."""

import re
from pathlib import Path

import pytest

from a2a_lambda.http.app import ALLOWED_HEADERS
from a2a_lambda.http.auth import APPBUILDER
from tests.conftest import ROOT
from tests.helpers.pages import CHINESE, DOCS, OTHERS, PAGES, RECIPES, kits_readme
from tools.docs import translations


def headings(page: Path) -> set[str]:
    """Anchors of a page, as GitHub makes them."""
    matches = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in matches}


@pytest.mark.parametrize(
    "page", [*PAGES, *CHINESE, *RECIPES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8")):
        name, _, anchor = target.partition("#")
        linked_page = (page.parent / name).resolve() if name else page
        assert linked_page.exists(), target
        assert not anchor or anchor in headings(linked_page), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    for path, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", page.read_text("utf-8")):
        if path != "tests/judges.py":  # an agent's own
            assert f"def {name}" in (ROOT / path).read_text("utf-8"), path


@pytest.mark.parametrize(
    "page",
    [*DOCS, *RECIPES, *(ROOT / f"{name}.md" for name in ("AGENTS", "CHANGELOG", "CONTRIBUTING", "SECURITY"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_line_of_a_page_can_be_read_in_an_editor(page: Path) -> None:
    """At most 120 characters, except in tables, programs, and links that stand alone. README is short: see
    `test_the_readme_is_short`."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text("utf-8"))
    lines = [line for line in text.splitlines() if not line.startswith(("|", "["))]
    assert [line for line in lines if len(line) > 120] == []


def test_a_cdn_forwards_every_header_that_is_read() -> None:
    text = (ROOT / "docs/deploying.md").read_text("utf-8")
    assert [
        name for name in ("Accept", APPBUILDER, *ALLOWED_HEADERS) if f"`{name.lower()}`" not in text.lower()
    ] == []


def test_every_page_is_linked_from_the_readme() -> None:
    text = kits_readme()
    assert all(f"docs/{page.name}" in text for page in DOCS)


def test_the_errors_in_the_questions_are_those_of_the_code() -> None:
    code = "\n".join(
        path.read_text("utf-8") for top in ("tools", "layers") for path in (ROOT / top).rglob("*.py")
    )
    code = re.sub(r'"\n\s+f?"', "", code)
    matches = re.findall(r"(?m)^\| (?:\d+, )?`([^`]+)`", (ROOT / "docs" / "faq.md").read_text("utf-8"))
    assert len(matches) > 5
    for text in matches:
        for piece in re.split(r"…|'[^']*'|\d+", text):
            assert piece.strip(" :") in code, text


def commands(page: Path) -> list[str]:
    """Blocks of a page, without comments, and the commands in its tables."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```(?:sh|python|yaml|json|js)\n(.*?)```", text, re.DOTALL)
    rows = re.findall(r"(?m)^\| `((?:git|make|sam|uv|export|\.venvs)[^`]* [^`]+)` \|", text)
    return [re.sub(r" +# .*", "", block) for block in blocks] + rows


def test_the_chinese_readme_has_the_same_commands() -> None:
    assert commands(ROOT / "README.zh-CN.md") == commands(ROOT / "README.md")


@pytest.mark.parametrize(
    "name", ["authoring", "background-work", "connecting", "deploying", "forking", "upgrading"]
)
def test_the_chinese_pages_have_the_same_programs(name: str) -> None:
    """They have them in the order that suits their readers."""
    chinese, english = (commands(ROOT / "docs" / place / f"{name}.md") for place in ("zh", ""))
    assert sorted(chinese) == sorted(english)


@pytest.mark.parametrize(("chinese", "english"), list(translations.pairs(ROOT)), ids=lambda path: path.name)
def test_a_chinese_page_was_compared_with_its_english_one(chinese: Path, english: Path) -> None:
    """If not: bring it up to date, then run python -m tools.docs.translations."""
    assert translations.read_digest(chinese) == translations.digest_of(english)


def test_the_readme_is_short() -> None:
    assert 10 < len(kits_readme().splitlines()) <= 130
