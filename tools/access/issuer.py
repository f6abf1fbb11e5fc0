"""Adds, lists and removes issuers of tokens, in the running development server or in a deployed stack.

make issuer                                                       list the issuers
make issuer NAME=entra ISSUER=https://… AUDIENCE=api://my-agents  accept its tokens
            [OWNER=oid SCOPE=agents.call AGENTS=a,b CLAIMS=tid PRIVATE=1]
            [INTROSPECTION=https://… CLIENT=… SECRET=…]
make issuer NAME=entra REMOVE=1                                   accept them no longer
… STACK=my-stack                                                  the same for a stack on AWS
"""

import os
import sys
from collections.abc import Mapping

from a2a_lambda.access.tokens.discovery import fetch_keys
from a2a_lambda.access.tokens.introspection import introspect
from a2a_lambda.access.tokens.issuer import Issuer, check_issuer
from a2a_lambda.access.tokens.issuer_register import IssuerRegister
from a2a_lambda.agent.configuration import Configuration, process_configuration
from a2a_lambda.errors import (
    ConfigurationError,
    ConfigurationUnavailable,
    IssuerUnreachable,
    KeysUnavailable,
    TokenRefused,
)
from tools.access.parameters import check_command, find_parameters, named_agents, require_name, stack_argument
from tools.command import reports_errors, split_names

FIELDS = (
    *("ISSUER", "AUDIENCE", "OWNER", "SCOPE", "AGENTS", "CLAIMS", "PRIVATE"),
    *("INTROSPECTION", "CLIENT", "SECRET", "REMOVE"),
)

NO_TOKEN = "asked-by-make-issuer"  # noqa: S105
"""What no issuer takes for a token of its own."""


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    client, path = find_parameters(environ)
    print(_run(IssuerRegister(client, path), environ))
    return 0


def _run(issuers: IssuerRegister, environ: Mapping[str, str]) -> str:
    """Run the command; returns what to print."""
    stack = stack_argument(environ)
    name = environ.get("NAME", "")
    if not name:
        require_name(environ, FIELDS)
        lines = "\n".join(map(_line, issuers.list()))
        example = f"make issuer NAME=entra ISSUER=https://… AUDIENCE=…{stack}"
        return lines or f"no issuers, so only keys are accepted. To add one: {example}"
    if environ.get("REMOVE"):
        issuers.remove(name)
        return f"removed {name}. Functions that have loaded it may accept its tokens for up to two minutes"
    if not environ.get("ISSUER"):
        raise ConfigurationError("add ISSUER=…: the URL that its tokens have as iss")
    issuer = Issuer(
        name=name,
        url=environ["ISSUER"],
        audiences=tuple(split_names(environ.get("AUDIENCE", ""))),
        owner_claim=environ.get("OWNER", ""),
        scopes=tuple(split_names(environ.get("SCOPE", ""))),
        agents=named_agents(environ),
        claims=tuple(split_names(environ.get("CLAIMS", ""))),
        private=bool(environ.get("PRIVATE")),
        introspection=environ.get("INTROSPECTION", ""),
        client=environ.get("CLIENT", ""),
        secret=environ.get("SECRET", ""),
    )
    check_issuer(issuer, is_local=not stack)
    for other in issuers.list():
        if other.url == issuer.url and other.name != name:
            raise ConfigurationError(
                f"{other.name} is this issuer already: remove it first, or change that one"
            )
        if issuer.introspection and other.introspection and other.name != name:
            raise ConfigurationError(
                f"{other.name} is asked about opaque tokens already. A second issuer would be asked about the"
                " tokens of the first: leave out INTROSPECTION, or remove that one"
            )
    try:
        if issuer.introspection:
            path = f"/a2a/{environ['STACK']}" if stack else ""
            secret = _configuration(path).secret(issuer.secret) if issuer.client else ""
            introspect(issuer, NO_TOKEN, lambda _: secret, allow_loopback=not stack)
            answer = "it answers questions about tokens. They are accepted within a minute"
        else:
            keys = fetch_keys(issuer, allow_loopback=not stack)
            answer = f"public keys: {len(keys)}. Its tokens are accepted within a minute"
    except IssuerUnreachable as error:
        # The functions may be in a network that reaches what this machine does not.
        answer = f"warning: {error}. It is saved, but its tokens are refused until it answers"
    except ConfigurationUnavailable as error:
        # The functions may read a secret of Secrets Manager that an operator may not.
        answer = f"warning: {error}. The issuer is saved, but was not asked"
    except (KeysUnavailable, TokenRefused) as error:
        raise ConfigurationError(str(error)) from None
    issuers.add(issuer)
    if not issuer.scopes:
        answer += ". Without SCOPE, anyone with a token for this audience may call"
    return f"{_line(issuer)}\n{answer}.\nNext: {check_command(environ, issuer.agents)} TOKEN=<token>"


def _configuration(path: str) -> Configuration:
    """Where the secrets of a deployment are, or of this machine's agents."""
    return Configuration(path) if path else process_configuration()


def _line(issuer: Issuer) -> str:
    fields = {
        "audience": ", ".join(issuer.audiences),
        "owner": issuer.owner_claim or "client or sub",
        "scopes": ", ".join(issuer.scopes) or "none",
        "agents": ", ".join(issuer.agents) or "all",
        "claims": ", ".join(issuer.claims),
        "introspection": issuer.introspection,
    }
    description = "  ".join(f"{name} {value}" for name, value in fields.items() if value)
    return f"{issuer.name:<12} {issuer.url}  {description}"


if __name__ == "__main__":
    sys.exit(main())
