"""Records what commands ask of AWS, to evaluate who may ask it: the emulator allows everything.

make … ── Recorder (on loopback) ── the emulator
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Set
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.loaders import Loader

from tests.template.permissions.rendering import ACCOUNT, REGION

SERVICES = {"monitoring": "cloudwatch"}
"""Names of services in botocore and in IAM's actions, where requests are signed with another."""

HOP = {"connection", "transfer-encoding", "keep-alive", "expect"}
"""Headers of one connection, which a proxy does not pass on."""

ACTIONS = {
    "lambda:Invoke": "lambda:InvokeFunction",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:DeleteObjects": "s3:DeleteObject",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:GetBucketLifecycle": "s3:GetLifecycleConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    **dict.fromkeys(
        ("s3:CreateMultipartUpload", "s3:UploadPart", "s3:CompleteMultipartUpload"), "s3:PutObject"
    ),
}
"""IAM's actions, where they are not the operation's name.
Source: https://docs.aws.amazon.com/service-authorization/latest/reference/"""


NAMED = {
    ("lambda", "FunctionName"): ("function:{}", r".*function:"),
    ("lambda", "UUID"): ("event-source-mapping:{}", ""),
    ("cloudformation", "StackName"): ("stack/{}/id", r".*:stack/|/.*"),
    ("dynamodb", "TableName"): ("table/{}", r".*table/"),
    ("dynamodb", "StreamArn"): ("table/{}", r".*:table/"),
    ("dynamodb", "ShardIterator"): (
        "table/a2a-dev-Table/stream/label",
        "",
    ),  # it is opaque: of the stack's one
    ("sqs", "QueueUrl"): ("{}", r".*/"),
    ("sqs", "SourceArn"): ("{}", r".*:"),
    **dict.fromkeys((("ssm", "Name"), ("ssm", "Names"), ("ssm", "Path")), ("parameter{}", "")),
    ("logs", "logGroupName"): ("log-group:{}:*", ""),
}
"""Parameters that name what an operation is about: the end of its ARN, and what else may stand in them."""


class Call(NamedTuple):
    """action, resource: as IAM has them; "*" if the operation has no resource."""

    action: str
    resource: str


class Recorder:
    """Passes requests on to an emulator, and keeps what each asks. url: of the emulator."""

    def __init__(self, url: str) -> None:
        self.calls: list[Call] = []
        target, recorder = urlsplit(url), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self._read_body()
                recorder.calls += calls_of(self.command, self.path, dict(self.headers.items()), body)
                connection = HTTPConnection(target.hostname or "", target.port, timeout=300)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {*HOP, "content-length"}:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(content)
                connection.close()

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = pass_on

            def _read_body(self) -> bytes:
                if self.headers.get("Expect", "").lower() == "100-continue":
                    self.send_response_only(100)
                    self.end_headers()
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                chunks = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def calls_of(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[Call]:
    """What a signed request asks."""
    credential = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", headers.get("Authorization", ""))
    if credential is None:
        return
    service = credential[1]
    prefix = SERVICES.get(service, service)
    where = urlsplit(path)
    if service == "apigateway":
        yield Call(f"apigateway:{method}", f"arn:aws:apigateway:{REGION}::{where.path}")
        return
    target = next((value for name, value in headers.items() if name.lower() == "x-amz-target"), "")
    if target:
        operation, params = target.rpartition(".")[2], json.loads(body or b"{}")
    elif b"Action=" in body[:4000] and service not in ("s3", "lambda"):
        params = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        operation = params["Action"]
    else:
        fields = {each.partition("=")[0] for each in where.query.split("&")} | set(map(str.lower, headers))
        operation, params = _rest_operation(service, method, where.path, where.query, fields)
    action = ACTIONS.get(f"{prefix}:{operation}", f"{prefix}:{operation}")
    for resource in _resources(service, operation, params):
        yield Call(action, resource)


def _rest_operation(
    service: str, method: str, path: str, query: str, fields: Set[str]
) -> tuple[str, dict[str, str]]:
    """Operation of a REST request, and the names in its path. Of several that match, the one with the most
    required fields of the query and of headers, and then with the longest pattern."""
    matches = []
    for name, verb, uri, required in _uris(SERVICES.get(service, service)):
        pattern, _, wanted = uri.partition("?")
        place = re.sub(
            r"\\{(\w+)(\\\+)?\\}", lambda found: _group(found[1], bool(found[2])), re.escape(pattern)
        )
        found = re.fullmatch(place.rstrip("/") + "/?", path)
        keys = required | {each.partition("=")[0] for each in wanted.split("&") if each}
        if verb == method and found and keys <= fields:
            matches.append((len(keys), len(pattern), name, found.groupdict()))
    assert matches, f"{service}: {method} {path}"
    *_, name, path_values = max(matches, key=lambda match: match[:2])
    if name == "DeleteObject" and "versionId=" in query:
        name = "DeleteObjectVersion"
    qualifier = dict(each.partition("=")[::2] for each in query.split("&") if each.startswith("Qualifier="))
    return name, {key: unquote(value) for key, value in {**path_values, **qualifier}.items()}


def _group(name: str, is_greedy: bool) -> str:
    return f"(?P<{name}>{'.+' if is_greedy else '[^/]+'})"


@cache
def _uris(service: str) -> list[tuple[str, str, str, frozenset[str]]]:
    """Name, method and path of each operation, and its required fields of the query and of headers."""
    model = Loader().load_service_model(service, "service-2")
    return [
        (name, each["http"]["method"], each["http"]["requestUri"], _required_fields(model, each))
        for name, each in model["operations"].items()
    ]


def _required_fields(model: Any, operation: Any) -> frozenset[str]:
    shape = model["shapes"].get(operation.get("input", {}).get("shape"), {})
    members = [shape["members"][name] for name in shape.get("required", ())]
    located = [each for each in members if each.get("location") in ("querystring", "header")]
    return frozenset(
        each["locationName"].lower() if each["location"] == "header" else each["locationName"]
        for each in located
    )


def _resources(service: str, operation: str, given: Any) -> list[str]:
    """ARNs of what an operation is about."""
    if service == "s3" and operation == "DeleteObjects":
        return [f"arn:aws:s3:::{given['Bucket']}/*"]  # the objects are in its body
    if service == "s3" and "Bucket" in given:
        return [f"arn:aws:s3:::{given['Bucket']}" + (f"/{given['Key']}" if "Key" in given else "")]
    if operation == "BatchWriteItem":
        return [f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}" for name in given["RequestItems"]]
    version = f":{given['Qualifier']}" if "Qualifier" in given else ""
    arns = [
        f"arn:aws:{service}:{REGION}:{ACCOUNT}:{form.format(re.sub(path, '', str(name)))}{version}"
        for (of, key), (form, path) in NAMED.items()
        if of == service and given.get(key)
        for name in (given[key] if isinstance(given[key], list) else [given[key]])
    ]
    return arns or ["*"]
