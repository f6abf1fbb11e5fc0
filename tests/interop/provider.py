"""oidc-provider, a certified OpenID provider, in a process: a program's client, and one for people."""

import base64
import hashlib
import json
import os
import secrets
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from joserfc import jwk

from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.processes.servers import process
from tools.build.built_functions import free_port

NODE_MODULES = ROOT / ".venvs" / "js" / "node_modules"

RESOURCE = "https://agents.example.com/"

OPAQUE_RESOURCE = "https://opaque.example.com/"
"""Tokens for it are opaque."""

REDIRECT = "http://127.0.0.1:9/callback"


def new_key() -> Any:
    options: Any = {"kid": uuid.uuid4().hex, "use": "sig", "alg": "RS256"}
    return jwk.RSAKey.generate_key(2048, options).as_dict(private=True)


class Provider:
    """issuer: `iss` of its tokens; by default the url at which it is."""

    def __init__(self, folder: Path, issuer: str = "") -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.issuer = issuer or self.url
        self.secret = secrets.token_urlsafe(32)
        self.keys = [new_key()]

    @contextmanager
    def running(self) -> Iterator[None]:
        program = {
            "client_id": "program",
            "client_secret": self.secret,
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }
        app = {
            "client_id": "app",
            "token_endpoint_auth_method": "none",
            "redirect_uris": [REDIRECT],
            "application_type": "native",
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
        }
        (self.folder / "clients.json").write_text(json.dumps([program, app]))
        (self.folder / "jwks.json").write_text(json.dumps({"keys": self.keys}))
        script = self.folder / "identity_server.mjs"
        script.write_text((ROOT / "tests/interop/identity_server.mjs").read_text())
        link = self.folder / "node_modules"
        if not link.exists():
            link.symlink_to(NODE_MODULES)
        files = [str(self.folder / name) for name in ("clients.json", "jwks.json")]
        command = ["node", str(script), self.issuer, str(self.port), *files]
        with process(command, f"{self.url}/.well-known/openid-configuration"):
            yield

    def token_of_program(self, **fields: str) -> Any:
        """Client credentials (RFC 6749 section 4.4)."""
        form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "agents.call", **fields}
        login = ("program", self.secret)
        return httpx2.post(f"{self.url}/token", data=form, auth=login, timeout=PATIENCE_SECONDS).json()

    def token_of_person(self, name: str, resource: str = RESOURCE) -> Any:
        """Authorization code with PKCE (RFC 7636), in the browser of a person who signs in and consents."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "client_id": "app",
            "redirect_uri": REDIRECT,
            "response_type": "code",
            "scope": "openid agents.call",
            "resource": resource,
            "nonce": "n",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        with httpx2.Client(timeout=PATIENCE_SECONDS) as browser:
            answer = browser.get(f"{self.url}/auth", params=query)
            for form in ({"prompt": "login", "login": name, "password": "x"}, {"prompt": "consent"}):
                page = urljoin(self.url, answer.headers["location"])
                answer = browser.post(page, data=form)
                answer = browser.get(urljoin(self.url, answer.headers["location"]))
            [code] = parse_qs(urlsplit(answer.headers["location"]).query)["code"]
            form = {
                "grant_type": "authorization_code",
                "client_id": "app",
                "code": code,
                "redirect_uri": REDIRECT,
                "code_verifier": verifier,
                "resource": resource,
            }
            return browser.post(f"{self.url}/token", data=form).json()


def run_client(*command: str) -> Any:
    """What a client prints, in an environment of its own."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)
