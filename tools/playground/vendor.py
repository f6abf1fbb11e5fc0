"""The libraries of the playground's page, copied from npm's packages into the repository.

    environments/page/package-lock.json ── npm ci ── .venvs/page ── page/vendor

The page loads nothing from another host, so its libraries are files of its own. After a change of the
versions: `npm install --package-lock-only --prefix environments/page`, then `.venv/bin/python -m
tools.playground.vendor`.
"""

import hashlib
import sys
from pathlib import Path

from tools import environments

VENDOR = Path(__file__).parent / "page" / "vendor"

ENVIRONMENT = "page"

LANGUAGES = (
    *("bash", "c", "cpp", "csharp", "css", "diff", "dockerfile", "go", "http", "ini", "java", "javascript"),
    *("json", "kotlin", "markdown", "php", "python", "ruby", "rust", "shell", "sql", "swift", "typescript"),
    *("xml", "yaml"),
)
"""Languages of code blocks that are highlighted."""

HIGHLIGHT = "@highlightjs/cdn-assets"

FILES = {
    "marked.js": "marked/lib/marked.esm.js",
    "purify.js": "dompurify/dist/purify.es.mjs",
    "highlight.js": f"{HIGHLIGHT}/es/core.min.js",
    **{f"languages/{name}.js": f"{HIGHLIGHT}/es/languages/{name}.min.js" for name in LANGUAGES},
    "licenses/marked.txt": "marked/LICENSE",
    "licenses/dompurify.txt": "dompurify/LICENSE",
    "licenses/highlight.txt": f"{HIGHLIGHT}/LICENSE",
}
"""Files of the page, and where npm's packages have them."""

CHECKSUMS = VENDOR / "checksums.txt"
"""SHA-256 of each file, as `sha256sum` writes it."""


def checksums() -> str:
    """Text of the files' checksums."""
    return "".join(
        f"{hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(FILES)
    )


def main() -> int:
    environments.install_js(ENVIRONMENT)
    packages = environments.VENVS / ENVIRONMENT / "node_modules"
    for name, source in FILES.items():
        (VENDOR / name).parent.mkdir(parents=True, exist_ok=True)
        # The comment at the end names a source map, which is not here.
        text = (packages / source).read_text("utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL=")]
        (VENDOR / name).write_text("\n".join(lines) + "\n", "utf-8")
    CHECKSUMS.write_text(checksums())
    return 0


if __name__ == "__main__":
    sys.exit(main())
