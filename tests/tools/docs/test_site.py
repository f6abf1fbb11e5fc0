"""make docs: a site with every page, and links that lead somewhere."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.pages import PAGES, RECIPES
from tools.commands import COMMANDS
from tools.docs import reference, site

ZENSICAL = ROOT / ".venvs" / "docs" / "bin" / "zensical"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    site.write_all(ROOT, folder / site.ENGLISH, folder / site.CHINESE)
    for name in ("mkdocs.yml", "mkdocs.zh.yml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
        command = [str(ZENSICAL), "build", "--clean", "--strict", "--config-file", name]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    site.write_llms(folder / site.ENGLISH, folder / ".site", "Kit")
    site.write_llms(folder / site.CHINESE, folder / ".site" / "zh", "Kit")
    return folder / ".site"


def test_every_page_is_in_the_navigation() -> None:
    matches = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    generated_pages = {
        f"reference-{name}.md" for name in ("outputs", "turn", "card", "parameters", "commands", "protocols")
    }
    pages = site.sources(ROOT)
    assert matches <= set(pages.values()) | generated_pages
    kits = {str(page.relative_to(ROOT)) for page in (*PAGES, *RECIPES)}
    assert {pages[name] for name in kits} | generated_pages <= matches, (
        "a fork may have pages that are not there"
    )


@pytest.mark.slow
def test_links_between_pages_lead_somewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        if page.name == "404.html":  # its links are absolute
            continue
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text("utf-8")):
            if not re.match(r"[a-z]+:", target):
                place = f"{page.relative_to(built)}: {target}"
                assert not target.startswith("/"), f"{place}: the site may be below a path"
                assert (page.parent / target).resolve().exists(), place


@pytest.mark.slow
def test_nothing_is_loaded_from_another_host(built: Path) -> None:
    """Where a site of the web is slow or blocked, the pages must not wait for it."""
    for page in built.rglob("*.html"):
        text = page.read_text("utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text):
            loads = re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)
            is_name = re.search(r"""rel=["']?(?:canonical|alternate|prev|next)""", tag)
            assert not loads or is_name, f"{page.relative_to(built)}: {tag}"
        assert "mermaid" not in text, "the theme would load its library"


@pytest.mark.slow
def test_a_language_model_finds_every_page(built: Path) -> None:
    matches = re.findall(
        r"^- \[[^\]]+\]\(([^)]+\.md)\)(?:: \S|$)", (built / "llms.txt").read_text("utf-8"), re.MULTILINE
    )
    assert matches[0] == "index.md"
    assert {"authoring.md", "recipes/openai.md", "reference-card.md"} <= set(matches)
    whole = (built / "llms-full.txt").read_text("utf-8")
    for place in matches:
        assert (built / place).read_text("utf-8").strip() in whole
    assert "authoring.md" in (built / "zh" / "llms.txt").read_text("utf-8")


@pytest.mark.slow
def test_the_site_can_be_searched(built: Path) -> None:
    index = json.dumps(json.loads((built / "search.json").read_text("utf-8")))
    for text in ("make playground", "turn.messages", "asynchronous", "HostedZoneId", "pushNotifications"):
        assert text in index, text


def test_a_link_out_of_the_site_becomes_text() -> None:
    pages = {"docs/a.md": "a.md", "recipes/x/README.md": "recipes/x.md"}
    text = "[code](../layers/a2a/kit.py), [x](../recipes/x/README.md#top), ![p](pictures/p.png), [z](zh/a.md)"
    others = {"docs/zh/a.md": "zh/a"}
    site_text = site.with_site_links(text, "docs/a.md", pages, others)
    assert site_text == "code, [x](recipes/x.md#top), ![p](pictures/p.png), [z](zh/a/)"
    text = "[z](../../docs/zh/a.md#top)"
    assert site.with_site_links(text, "recipes/x/README.md", pages, others) == "[z](../zh/a/#top)"


def test_a_command_with_a_pipe_can_be_copied() -> None:
    text = r"| `printf x \| sha256sum` | a \| b |"
    assert site.with_plain_pipes(text) == r"| `printf x | sha256sum` | a \| b |"
    assert site.with_plain_pipes(r"Run `grep 'a\|b'`.") == r"Run `grep 'a\|b'`.", "GitHub shows it so, too"


@pytest.mark.slow
def test_parameters_and_commands_are_complete(built: Path) -> None:
    template = (ROOT / "template.yaml").read_text()
    parameters = re.findall(
        r"(?m)^  (\w+):", template.partition("\nParameters:\n")[2].partition("\nRules:")[0]
    )
    page = (built / "reference-parameters" / "index.html").read_text("utf-8")
    assert parameters
    assert all(name in page for name in parameters)
    commands = (built / "reference-commands" / "index.html").read_text("utf-8")
    assert all(f"make {name}" in commands for name in COMMANDS)


def test_the_configuration_is_yaml_for_other_tools() -> None:
    text = re.sub(r"!!python/name:\S+", "x", (ROOT / "mkdocs.yml").read_text())
    assert yaml.safe_load(text)["site_name"] == "A2A Lambda Kit"


def test_the_reference_shows_how_a_method_is_called() -> None:
    page = reference.turn_page()
    assert "turn.sleep(duration: timedelta | float = 0, /, *, days: float = 0" in page
    assert "turn.files: list[ReceivedFile]" in page
    bare_methods = re.findall(r"(?m)^## (turn\.\S+)\n\n```python\n.*\n```\n\n(?=## )", page)
    assert bare_methods == [], "each has a sentence"
