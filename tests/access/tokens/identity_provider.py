"""An identity provider on this machine, whose keys and answers a test decides."""

import base64
import itertools
import json
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from joserfc import jwk, jws
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from a2a_lambda.access.issuer import Issuer

AUDIENCE = "api://agents"

RSA_KEYS = 8
"""Number of RSA keys that the providers of all tests share, because making one takes some 0.1 s."""

_key_numbers = itertools.count()


@cache
def _private_key(number: int) -> Any:
    return jwk.RSAKey.generate_key(2048).as_dict(private=True)


class IdentityProvider:
    """fetches: paths that were asked for, in order. answers: whether it answers at all."""

    def __init__(self, server: HTTPServer) -> None:
        self.server = server
        self.path = f"/idp-{uuid.uuid4().hex[:8]}"
        self.url = server.url_for(self.path)
        self.fetches: list[str] = []
        self.answers = True
        self.metadata: Any = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.keys: list[Any] = []
        self.rotate()
        server.expect_request(f"{self.path}/.well-known/openid-configuration").respond_with_handler(
            lambda request: self._answer(request, self.metadata)
        )
        server.expect_request(f"{self.path}/keys").respond_with_handler(
            lambda request: self._answer(request, {"keys": [self.publish(key) for key in self.keys]})
        )

    def introspect(self, answer: Callable[[Request], tuple[int, Any]], name: str = "introspect") -> str:
        """Answer questions about tokens; returns the url (RFC 7662)."""
        path = f"{self.path}/{name}"

        def handle(request: Request) -> Response:
            self.fetches.append(f"/{name}")
            status, content = answer(request)
            return Response(json.dumps(content), status, content_type="application/json")

        self.server.expect_request(path).respond_with_handler(handle)
        return str(self.server.url_for(path))

    def _answer(self, request: Request, content: Any) -> Response:
        self.fetches.append(request.path.removeprefix(self.path))
        if not self.answers:
            return Response("", 503)
        return Response(json.dumps(content), content_type="application/json")

    def publish(self, key: Any) -> Any:
        return {**key.as_dict(private=False), "kid": key.kid, "use": "sig"}

    def rotate(self, kind: str = "RSA") -> None:
        """Sign with a new key from now on. The old ones stay published."""
        options: Any = {"kid": uuid.uuid4().hex}
        match kind:
            case "RSA":
                private_key = _private_key(next(_key_numbers) % RSA_KEYS)
                new_key: Any = jwk.RSAKey.import_key({**private_key, **options})
            case "EC":
                new_key = jwk.ECKey.generate_key("P-256", options)
            case _:
                new_key = jwk.OKPKey.generate_key("Ed25519", options)
        self.keys.append(new_key)

    def issuer(self, **fields: Any) -> Issuer:
        """As an operator adds it."""
        return Issuer(**{"name": "idp", "url": self.url, "audiences": (AUDIENCE,), **fields})

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims of a program's own access token. None removes one."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "robot",
            "client_id": "robot",
            "scope": "agents.call agents.read",
            "iat": now,
            "exp": now + 600,
        }
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}

    def token(self, header: dict[str, Any] | None = None, key: Any = None, **changes: Any) -> str:
        """A signed access token."""
        key = key or self.keys[-1]
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[key.key_type]
        fields = {"alg": algorithm, "kid": key.kid, "typ": "at+jwt", **(header or {})}
        fields = {name: value for name, value in fields.items() if value is not None}
        return self.sign(fields, json.dumps(self.claims(**changes)).encode(), key)

    def sign(self, header: dict[str, Any], payload: bytes, key: Any) -> str:
        names = [header["alg"]]
        registry = jws.JWSRegistry(algorithms=names, strict_check_header=False)
        registry.header_registry = {}
        return jws.serialize_compact(header, payload, key, algorithms=names, registry=registry)


def part(value: Any) -> str:
    """A part of a token, not signed."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(body).decode().rstrip("=")
