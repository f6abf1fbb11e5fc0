"""Response streaming for managed Python: AWS's own runtime client, with one addition: it can post a stream.

    AWS_LAMBDA_EXEC_WRAPPER ── this module ── awslambdaric's loop ── handler ── streaming.Response
                                                   └── post ── chunked, as the application sends

awslambdaric provides the loop, the context, logs, X-Ray, SnapStart and init errors. This module depends on
two places in it: `BaseLambdaRuntimeClient.marshaller`, a documented override point, and
`post_invocation_result`, which gets the marshaller's result. When AWS's Python runtime can stream, delete
this file, the layer's `a2a-runtime` and AWS_LAMBDA_EXEC_WRAPPER.
Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-custom.html#runtimes-custom-response-streaming
"""

import asyncio
import base64
import json
import logging
import os
import site
import sys
import traceback
from pathlib import Path
from typing import Any

from awslambdaric import bootstrap
from awslambdaric.lambda_config import LambdaConfigProvider
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller

from a2a_lambda.lambda_.streaming import CAN_STREAM, CONTENT_TYPE, Response

GONE_STATUS = 410
"""Status of a response whose invocation is over: it timed out, or its caller left."""

ONE_AT_A_TIME = (
    "AWS_LAMBDA_MAX_CONCURRENCY is set: on Lambda Managed Instances this function would get several "
    "invocations at once, but it serves one at a time. Remove its capacity provider."
)

FRAMES = 20
"""Frames of a stack trace that fit a trailer."""

ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

logger = logging.getLogger(__name__)


class Marshaller(LambdaMarshaller):  # type: ignore[misc]
    """Passes a stream through to the client. Every other result becomes JSON, as usual."""

    def marshal_response(self, response: Any) -> tuple[Any, str]:
        if isinstance(response, Response):
            return response, CONTENT_TYPE
        result: tuple[Any, str] = super().marshal_response(response)
        return result


class RuntimeClient(LambdaRuntimeClient):  # type: ignore[misc]
    """Client of the Runtime API that can stream."""

    marshaller = Marshaller()

    def __init__(self, address: str, use_thread: bool = False) -> None:
        super().__init__(address, use_thread)
        host, _, port = address.partition(":")
        self._address = (host, int(port or 80))
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def post_invocation_result(
        self,
        invoke_id: str,
        result_data: Any,
        content_type: str = "application/json",
        invocation_id: str | None = None,
    ) -> None:
        if not isinstance(result_data, Response):
            super().post_invocation_result(invoke_id, result_data, content_type, invocation_id)
            return
        post = Post(self._address, invoke_id, invocation_id)
        self._loop.run_until_complete(post.send(result_data))
        result_data.release()


class Post:
    """One streamed response on a connection of its own.

    invocation_id: echoed if /next had one. It lets the API distinguish a late answer from a new one.
    """

    def __init__(self, address: tuple[str, int], invoke_id: str, invocation_id: str | None) -> None:
        self._address = address
        self._request = (
            f"POST /2018-06-01/runtime/invocation/{invoke_id}/response HTTP/1.1\r\n"
            f"Host: {address[0]}:{address[1]}\r\n"
            f"Content-Type: {CONTENT_TYPE}\r\n"
            "Lambda-Runtime-Function-Response-Mode: streaming\r\n"
            "Transfer-Encoding: chunked\r\n"
            f"Trailer: {ERROR_TYPE}, {ERROR_BODY}\r\n"
            + (f"Lambda-Runtime-Invocation-Id: {invocation_id}\r\n" if invocation_id else "")
            + "Connection: close\r\n\r\n"
        )
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._is_broken = False

    async def send(self, response: Response) -> None:
        """Stream a response. Never raises, so that the process continues with its next invocation."""
        try:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        except OSError:
            logger.exception("the Runtime API does not accept a response")
            return
        try:
            self._writer.write(self._request.encode())
            trailers = await self._send_body(response)
            self._writer.write(f"0\r\n{trailers}\r\n".encode())
            await self._writer.drain()
            line = await self._reader.readline()
            _, _, code = line.decode("latin-1").partition(" ")
            if code.startswith(str(GONE_STATUS)):
                logger.warning("the invocation ended before its response was out")
            elif not code.startswith("2"):
                logger.error("the Runtime API refused the response: %r", line)
        except (OSError, ValueError) as error:
            logger.warning("the Runtime API closed the response: %s", error)
        finally:
            self._writer.close()

    async def _send_body(self, response: Response) -> str:
        """Send the chunks; returns the trailers."""
        try:
            await response.stream(self._write)
        except Exception as error:
            if self._is_broken:  # whatever the application raised then
                raise ConnectionResetError("no one reads the response any more") from None
            logger.exception("the stream broke off")
            # Trailers make Lambda count the invocation as failed, although its answer has begun.
            kind = type(error).__name__
            frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
            stack = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
            body = {"errorMessage": kind, "errorType": kind, "stackTrace": stack}
            payload = base64.b64encode(json.dumps(body).encode()).decode()
            return f"{ERROR_TYPE}: {kind}\r\n{ERROR_BODY}: {payload}\r\n"
        return ""

    async def _write(self, chunk: bytes) -> None:
        try:
            if self._reader.at_eof():
                raise ConnectionResetError("closed by the other side")
            self._writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await self._writer.drain()
        except OSError:
            self._is_broken = True
            raise


def main() -> None:
    """Serve invocations until the process ends. `_HANDLER` names the handler: another wrapper may have
    changed it."""
    add_site_folders()
    config = LambdaConfigProvider([sys.argv[0], os.environ["_HANDLER"]])
    client = RuntimeClient(config.api_address, config.use_thread_polling)
    if config.is_multi_concurrent:
        client.post_init_error(
            {"errorMessage": ONE_AT_A_TIME, "errorType": "Runtime.Unsupported", "stackTrace": []}
        )
        sys.exit(ONE_AT_A_TIME)
    os.environ[CAN_STREAM] = "1"
    bootstrap.run(config.handler, client)


def add_site_folders() -> None:
    """Read the .pth files that Lambda's own bootstrap reads: of the function, and of both folders of the
    layers."""
    layers = Path(__file__).parents[2]  # /opt/python
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    task = Path(os.environ["LAMBDA_TASK_ROOT"])
    for folder in (task, layers / "lib" / version / "site-packages", layers):
        if folder.is_dir():
            site.addsitedir(str(folder))


if __name__ == "__main__":
    main()
