"""Reads a URL that a caller supplied: only from public addresses, with limits of redirects, size and time."""

import asyncio
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, cast

import httpx2

from a2a_lambda.errors import KitError
from a2a_lambda.net.addresses import Refused, Unresolved
from a2a_lambda.net.transport import GuardedTransport

FETCH_BYTES = 100_000_000
"""Maximum size of a file that is read from elsewhere, in bytes. Lambda's /tmp has 512 MB."""

FILE_SECONDS = 60.0
"""Seconds for all of it, redirects included."""

READ_SILENCE_SECONDS = 10.0
"""Seconds between two pieces of it."""

REDIRECTS = 5

SPOOL_BYTES = 1_000_000
"""Bytes that stay in memory. A larger file is in /tmp until it is closed."""

PLAIN_ENCODINGS = frozenset({"", "identity", "aws-chunked"})
"""Values of Content-Encoding of what is not compressed. Some stores like S3 keep the last one."""

FETCHES = 16
"""Files that are read at once. Most of that time is waiting."""

_threads = ThreadPoolExecutor(FETCHES, thread_name_prefix="fetch")


class NotFetched(KitError):
    """A URL that must not be read, or did not answer with a file. The text says why, without the URL, which
    may hold a secret."""

    safe_to_log = True


def fetch(url: str, *, allow_loopback: bool = False) -> BinaryIO:
    """The content of a URL, from its beginning. Blocks. Raises NotFetched."""
    # In a thread of its own, because an asynchronous skill calls it in a thread that has a loop.
    end = time.monotonic() + FILE_SECONDS  # waiting for a thread counts
    return _threads.submit(lambda: asyncio.run(_fetch(url, allow_loopback, end))).result()


async def _fetch(url: str, allow_loopback: bool, end: float) -> BinaryIO:
    content = cast(BinaryIO, tempfile.SpooledTemporaryFile(SPOOL_BYTES))  # noqa: SIM115  # its reader closes it
    transport = GuardedTransport(allow_loopback=allow_loopback)
    try:
        async with (
            asyncio.timeout(end - time.monotonic()),
            httpx2.AsyncClient(transport=transport, timeout=READ_SILENCE_SECONDS) as http,
        ):
            await _read(http, httpx2.URL(url), content)
    except BaseException as error:
        content.close()
        # The text of these errors may have the URL. And whether a name is unknown, or is that of a private
        # address, is not the client's business.
        if isinstance(error, Refused | Unresolved):
            raise NotFetched("its URL is not https, or its host has no public address") from None
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | TimeoutError | UnicodeError):
            raise NotFetched(f"its server did not answer ({type(error).__name__})") from None
        if isinstance(error, OSError):
            raise NotFetched("there is no room for it on the disk") from error
        raise
    content.seek(0)
    return content


async def _read(http: httpx2.AsyncClient, url: httpx2.URL, content: BinaryIO) -> None:
    # Not by httpx: the transport replaces the host of a request by its address, and a relative redirect
    # would lead to that. Each request is checked by the transport.
    for _ in range(REDIRECTS + 1):
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFetched("only https URLs are read")
        async with http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            if answer.has_redirect_location:
                url = url.join(answer.headers["location"])
                continue
            if answer.status_code != 200:
                raise NotFetched(f"its server answered {answer.status_code}")
            if not PLAIN_ENCODINGS.issuperset(
                re.split(r"[\s,]+", answer.headers.get("content-encoding", "").lower())
            ):
                raise NotFetched("its server sent a compressed response, which was not requested")
            size = 0
            async for chunk in answer.aiter_raw():  # unpacked, a few bytes may be very many
                size += len(chunk)
                if size > FETCH_BYTES:
                    raise NotFetched(f"it has more than {FETCH_BYTES:,} bytes")
                content.write(chunk)
            return
    raise NotFetched(f"its URL redirects more than {REDIRECTS} times")
