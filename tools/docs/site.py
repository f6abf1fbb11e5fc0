"""make docs: the documentation site, in .site, in English and below zh in Chinese. `make docs SERVE=1` shows
the English one while you write.

    README, docs, recipes, … ─┬─ .aws-sam/docs (Markdown, links between pages rewritten) ── zensical ── .site
    generated references     ─┘                                                         └── llms.txt

llms.txt (https://llmstxt.org) lists the pages for a language model, and llms-full.txt has their texts.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from posixpath import join, normpath, relpath

from tools import environments
from tools.command import reports_errors
from tools.docs import reference

ENGLISH, CHINESE = Path(".aws-sam/docs"), Path(".aws-sam/docs-zh")

ZENSICAL = environments.program_path("docs", "zensical")

LINK = re.compile(r"(!?\[[^\]]*\])\(((?!https?:|#|mailto:)[^)#]*)(#[^)]*)?\)")

ROW = re.compile(r"^\|.*$", re.MULTILINE)
"""A row of a table."""

CODE = re.compile(r"`[^`\n]+`")
"""Code within a line."""

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


def with_plain_pipes(text: str) -> str:
    """Markdown whose tables have no escaped pipes in their code. GitHub needs them there; Zensical would show
    them, and the command would not work when copied."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text)


def with_site_links(text: str, page: str, pages: Mapping[str, str], others: Mapping[str, str]) -> str:
    """A page's text with links that fit the site. A link to a file that is no page becomes plain text.

    page: its path in the repository. pages: pages in this language. others: URLs of the pages in the other
        language, relative to the start page of this one.
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
            return f"{label}({normpath(join(relpath('.', str(place)), others[path]))}/{anchor})"
        return "" if label.startswith("!") else label[1:-1]

    return LINK.sub(replace, text)


def write(root: Path, folder: Path, pages: Mapping[str, str], others: Mapping[str, str]) -> None:
    """Write a site's Markdown. pages, others: see `with_site_links`."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, place in pages.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = with_site_links((root / path).read_text("utf-8"), path, pages, others)
        target.write_text(with_plain_pipes(text), "utf-8")
    shutil.copytree(root / PICTURES, folder / "pictures")


def write_all(root: Path, english: Path, chinese: Path) -> None:
    """Write both sites' Markdown."""
    pages, translations = sources(root), chinese_sources(root)
    write(root, english, pages, {path: _url("zh", place) for path, place in translations.items()})
    for place, text in reference.pages(root):
        (english / place).write_text(with_plain_pipes(text), "utf-8")
    write(root, chinese, translations, {path: _url("..", place) for path, place in pages.items()})


def _url(site: str, place: str) -> str:
    """URL of a page: b.md is at b/. site: path from one site to the other."""
    return join(site, place.removesuffix(".md").removesuffix("index"))


def write_llms(folder: Path, target: Path, title: str) -> None:
    """Write llms.txt and llms-full.txt. folder: Markdown of a site. target: folder of the built site.

    title: name of the site. A page's first heading names it, and its first sentence describes it.
    """
    places = sorted(folder.rglob("*.md"), key=lambda path: (path.name != "index.md", str(path)))
    lines = [f"# {title}", "", f"> {_summary(folder / 'index.md')[1]}", "", "## Pages", ""]
    texts = []
    for path in places:
        place = path.relative_to(folder).as_posix()
        name, description = _summary(path)
        lines.append(f"- [{name}]({place})" + (f": {description}" if description else ""))
        texts.append(f"<!-- {place} -->\n\n{path.read_text('utf-8').strip()}\n")
        # The Markdown of each page is beside its HTML, where llms.txt says it is.
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / place)
    (target / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (target / "llms-full.txt").write_text("\n\n".join(texts), "utf-8")


def _summary(path: Path) -> tuple[str, str]:
    """Title and first sentence of a page, without links."""
    blocks = [block.strip() for block in path.read_text("utf-8").split("\n\n")]
    title = next(
        (block.splitlines()[0].lstrip("# ") for block in blocks if block.startswith("# ")), path.stem
    )
    prose = next((block for block in blocks if block[:1].isalpha() or re.match("`[^`]", block)), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    sentence = re.split(r"\. |(?<=。)", text)[0].rstrip(".:：")
    return title, sentence if not sentence or sentence.endswith("。") else f"{sentence}."


@reports_errors
def main() -> int:
    environments.install("docs")
    write_all(Path.cwd(), ENGLISH, CHINESE)
    if os.environ.get("SERVE"):
        return _zensical("serve", "--config-file", "mkdocs.yml")
    for name in ("mkdocs.yml", "mkdocs.zh.yml"):
        if status := _zensical("build", "--clean", "--strict", "--config-file", name):
            return status
    write_llms(ENGLISH, Path(".site"), "A2A Lambda Kit")
    write_llms(CHINESE, Path(".site/zh"), "A2A Lambda Kit")
    print("the site is in .site: serve that folder with any web server, such as python -m http.server")
    return 0


def _zensical(*arguments: str) -> int:
    return environments.run(str(ZENSICAL), *arguments)


if __name__ == "__main__":
    sys.exit(main())
