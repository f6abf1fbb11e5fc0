"""Which files are a fork's, and which are the kit's."""

import re

OWN_FILES = (
    "functions/agents",
    "layers/agents/packages.txt",
    "layers/agents/requirements.txt",
    "samconfig.toml",
)
"""Files and folders of a fork. The kit ships examples of them. An upgrade leaves them as they are."""

TEMPLATE = "template.yaml"

TEMPLATE_PART = re.compile(r"(?ms)^  # === Yours .*?(?=^  # === The kit's )")
"""The fork's part of the template."""

README_MARK = "<!-- The kit's own README. A fork's introduction is above this line. -->"
"""Where the kit's part of README.md begins."""

LOCKS = (
    "uv.lock",
    "environments/*/uv.lock",
    "layers/dependencies/requirements.txt",
    "layers/dependencies/tracing.txt",
)
"""Files that a command writes. After an upgrade they are the kit's, and then written again."""


def is_own(path: str) -> bool:
    """Whether a path of the repository is a fork's own."""
    return any(path == own or path.startswith(f"{own}/") for own in OWN_FILES)
