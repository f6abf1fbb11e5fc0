"""Makes, lists and revokes keys: of the running development server, or of a deployed stack.

make key                                           list the keys
make key NAME=alice [OWNER=… AGENTS=a,b DAYS=90]   make one; it is shown once
make key NAME=alice REVOKE=1                       revoke it
… STACK=my-stack                                   the same for a stack on AWS
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from a2a_lambda.access.key import Key
from a2a_lambda.access.key_register import KeyRegister
from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.command import reports_errors, split_names
from tools.deployment.stack import table_of
from tools.state import KEYS_PATH, STATE


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    print(_run(KeyRegister(*find_parameters(environ)), environ))
    return 0


def _run(keys: KeyRegister, environ: Mapping[str, str]) -> str:
    """Run the command; returns what to print."""
    name = environ.get("NAME", "")
    if not name:
        if variables := [
            variable for variable in ("OWNER", "AGENTS", "DAYS", "REVOKE") if environ.get(variable)
        ]:
            raise ConfigurationError(f"{variables[0]} requires NAME: add NAME=…")
        return (
            "\n".join(_line(key) for key in keys.list())
            or f"no keys. To make one: make key NAME=alice{_where(environ)}"
        )
    if environ.get("REVOKE"):
        keys.revoke(name)
        return f"revoked {name}. Functions that have loaded it may accept it for up to a minute"
    try:
        days = float(environ["DAYS"]) if environ.get("DAYS") else None
    except ValueError:
        raise ConfigurationError(f"DAYS must be a number of days, not {environ['DAYS']!r}") from None
    agents = tuple(split_names(environ.get("AGENTS", "")))
    for agent in agents:
        if not (Settings().agents / agent).is_dir():
            raise ConfigurationError(f"there is no agent {agent!r} in {Settings().agents}")
    secret = keys.create(name, owner=environ.get("OWNER") or None, agents=agents, days=days)
    check = f"make doctor{suffix} KEY=<key>" if (suffix := _where(environ)) else "make chat KEY=<key>"
    return f"{secret}\n\nThe key is shown only this once. Clients send it as X-API-Key.\nNext: {check}"


def _where(environ: Mapping[str, str]) -> str:
    return f" STACK={environ['STACK']}" if environ.get("STACK") else ""


def _line(key: Key) -> str:
    expiry = time.strftime("%Y-%m-%d", time.gmtime(key.expires)) if key.expires else "never"
    agents = ", ".join(key.agents) or "all"
    return f"{key.label:<20} owner {key.owner:<20} agents {agents:<20} expires {expiry}"


def find_parameters(environ: Mapping[str, str]) -> tuple[Any, str]:
    """Client of Parameter Store, and the path of the keys there: of STACK, or of the running server. Raises
    ConfigurationError."""
    if stack := environ.get("STACK"):
        table_of(stack)  # raises if there is no such stack: a key for it would be useless
        return clients.ssm(Settings()), f"/a2a/{stack}/keys"
    if not STATE.exists() and "AWS_ENDPOINT_URL_SSM" not in environ:
        raise ConfigurationError("no development server is running: start make run, or add STACK=…")
    url = json.loads(STATE.read_text())["emulator"] if STATE.exists() else ""
    path = environ.get("A2A_KEYS_PATH") or KEYS_PATH
    return clients.ssm(Settings(local=True, emulator=url)), path


if __name__ == "__main__":
    sys.exit(main())
