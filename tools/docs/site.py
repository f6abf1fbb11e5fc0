"""make docs: the documentation site, in .site, in English and below zh in Chinese. `make docs SERVE=1` shows
the English one while you write.

    README, docs, recipes, … ─┬─ .aws-sam/docs (Markdown, links between pages rewritten) ── zensical ── .site
    generated references     ─┘
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from tools import environments
from tools.command import reports_errors
from tools.docs import reference

ENGLISH, CHINESE = Path(".aws-sam/docs"), Path(".aws-sam/docs-zh")

ZENSICAL = environments.program_path("docs", "zensical")

LINK = re.compile(r"(!?\[[^\]]*\])\(((?!https?:|#|mailto:)[^)#]*)(#[^)]*)?\)")

ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "AGENTS.md")

PICTURES = "docs/pictures/"


def sources(root: Path) -> dict[str, str]:
    """Pages of the English site, by their path in the repository: the path in the site."""
    pages = {"README.md": "index.md"}
    pages |= {f"docs/{page.name}": page.name for page in sorted((root / "docs").glob("*.md"))}
    pages |= {name: name.lower() for name in ROOT_PAGES if (root / name).exists()}
    pages["recipes/README.md"] = "recipes/index.md"
    for page in sorted((root / "recipes").glob("*/README.md")):
        pages[f"recipes/{page.parent.name}/README.md"] = f"recipes/{page.parent.name}.md"
    return pages


def chinese_sources(root: Path) -> dict[str, str]:
    """Pages of the Chinese site."""
    pages = {f"docs/zh/{page.name}": page.name for page in sorted((root / "docs" / "zh").glob("*.md"))}
    return {"README.zh-CN.md": "index.md", **pages}


def with_site_links(text: str, page: str, pages: Mapping[str, str], others: Mapping[str, str]) -> str:
    """A page's text with links that fit the site. A link to a file that is no page becomes plain text.

    page: its path in the repository. pages: pages in this language. others: urls of pages that only the other
        language has.
    """
    folder = PurePosixPath(page).parent
    place = PurePosixPath(pages[page]).parent

    def replace(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        path = normpath(str(folder / target))
        if path in pages:
            return f"{label}({relpath(pages[path], str(place))}{anchor})"
        if path.startswith(PICTURES):
            return f"{label}({relpath(path.removeprefix('docs/'), str(place))})"
        if path in others:
            return f"{label}({others[path]}{anchor})"
        return "" if label.startswith("!") else label[1:-1]

    return LINK.sub(replace, text)


def write(root: Path, folder: Path, pages: Mapping[str, str], others: Mapping[str, str]) -> None:
    """Write a site's Markdown. Pages and others as in `with_site_links`."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, place in pages.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_site_links((root / path).read_text("utf-8"), path, pages, others), "utf-8")
    shutil.copytree(root / PICTURES, folder / "pictures")


def write_all(root: Path, english: Path, chinese: Path) -> None:
    """Write both sites' Markdown."""
    pages, translations = sources(root), chinese_sources(root)
    write(root, english, pages, {"README.zh-CN.md": "/zh/"})
    for place, text in reference.pages(root):
        (english / place).write_text(text, "utf-8")
    write(root, chinese, translations, {path: _url(place) for path, place in pages.items()})


def _url(place: str) -> str:
    """Path of a page of the English site: a/b.md is at /a/b/."""
    path = place.removesuffix(".md").removesuffix("index")
    return f"/{path}/" if path and not path.endswith("/") else f"/{path}"


@reports_errors
def main() -> int:
    environments.install("docs")
    write_all(Path.cwd(), ENGLISH, CHINESE)
    if os.environ.get("SERVE"):
        return _zensical("serve", "--config-file", "mkdocs.yml")
    status = _zensical("build", "--clean", "--strict", "--config-file", "mkdocs.yml")
    return status or _zensical("build", "--clean", "--strict", "--config-file", "mkdocs.zh.yml")


def _zensical(*arguments: str) -> int:
    return environments.run(str(ZENSICAL), *arguments)


if __name__ == "__main__":
    sys.exit(main())
