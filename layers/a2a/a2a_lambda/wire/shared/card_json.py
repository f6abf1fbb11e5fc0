"""Agent cards of every version and platform, from one card.yaml.

Sources: https://a2a-protocol.org/v0.2.5/specification section 5.5, v0.3.0 section 5.5, v1.0.0 section
4.4; v0.1.0 specification/json/a2a.json; the platforms' own tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_lambda.protocol.alibaba_metadata import INTENT_EXTENSION, PROTOCOL_EXTENSION
from a2a_lambda.protocol.card import Card
from a2a_lambda.wire.shared.fields import Object, without

SECURITY_SCHEMES: Mapping[str, Object] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

SECURITY_SCHEMES_1_0: Mapping[str, Object] = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
    "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
}

MCP_EXTENSION = "urn:a2a-lambda:mcp"
"""Says where the agent's skills are tools of MCP. Its params have `url`."""

UPLOADS_EXTENSION = "urn:a2a-lambda:uploads"
"""Says where a client uploads a file that is too large for a message. Its params: `url`, `maxBytes`."""

APPBUILDER_SCHEME: Object = {
    "type": "apiKey",
    "in": "header",
    "name": "Authorization",
    "description": "Bearer <API Key>",
}


TEXT_MODES = ["text/plain"]

ABOUT = {"provider", "documentationUrl", "iconUrl"}
"""Fields of a card that are written as they are, if the agent has them."""

MODE_FIELDS = {"defaultInputModes", "defaultOutputModes"}

