"""make docs: the documentation site, in .site. `make docs SERVE=1` shows it while you write.

README, docs, recipes, … ─┬─ .aws-sam/docs (Markdown, links between the pages rewritten) ── zensical ── .site
generated references     ─┘
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from tools.command import reports_errors
from tools.docs import reference

SOURCE = Path(".aws-sam/docs")

ZENSICAL = Path(".venvs/docs/bin/zensical")

LINK = re.compile(r"(!?\[[^\]]*\])\(((?!https?:|#|mailto:)[^)#]*)(#[^)]*)?\)")

ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "AGENTS.md")


def sources(root: Path) -> dict[str, str]:
    """Pages of the site, by their path in the repository: the path in the site."""
    found = {"README.md": "index.md"}
    found |= {f"docs/{page.name}": page.name for page in sorted((root / "docs").glob("*.md"))}
    found |= {name: name.lower() for name in ROOT_PAGES if (root / name).exists()}
    found["recipes/README.md"] = "recipes/index.md"
    for page in sorted((root / "recipes").glob("*/README.md")):
        found[f"recipes/{page.parent.name}/README.md"] = f"recipes/{page.parent.name}.md"
    return found


def rewritten(text: str, page: str, pages: Mapping[str, str]) -> str:
    """A page's text with links that fit the site. A link to a file that is no page becomes plain text.

    page: its path in the repository.
    """
    here = PurePosixPath(page).parent
    place = PurePosixPath(pages[page]).parent

    def replace(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        path = normpath(str(here / target))
        if path in pages:
            return f"{label}({relpath(pages[path], str(place))}{anchor})"
        if path.startswith("docs/pictures/"):
            return f"{label}({relpath(path.removeprefix('docs/'), str(place))})"
        return label[1:-1] if not label.startswith("!") else ""

    return LINK.sub(replace, text)


def write(root: Path, folder: Path) -> None:
    """Write the site's Markdown."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = sources(root)
    texts = {place: rewritten((root / path).read_text("utf-8"), path, pages) for path, place in pages.items()}
    texts |= dict(reference.pages(root))
    for place, text in texts.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    shutil.copytree(root / "docs" / "pictures", folder / "pictures")


@reports_errors
def main() -> int:
    write(Path.cwd(), SOURCE)
    words = ["serve"] if os.environ.get("SERVE") else ["build", "--clean", "--strict"]
    return subprocess.run([str(ZENSICAL), *words, "--config-file", "mkdocs.yml"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
