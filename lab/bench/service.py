"""DynamoDB, Parameter Store, SQS and a webhook over HTTP, which keep connections open as AWS does: `python -m
lab.bench.service` prints its port, and serves until its standard input ends.

The emulator of `make run` closes every connection, so it would measure how connections are made.
"""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lab.bench.probe import KEY, PATH
from lab.memory_table import MemoryParameters, MemoryTable
from tools.command import HOST
from tools.dev import emulator


@contextmanager
def running() -> Iterator[str]:
    """Run the services in a process of their own; yields their URL. Raises ConfigurationError."""
    with emulator.run_apart(__name__, "the DynamoDB of make bench") as url:
        yield url


class Services:
    """Binary attributes stay the base64 that they are in JSON."""

    def __init__(self) -> None:
        self._table: Any = MemoryTable()
        self._parameters: Any = MemoryParameters(PATH, KEY)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                answer = json.dumps(self._call(headers.get("x-amz-target", ""), json.loads(body))).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {headers['content-type']}\r\n"
                writer.write(f"{head}Content-Length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        writer.close()

    def _call(self, target: str, arguments: dict[str, Any]) -> Any:
        service, _, operation = target.partition(".")
        if service in ("", "amazonsqs"):
            return {"MessageId": "1"}
        owner = self._parameters if service == "amazonssm" else self._table
        [method] = [name for name in dir(owner) if re.sub("_", "", name) == operation]
        return getattr(owner, method)(**arguments)


async def _serve() -> None:
    server = await asyncio.start_server(Services().serve, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    threading.Thread(target=lambda: asyncio.run(_serve()), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
