"""Makes, lists and revokes keys, in the running development server or in a deployed stack.

make key                                           list the keys
make key NAME=alice [OWNER=… AGENTS=a,b DAYS=90]   make one; it is shown once
make key NAME=alice REVOKE=1                       revoke it
… STACK=my-stack                                   the same for a stack on AWS
"""

import os
import sys
import time
from collections.abc import Mapping

from a2a_lambda.access.key import Key
from a2a_lambda.errors import ConfigurationError
from tools.access.parameters import check_command, find_parameters, named_agents, stack_argument
from tools.command import reports_errors, require_name
from tools.registers.keys import KeyRegister


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    print(_run(KeyRegister(*find_parameters(environ)), environ))
    return 0


def _run(keys: KeyRegister, environ: Mapping[str, str]) -> str:
    """Run the command; returns what to print."""
    name = environ.get("NAME", "")
    if not name:
        require_name(environ, ("OWNER", "AGENTS", "DAYS", "REVOKE"))
        return (
            "\n".join(_line(key) for key in keys.list())
            or f"no keys. To make one: make key NAME=alice{stack_argument(environ)}"
        )
    if environ.get("REVOKE"):
        keys.revoke(name)
        return f"revoked {name}. It may still be accepted for up to a minute, or five if few calls come"
    try:
        days = float(environ["DAYS"]) if environ.get("DAYS") else None
    except ValueError:
        raise ConfigurationError(f"DAYS must be a number of days, not {environ['DAYS']!r}") from None
    agents = named_agents(environ)
    secret = keys.create(name, owner=environ.get("OWNER") or None, agents=agents, days=days)
    check = check_command(environ, agents)
    return f"{secret}\n\nThis key is shown only once. Clients send it as X-API-Key.\nNext: {check} KEY=<key>"


def _line(key: Key) -> str:
    end = "never expires"
    if key.expires is not None:
        verb = "expired" if key.has_expired(time.time()) else "expires"
        end = f"{verb} {time.strftime('%Y-%m-%d', time.gmtime(key.expires))}"
    agents = ", ".join(key.agents) or "all"
    return f"{key.label:<20} owner {key.owner:<20} agents {agents:<20} {end}"


if __name__ == "__main__":
    sys.exit(main())
