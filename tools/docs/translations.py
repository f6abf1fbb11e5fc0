"""Which text of its English page a Chinese page was last compared with.

The last line of a Chinese page has the digest of that text. A test fails if the English page has changed
since: bring the Chinese page up to date, then run `.venv/bin/python -m tools.docs.translations`, which writes
the digests.
"""

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.fork.owned import README_MARK

LINE = re.compile(r"\n*<!-- (\S+) ([0-9a-f]{8}) -->\n*$")


def pairs(root: Path) -> Iterator[tuple[Path, Path]]:
    """The Chinese pages, each with its English one."""
    yield root / "README.zh-CN.md", root / "README.md"
    for page in sorted((root / "docs" / "zh").glob("*.md")):
        name = "recipes/README.md" if page.name == "recipes.md" else f"docs/{page.name}"
        yield page, root / name


def digest_of(page: Path) -> str:
    """Digest of a page. Of README.md only the kit's part counts: the introduction is the fork's."""
    kit_part = page.read_text("utf-8").rpartition(README_MARK)[2]
    return hashlib.sha256(kit_part.encode()).hexdigest()[:8]


def read_digest(page: Path) -> str:
    """Digest in the last line of a Chinese page; "" if it has none."""
    match = LINE.search(page.read_text("utf-8"))
    return match[2] if match else ""


def main() -> int:
    for chinese, english in pairs(Path()):
        text = LINE.sub("", chinese.read_text("utf-8")).rstrip()
        chinese.write_text(f"{text}\n\n<!-- {english.as_posix()} {digest_of(english)} -->\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
