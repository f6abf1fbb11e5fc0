"""The kit's pages of documentation. A fork may have others, and its own introduction in the README."""

from pathlib import Path

from tests.conftest import ROOT
from tools.fork.owned import README_MARK

NAMES = (
    *(
        "authoring",
        "background-work",
        "comparison",
        "connecting",
        "costs",
        "dependencies",
        "deploying",
        "design",
    ),
    *(
        "erasing",
        "faq",
        "files",
        "forking",
        "keys",
        "long-running",
        "mcp",
        "observability",
        "operations",
        "performance",
        "playground",
        "protocol-versions",
        "routing",
        "scale",
        "settings",
        "sign-in",
        "streaming",
        "upgrading",
    ),
)

DOCS = [ROOT / "docs" / f"{name}.md" for name in NAMES]

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS]

CHINESE = sorted((ROOT / "docs" / "zh").glob("*.md"))

RECIPES = sorted((ROOT / "recipes").rglob("README.md"))

OTHERS = [
    ROOT / name
    for name in ("README.zh-CN.md", "AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
]


def kits_readme() -> str:
    """The README without a fork's introduction."""
    return (ROOT / "README.md").read_text("utf-8").partition(README_MARK)[2]


def text_of(page: Path) -> str:
    """Text of a page, without what is a fork's own in it."""
    return kits_readme() if page == ROOT / "README.md" else page.read_text("utf-8")
