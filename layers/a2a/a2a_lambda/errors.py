"""The exceptions that more than one folder of the kit knows. KitError is their root.

A `ProtocolError` is an answer to a client. It has a JSON-RPC code and message of the A2A specification
(https://a2a-protocol.org/v0.3.0/specification, section 8), and the path of the wrong field if there is
one. Of the others, a SkillError's text is for the client, a StoreError becomes `Unavailable`, and the rest
are for the operator: the client gets an `InternalError`.
"""

import math
from collections.abc import Collection, Mapping

EXCERPT_CHARACTERS = 100


def excerpt(text: str) -> str:
    """Text that someone else has written, as a message quotes it: text that is too long ends with "…"."""
    return text if len(text) <= EXCERPT_CHARACTERS else text[:EXCERPT_CHARACTERS] + "…"


class KitError(Exception):
    """Root of every exception of this package.

    safe_to_log: its text holds ids at most, so it may be logged.
    """

    safe_to_log = False


def is_safe_to_log(error: BaseException) -> bool:
    """Whether a log may have an error's text. Other texts may hold what clients and agents have said."""
    return isinstance(error, KitError) and error.safe_to_log


def safe_text(error: Exception) -> str:
    """What a log may have of an error: its text, or only its type."""
    return str(error) if is_safe_to_log(error) else type(error).__name__


def only_error(error: BaseException) -> BaseException:
    """The error in a group that has one alone, as a TaskGroup makes it; else the error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        [error] = error.exceptions
    return error


def error_text(error: BaseException) -> str:
    """The text of an error that an agent's code has raised; "" if its `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return ""


class ConfigurationError(KitError):
    """A card, an agent's module, a setting or the template is wrong. The text names the file and the fix."""

    safe_to_log = True


class ImportFailed(ConfigurationError):
    """An agent's code raised an error while the agent was imported. summary: the part of the text that a log
    may have. details: the rest, from the error, which may hold a secret, such as the URL of a database."""

    safe_to_log = False

    def __init__(self, summary: str, details: str) -> None:
        super().__init__(summary + details)
        self.summary = summary


class SkillError(KitError):
    """Raise it in a skill to end the task as failed, with a message that the client may read."""


class LimitExceeded(SkillError):
    """A turn outputs more than the kit stores, or waits for more. The client gets the text, as with every
    SkillError."""


class AgentMistake(KitError):
    """An agent's code has given the kit what it cannot use. The text says what to write instead."""

    safe_to_log = True


class MemoryFull(SkillError):
    """`turn.memory` has no room for a value. Delete or shorten something, or let the error end the turn."""


class CodeChanged(SkillError):
    """A replay of a durable turn took a different path than the earlier run, because its agent was changed
    meanwhile, or because its code depends on something that changes, such as the time. what: the
    difference."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"This task cannot continue: {what}. Its agent was changed, or the code depends on something that"
            " changes, such as the time: compute that in a step. See docs/long-running.md, Replays."
        )
        self.what = what


class StepFailed(KitError):
    """A step of a durable turn, or a branch, failed for good. name: the step's name, or that of the branch,
    such as parallel/0. kind: name of the exception's type. text: the exception's text."""

    def __init__(self, name: str, kind: str, text: str) -> None:
        part = "branch" if "/" in name else "step"
        super().__init__(f"{part} {name!r} failed with {kind}: {text}")
        self.name, self.kind, self.text = name, kind, text


class StoreError(KitError):
    """The table could not be read or written. No item is half-written."""

    safe_to_log = True


class FilesUnavailable(StoreError):
    """The bucket did not take a file, or did not give it. No file is half-written."""


class FileAbsent(KitError):
    """The bucket has no such file: it has expired, was erased, or was never there."""

    safe_to_log = True


class WriteRefused(KitError):
    """DynamoDB refused a write: it is too large, or not valid. A retry cannot help."""

    safe_to_log = True


class ConfigurationUnavailable(KitError):
    """Parameter Store or Secrets Manager did not give an agent its secret or setting. The text has the name
    and AWS's error code."""

    safe_to_log = True


class KeysUnavailable(KitError):
    """Parameter Store, the table or an issuer did not answer, or its answer cannot be used, so a key or a
    token can be neither accepted nor refused."""

    safe_to_log = True


class TokenRefused(KitError):
    """A token that is not accepted. The text says why, in words that its sender may read.

    reason: one word, for the log. scopes: the scopes that it needs, if it lacks one. issuer, client: the
    issuer's name, and the application, as far as the token proved them.
    """

    safe_to_log = True

    def __init__(self, reason: str, text: str, *, scopes: Collection[str] = ()) -> None:
        super().__init__(text)
        self.reason, self.scopes = reason, scopes
        self.issuer = self.client = ""

    def copy(self) -> "TokenRefused":
        """The same refusal, for another request. An error that was raised holds its frames, and with them the
        token."""
        error = TokenRefused(self.reason, str(self), scopes=self.scopes)
        error.issuer, error.client = self.issuer, self.client
        return error


class IssuerDown(KeysUnavailable):
    """An issuer answers no question about tokens at the moment, whichever token it is about."""


class IssuerUnreachable(IssuerDown):
    """An issuer of tokens cannot be reached from this machine."""


