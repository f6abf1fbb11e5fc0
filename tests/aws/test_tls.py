"""The hot path over TLS: which services it trusts."""

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import SSLError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from a2a_lambda.aws.lean import connections
from a2a_lambda.aws.lean.connections import Connections
from a2a_lambda.aws.limits import Timeouts

TIMEOUTS = Timeouts(connect=60, read=60)


class Authority:
    """A certificate authority as old as some firewalls': its certificates do not name their keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority")])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        self.bundle = folder / "bundle.pem"
        self.bundle.write_bytes(self._sign(self._name, self._key, basic))

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: Any) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )
        return builder.public_bytes(serialization.Encoding.PEM)

    def context(self, *names: x509.GeneralName) -> ssl.SSLContext:
        """Of a server with these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        certificate = self._sign(name, key, x509.SubjectAlternativeName(names))
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / "server.pem"
        file.write_bytes(certificate + private)
        tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls_context.load_cert_chain(file)
        return tls_context


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    new_authority = Authority(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(new_authority.bundle))
    connections.aws_tls_context.cache_clear()
    yield new_authority
    connections.aws_tls_context.cache_clear()


@pytest.fixture
def serve() -> Iterator[Callable[[ssl.SSLContext], str]]:
    servers: list[HTTPServer] = []

    def start(context: ssl.SSLContext) -> str:
        server = HTTPServer(("127.0.0.1", 0), Answering)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"https://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        with suppress(OSError):
            server.shutdown()


LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


def test_a_service_of_a_trusted_authority_is_called(
    authority: Authority, serve: Callable[[ssl.SSLContext], str]
) -> None:
    client = Connections(serve(authority.context(LOOPBACK)), TIMEOUTS)
    for body in (b"1", b"2"):
        assert client.post({"host": client.host}, body).body == body


def test_another_name_is_refused(authority: Authority, serve: Callable[[ssl.SSLContext], str]) -> None:
    client = Connections(serve(authority.context(x509.DNSName("other.example.com"))), TIMEOUTS)
    with pytest.raises(SSLError):
        client.post({"host": client.host}, b"secret")


def test_another_authority_is_refused(
    authority: Authority,
    serve: Callable[[ssl.SSLContext], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = serve(authority.context(LOOPBACK))
    monkeypatch.delenv("AWS_CA_BUNDLE")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    connections.aws_tls_context.cache_clear()
    client = Connections(url, TIMEOUTS)
    with pytest.raises(SSLError):
        client.post({"host": client.host}, b"secret")
