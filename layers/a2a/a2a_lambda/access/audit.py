"""One log line for each sign-in that is refused, and for the first of each caller and key in a container.

docs/observability.md has the query. A line contains neither the key nor the token, and only those of the
token's claims that form the owner and the client's id.
"""

import logging

CALLERS = 10_000
"""Callers that a container remembers."""

FIELD_CHARACTERS = 512
"""Characters of a field: an issuer may call a client anything."""

logger = logging.getLogger(__name__)


logged_callers: dict[tuple[str, ...], None] = {}
"""Callers whose sign-in was logged, the oldest first."""


def log_accepted(kind: str, owner: str, issuer: str, client: str, key_name: str) -> None:
    """Log a sign-in, unless the caller is one of the last CALLERS that were logged."""
    caller = (kind, owner, issuer, client, key_name)
    if caller in logged_callers:
        return
    logged_callers[caller] = None
    if len(logged_callers) > CALLERS:
        del logged_callers[next(iter(logged_callers))]
    _log("accepted", kind, kind=kind, owner=owner, issuer=issuer, client=client, key_name=key_name)


def log_refused(kind: str, reason: str, *, issuer: str = "", client: str = "") -> None:
    """Log a refusal. kind: "key", "token", or "none" for a caller who sent neither. With the reason "scheme",
    the caller sent an Authorization of another scheme."""
    _log("refused", f"{kind}, {reason}", kind=kind, reason=reason, issuer=issuer, client=client)


def _log(outcome: str, what: str, **fields: str) -> None:
    values = {name: value[:FIELD_CHARACTERS] for name, value in fields.items() if value}
    extra = {"sign_in": outcome, **values}
    logger.info("sign-in %s (%s)", outcome, what, extra=extra)