class ProtocolError(KitError):
    """A JSON-RPC error object.

    code: JSON-RPC error code. status: HTTP status of the answer. retry_seconds: after how many seconds the
    client may try again, or None.
    path: JSON path of the wrong field, such as `params.message.parts[0].kind`, or None.
    """

    code = -32603
    status = 200
    title = "Internal error"
    retry_seconds: int | None = None

    def __init__(self, detail: str = "", *, path: str | None = None) -> None:
        super().__init__(f"{self.title}: {detail}" if detail else self.title)
        self.path = path

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers of the answer."""
        return {} if self.retry_seconds is None else {"Retry-After": str(self.retry_seconds)}


class ParseError(ProtocolError):
    code, title = -32700, "Invalid JSON payload"


class InvalidRequest(ProtocolError):
    code, title = -32600, "Request payload validation error"


class MethodNotFound(ProtocolError):
    code, title = -32601, "Method not found"


class InvalidParams(ProtocolError):
    code, title = -32602, "Invalid parameters"


class InternalError(ProtocolError):
    """The server failed. The text never holds the cause; the log does."""


class TaskNotFound(ProtocolError):
    code, title = -32001, "Task not found"


class TaskNotCancelable(ProtocolError):
    code, title = -32002, "Task cannot be canceled"


class PushNotificationNotSupported(ProtocolError):
    code, title = -32003, "Push Notification is not supported"


class UnsupportedOperation(ProtocolError):
    code, title = -32004, "This operation is not supported"


class StreamingNotSupported(UnsupportedOperation):
    """The agent's card says that the agent does not stream."""


class ContentTypeNotSupported(ProtocolError):
    code, title = -32005, "Incompatible content types"


class ExtendedAgentCardNotConfigured(ProtocolError):
    code, title = -32007, "Authenticated Extended Card is not configured"


class ExtensionSupportRequired(ProtocolError):
    code, title = -32008, "Extension support is required"


class VersionNotSupported(ProtocolError):
    code, title = -32009, "Protocol version is not supported"


class UnsupportedMediaType(ContentTypeNotSupported):
    """The body of the HTTP request is not JSON. The status is from A2A 1.0.1 section 5.4."""

    status = 400


class RequestTooLarge(InvalidRequest):
    status, title = 413, "Request too large"


class RouteNotFound(InvalidRequest):
    status, title = 404, "Not found"


class MethodNotAllowed(InvalidRequest):
    """The URL is served, but not for this method of HTTP. methods: those for which it is."""

    status, title = 405, "HTTP method not allowed"

    def __init__(self, method: str, methods: Collection[str]) -> None:
        self._methods = ", ".join(methods)
        super().__init__(f"{excerpt(method)} is not allowed here. Allowed: {self._methods}")

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Allow": self._methods}


class Unauthenticated(InvalidRequest):
    """No key and no token, or one that is not valid. RFC 9110 section 11.6.1 requires the challenge.

    metadata_url: where a client learns which issuers are accepted (RFC 9728 section 5.1); "" = none is.
    is_token: the caller sent a token (RFC 6750 section 3.1).
    """

    status, title = 401, "Authentication required"

    def __init__(self, detail: str = "", *, is_token: bool = False) -> None:
        super().__init__(detail)
        self.metadata_url = ""
        self._is_token = is_token

    @property
    def headers(self) -> Mapping[str, str]:
        challenge = 'Bearer realm="a2a"'
        if self._is_token:
            challenge += ', error="invalid_token"'
        return {"WWW-Authenticate": f'{challenge}{_pointer(self.metadata_url)}, ApiKey realm="a2a"'}


class Forbidden(InvalidRequest):
    status, title = 403, "This caller may not call this agent"


class InsufficientScope(Forbidden):
    """A token without the scopes that the deployment, or an agent, requires (RFC 6750 section 3.1)."""

    title = "The token lacks a scope"

    def __init__(self, detail: str, scopes: Collection[str]) -> None:
        super().__init__(f"{detail} requires {' '.join(scopes)}")
        self.scopes = scopes
        self.metadata_url = ""

    @property
    def headers(self) -> Mapping[str, str]:
        scopes = " ".join(self.scopes)
        challenge = f'Bearer realm="a2a", error="insufficient_scope", scope="{scopes}"'
        return {"WWW-Authenticate": challenge + _pointer(self.metadata_url)}


def _pointer(metadata_url: str) -> str:
    return f', resource_metadata="{metadata_url}"' if metadata_url else ""


class TooManyCalls(ProtocolError):
    """The owner has as many streams, followers and long sends as it may have."""

    status, title, retry_seconds = 429, "Too many calls at once", 5


class TooManyRequests(ProtocolError):
    """The owner has made as many requests as it may make. after: seconds until it may make more."""

    status, title = 429, "Too many requests"

    def __init__(self, detail: str, *, after: float) -> None:
        super().__init__(detail)
        self.retry_seconds = max(1, math.ceil(after))


class NotWaiting(ProtocolError):
    """The durable turn is not waiting for this reply: it has not got that far, or has stopped waiting."""

    status, title, retry_seconds = 409, "Not waiting", 60


class WaitIsOver(InvalidRequest):
    """The wait has had its reply, or its timeout."""

    status, title = 410, "Gone"


class NotFromOrigin(InvalidRequest):
    """The request did not come through the deployment's CDN."""

    status, title = 403, "The request did not come through the public address"


class Unavailable(ProtocolError):
    """A service that the kit uses did not answer in time. The client may try again."""

    status, title, retry_seconds = 503, "Service unavailable", 1
