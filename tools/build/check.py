"""Loads every agent before `make build` packages them, and reports what is wrong: with an agent, with what it
imports, or with what lies beside it.

With a path, it writes the manifest there: the agents' cards and the schemas of their parameters. The
functions that run no agent read it. Names after the path are those of the agents to write; none = all.
"""

import asyncio
import re
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path

from a2a_lambda import agent_threads
from a2a_lambda.catalog.agents import load_profiles, read_cards
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.errors import ConfigurationError
from tools.agents import imports, lost
from tools.agents.watch import Watch
from tools.command import AGENTS, agent_folders, reports_errors

SECRETS = re.compile(
    r"\.env(\.(?!example$|sample$|template$).+)?|.+\.(key|p12|pfx|jks)|\.netrc|id_(rsa|dsa|ecdsa|ed25519)"
    r"|credentials(\.json)?|service[-_]account.*\.json",
    re.IGNORECASE,
)
"""Names of files that usually hold secrets."""

PEM_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")

PUBLIC = {b"CERTIFICATE", b"TRUSTED CERTIFICATE", b"PUBLIC KEY", b"RSA PUBLIC KEY", b"X509 CRL"}
"""What a .pem may hold that is no secret."""


@reports_errors
def main(argv: list[str] = sys.argv) -> int:
    named = argv[2:]
    left_out = agent_folders(AGENTS).keys() - named if named else set[str]()
    if secrets := find_secrets(AGENTS, left_out):
        raise ConfigurationError(
            f"these files would be in every function: {', '.join(secrets)}. Move them out of {AGENTS}, and"
            " store what an agent needs with make secret"
        )
    cards, _ = read_cards(AGENTS, named)  # its problems are named below
    for sentence in lost.find_lost(AGENTS, cards):
        print(f"warning: {sentence}", file=sys.stderr)
    Watch(AGENTS).start()
    # Not in the main thread, because a deployment imports agents in other ones, where `signal.signal` and
    # `asyncio.get_event_loop` fail.
    work = agent_threads.call_in_thread(partial(load_profiles, AGENTS, named), "imports")
    profiles = asyncio.run(work)
    if sentences := imports.find_missing(AGENTS, named or None, left_out):
        raise ConfigurationError("\n".join(sentences))
    if len(argv) > 1:
        Path(argv[1]).write_bytes(encode_manifest(profiles))
    return 0


def find_secrets(agents: Path, left_out: Collection[str] = ()) -> list[str]:
    """Paths of files that probably hold secrets. An agent's tests are not packed. left_out: agents that this
    build does not pack."""
    return [
        str(path)
        for path in sorted(agents.rglob("*"))
        if path.is_file()
        and path.relative_to(agents).parts[0] not in left_out
        and path.relative_to(agents).parts[1:2] != (imports.TESTS,)
        and _is_secret(path)
    ]


def _is_secret(path: Path) -> bool:
    if path.suffix.lower() == ".pem":
        labels = set(PEM_LABEL.findall(path.read_bytes()))
        return not labels or not labels <= PUBLIC
    return SECRETS.fullmatch(path.name) is not None


if __name__ == "__main__":
    sys.exit(main())
