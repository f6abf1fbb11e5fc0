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
from collections.abc import Iterable, Mapping
from dataclasses import replace

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.tokens.discovery import fetch_keys, find_metadata
from a2a_lambda.access.tokens.introspection import introspect
from a2a_lambda.access.tokens.issuer_keys import TOKEN_ALGORITHMS, count_usable
from a2a_lambda.agent.configuration import Configuration, process_configuration
from a2a_lambda.errors import (
    ConfigurationError,
    ConfigurationUnavailable,
    IssuerUnreachable,
    KeysUnavailable,
    TokenRefused,
)
from tools.access.parameters import check_command, find_parameters, named_agents, stack_argument
from tools.command import reports_errors, require_name, split_names
from tools.registers.issuer_checks import check_issuer
from tools.registers.issuers import IssuerRegister

ISSUER_FIELDS = (
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
        require_name(environ, ISSUER_FIELDS)
        lines = "\n".join(map(_line, issuers.list()))
        example = f"make issuer NAME=entra ISSUER=https://… AUDIENCE=…{stack}"
        return lines or f"no issuers, so only keys are accepted. To add one: {example}"
    if environ.get("REMOVE"):
        issuers.remove(name)
        return f"removed {name}. Functions that have loaded it may accept its tokens for up to two minutes"
    issuer = _issuer_of(name, environ)
    check_issuer(issuer, is_local=not stack)
    _check_others(issuer, issuers.list())
    issuer, answer = _ask(issuer, environ, is_local=not stack)
    issuers.add(issuer)
    if not issuer.scopes:
        answer += ". Without SCOPE, anyone with a token for this audience may call"
    return f"{_line(issuer)}\n{answer}.\nNext: {check_command(environ, issuer.agents)} TOKEN=<token>"


def _issuer_of(name: str, environ: Mapping[str, str]) -> Issuer:
    """The issuer that the command's variables describe. Raises ConfigurationError."""
    if not environ.get("ISSUER"):
        raise ConfigurationError("add ISSUER=…: the iss claim of its tokens")
    return Issuer(
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


def _check_others(issuer: Issuer, others: Iterable[Issuer]) -> None:
    """Raises ConfigurationError if an issuer cannot be saved beside the others."""
    for other in others:
        if other.name == issuer.name and other.url != issuer.url:
            raise ConfigurationError(
                f"{other.name} has another ISSUER, {other.url}. Owners of tasks begin with {other.name}, so"
                " callers of the new one could get tasks of the old: choose another NAME. If no one has"
                " signed in with the old one, or both identify people in the same way, remove"
                f" {other.name} first"
            )
        if other.url == issuer.url and other.name != issuer.name:
            raise ConfigurationError(
                f"{other.name} already has this ISSUER: change it with NAME={other.name}, or remove it first"
            )
        if issuer.introspection and other.introspection and other.name != issuer.name:
            raise ConfigurationError(
                f"{other.name} has INTROSPECTION already, and only one issuer can, because an opaque token"
                f" does not name its issuer: leave out INTROSPECTION, or remove {other.name}"
            )


def _ask(issuer: Issuer, environ: Mapping[str, str], *, is_local: bool) -> tuple[Issuer, str]:
    """Ask an issuer what a deployment will ask it; returns the issuer with the place of its metadata, and
    what it said. Raises ConfigurationError if no token of it could be accepted."""
    try:
        if issuer.introspection:
            answer = _ask_about_a_token(issuer, environ)
        else:
            answer = _ask_for_keys(issuer, is_local=is_local)
    except IssuerUnreachable as error:
        # The functions may be in a network that reaches what this machine does not.
        return issuer, f"warning: {error}. It is saved, but its tokens are refused until it answers"
    except ConfigurationUnavailable as error:
        # The functions may read a secret of Secrets Manager that an operator may not.
        return issuer, f"warning: {error}. The issuer is saved, but was not asked"
    except TokenRefused:  # some issuers refuse the question because of what is asked about
        return issuer, (
            "warning: the introspection endpoint rejected a test request; the issuer is saved. Check that"
            " INTROSPECTION is the URL of its introspection endpoint"
        )
    try:
        url = find_metadata(issuer, allow_loopback=is_local)
    except KeysUnavailable as error:
        return issuer, f"{answer}. Warning: clients cannot sign in by the metadata of ISSUER: {error}"
    return (issuer if url == issuer.openid_url else replace(issuer, metadata=url)), answer


def _ask_for_keys(issuer: Issuer, *, is_local: bool) -> str:
    """Says how many usable keys an issuer has. Raises KeysUnavailable; ConfigurationError if it has no such
    key."""
    jwks = fetch_keys(issuer, allow_loopback=is_local)
    count = count_usable(issuer, jwks)
    if not count:
        raise ConfigurationError(
            f"the issuer has no public key for {', '.join(TOKEN_ALGORITHMS)}, so no token could be checked"
        )
    return f"public keys: {count}. Its tokens are accepted within a minute"


def _ask_about_a_token(issuer: Issuer, environ: Mapping[str, str]) -> str:
    """Says that an issuer answers questions about tokens. Raises KeysUnavailable, TokenRefused,
    ConfigurationError, ConfigurationUnavailable."""
    stack = environ.get("STACK", "")
    # Where the secrets of a deployment are, or of this machine's agents.
    configuration = Configuration(f"/a2a/{stack}") if stack else process_configuration()
    secret = configuration.secret(issuer.secret) if issuer.client else ""
    introspect(issuer, NO_TOKEN, lambda _: secret, allow_loopback=not stack)
    return "it answers questions about tokens. Its tokens are accepted within a minute"


def _line(issuer: Issuer) -> str:
    fields = {
        "audience": ", ".join(issuer.audiences),
        "owner": issuer.owner_claim or "client or sub",
        "scopes": ", ".join(issuer.scopes) or "none",
        "agents": ", ".join(issuer.agents) or "all",
        "claims": ", ".join(issuer.claims),
        "introspection": issuer.introspection,
        "client": issuer.client,
        "secret": issuer.secret,
        "private": "1" if issuer.private else "",
    }
    description = "  ".join(f"{name} {value}" for name, value in fields.items() if value)
    return f"{issuer.name:<12} {issuer.url}  {description}"


if __name__ == "__main__":
    sys.exit(main())