JSON_MODE = "application/json"
"""Media type of a skill's arguments, which it takes in addition to the agent's modes."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """An issuer whose tokens are accepted. scopes: scopes that a token needs.

    metadata_url: URL of the issuer's metadata: OpenID Connect's, or that of RFC 8414, which has the same
    fields, because a card of 0.3 has no other place for it.
    """

    name: str
    metadata_url: str
    scopes: Sequence[str]

    @property
    def scheme(self) -> str:
        """Name of its security scheme."""
        return f"openIdConnect-{self.name}"


@dataclass(frozen=True, slots=True)
class Description:
    """What a card is made from.

    name: name of the agent. base: URL of the deployment, without a trailing slash. is_root: the agent answers
    at the base.
    input_schemas: JSON Schema by skill id. sign_ins: the issuers whose tokens are accepted; None =
    they cannot be read now. upload_bytes: bytes of the largest file that may be uploaded; 0 = none may.
    repeat_seconds: seconds for which the same bytes are the same request.
    """

    card: Card
    name: str
    base: str
    is_root: bool
    input_schemas: dict[str, Object]
    sign_ins: Sequence[SignIn] | None = ()
    upload_bytes: int = 0
    repeat_seconds: float = 0

    @property
    def http(self) -> str:
        """URL of the HTTP+JSON interface. Its clients append paths."""
        return self.base if self.is_root else f"{self.base}/a2a/{self.name}"

    @property
    def rpc(self) -> str:
        return f"{self.base}/" if self.is_root else self.http


def v0_2_5(source: Description) -> Object:
    """Card of 0.2.5 and 0.2.6, and of 0.1: the others ignore its `authentication`."""
    return {
        **_v0_2(source),
        "authentication": {"schemes": ["ApiKey", "Bearer"]},
    }


def v0_3_0(source: Description) -> Object:
    interfaces = [
        {"url": source.rpc, "transport": "JSONRPC"},
        {"url": source.http, "transport": "HTTP+JSON"},
    ]
    return {**_v0_2(source), "protocolVersion": "0.3.0", "additionalInterfaces": interfaces}


def v1_0(source: Description) -> Object:
    """The strict card: it has only fields of 1.0, and none with its default value."""
    card = source.card
    sign_ins = {
        sign_in.scheme: {"openIdConnectSecurityScheme": {"openIdConnectUrl": sign_in.metadata_url}}
        for sign_in in source.sign_ins or ()
    }
    return {
        "name": card.name,
        "description": card.description,
        "supportedInterfaces": [  # the newest version first, because a client uses the first that it knows
            {"url": url, "protocolBinding": binding, "protocolVersion": version}
            for version in ("1.0", "0.3")
            for binding, url in (("JSONRPC", source.rpc), ("HTTP+JSON", source.http))
        ],
        **source.card.model_dump(include=ABOUT, exclude_none=True),
        "version": card.version,
        "capabilities": {
            **card.capabilities.model_dump(),
            "extensions": [*_extensions(source), *_mcp_extension(source), *uploads_extension(source)],
            "extendedAgentCard": card.extended is not None,
        },
        "securitySchemes": {**sign_ins, **SECURITY_SCHEMES_1_0},
        "securityRequirements": [
            {"schemes": {name: {"list": scopes} if scopes else {}}} for name, scopes in requirements(source)
        ],
        **source.card.model_dump(include=MODE_FIELDS),
        "skills": _skills(source),
    }


def hybrid(source: Description) -> Object:
    """One card for 0.3.0 and 1.0. A client reads its own fields and ignores the others."""
    older, newer = v0_3_0(source), v1_0(source)
    both_schemes = {name: scheme | newer["securitySchemes"][name] for name, scheme in schemes(source).items()}
    capabilities = {**older["capabilities"], **newer["capabilities"]}
    return {
        **older,
        **newer,
        "capabilities": capabilities,
        "securitySchemes": both_schemes,
        # With lists that are empty, without which a2a-rs reads no card. The strict card, which is signed,
        # omits them, as it does all default values.
        "securityRequirements": [
            {"schemes": {name: {"list": scopes}}} for name, scopes in requirements(source)
        ],
    }


def hybrid_for_go(source: Description) -> Object:
    """The hybrid card without 1.0's security requirements, whose form a2a-go up to 2.3.1 cannot read. Those
    of 0.3 remain, in `security`. The form that it reads would be wrong for a version that keeps to the
    specification, and no header shows which version asks.

    Source: https://github.com/a2aproject/a2a-go/issues/430
    """
    return without(hybrid(source), ("securityRequirements",))


def alibaba(source: Description) -> Object:
    """In the console's table, `security` is a list of strings. An empty list is valid in both forms. The
    suite takes and sends text only, whatever the agent can do."""
    url = f"{source.base}/alibaba" if source.is_root else f"{source.base}/alibaba/{source.name}"
    capabilities: dict[str, Any] = {
        "streaming": source.card.capabilities.streaming,
        "extensions": _extensions(source),
    }
    modes = {"defaultInputModes": TEXT_MODES, "defaultOutputModes": TEXT_MODES}
    skills = [
        {key: value for key, value in skill.items() if key not in ("inputModes", "outputModes")}
        for skill in _skills(source)
    ]
    card = _v0_2(source)
    return {**card, "url": url, "capabilities": capabilities, "security": [], **modes, "skills": skills}


def qianfan(source: Description) -> Object:
    """AppBuilder requires `provider`."""
    provider = {"organization": source.card.name, "url": source.base}
    return {
        "name": source.card.name,
        "description": source.card.description,
        "protocolVersion": "0.2.6",
        "url": f"{source.base}/v2/a2a/{source.name}",
        "version": source.card.version,
        "provider": provider,
        **source.card.model_dump(include=ABOUT, exclude_none=True),
        "capabilities": {"streaming": source.card.capabilities.streaming},
        "securitySchemes": {"apiKeyAuth": APPBUILDER_SCHEME},
        "security": [{"apiKeyAuth": []}],
        **source.card.model_dump(include=MODE_FIELDS),
        "skills": _skills(source),
    }


def _v0_2(source: Description) -> Object:
    capabilities: Object = {
        **source.card.capabilities.model_dump(),
        "stateTransitionHistory": False,
        "extensions": [*_extensions(source), *_mcp_extension(source), *uploads_extension(source)],
    }
    return {
        "name": source.card.name,
        "description": source.card.description,
        "protocolVersion": "0.2.5",
        "url": source.rpc,
        "preferredTransport": "JSONRPC",
        "version": source.card.version,
        "capabilities": capabilities,
        "securitySchemes": schemes(source),
        "security": [{name: scopes} for name, scopes in requirements(source)],
        "supportsAuthenticatedExtendedCard": source.card.extended is not None,
        **source.card.model_dump(include=ABOUT, exclude_none=True),
        **source.card.model_dump(include=MODE_FIELDS),
        "skills": _skills(source),
    }


def schemes(source: Description) -> dict[str, Object]:
    """Security schemes in the form of OpenAPI, which 0.2 and 0.3 have, too."""
    sign_ins = {
        sign_in.scheme: {"type": "openIdConnect", "openIdConnectUrl": sign_in.metadata_url}
        for sign_in in source.sign_ins or ()
    }
    return {**sign_ins, **SECURITY_SCHEMES}


def requirements(source: Description) -> list[tuple[str, list[str]]]:
    """Alternatives: the name of a scheme, and its scopes."""
    sign_ins = [(sign_in.scheme, list(sign_in.scopes)) for sign_in in source.sign_ins or ()]
    return [*sign_ins, *((name, []) for name in SECURITY_SCHEMES)]


def _skills(source: Description) -> list[Object]:
    skills = [
        skill.model_dump(exclude_none=True, exclude={"durable", "mcp", "annotations"})
        for skill in source.card.skills
    ]
    for skill in skills:
        modes = skill.get("inputModes") or source.card.defaultInputModes
        if skill["id"] in source.input_schemas and JSON_MODE not in modes:
            skill["inputModes"] = [*modes, JSON_MODE]
        # A required array is not empty (1.0 section 5.7).
        skill["tags"] = skill["tags"] or [skill["name"].lower()]
    return [{key: value for key, value in skill.items() if value} for skill in skills]


def _mcp_extension(source: Description) -> list[Object]:
    """The extension for MCP, if the agent shows a tool."""
    if not source.card.mcp or not any(skill.mcp for skill in source.card.skills):
        return []
    url = f"{source.base}/mcp" if source.is_root else f"{source.base}/mcp/{source.name}"
    return [{"uri": MCP_EXTENSION, "description": "The skills as tools of MCP", "params": {"url": url}}]


def uploads_extension(source: Description) -> list[Object]:
    """The extension for uploads, if the agent takes files."""
    modes = [
        *source.card.defaultInputModes,
        *(mode for skill in source.card.skills for mode in skill.inputModes or ()),
    ]
    if not source.upload_bytes or {*modes} <= {*TEXT_MODES, JSON_MODE}:
        return []
    params = {"url": f"{source.http}/uploads", "maxBytes": source.upload_bytes}
    return [
        {"uri": UPLOADS_EXTENSION, "description": "Files that are too large for messages", "params": params}
    ]


def _extensions(source: Description) -> list[Object]:
    skills = [{"id": skill, "inputSchema": schema} for skill, schema in source.input_schemas.items()]
    card_extensions = [extension.model_dump(exclude_none=True) for extension in source.card.extensions]
    return [
        {"uri": PROTOCOL_EXTENSION, "description": "User, device, location, images; commands", "params": {}},
        {"uri": INTENT_EXTENSION, "description": "Skills called with slots", "params": {"skills": skills}},
        *(
            {key: value for key, value in extension.items() if value is not False}
            for extension in card_extensions
        ),
    ]
