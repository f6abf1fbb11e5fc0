"""Signature Version 4 of a POST to the root of a service. Pure.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

SIGV4_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(NamedTuple):
    """Credentials of AWS.

    token: session token of temporary credentials, or "" if they are permanent.
    """

    access_key: str
    secret_key: str
    token: str = ""


def signed_headers(
    credentials: Credentials,
    *,
    region: str,
    service: str,
    headers: Mapping[str, str],
    body: bytes,
    now: float,
) -> dict[str, str]:
    """The headers of a request, with those of its signature.

    headers: their names are lowercase. One is `host`. now: Unix time.
    """
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    date = timestamp[:8]
    fields = {**headers, "x-amz-date": timestamp}
    if credentials.token:
        fields["x-amz-security-token"] = credentials.token
    names = sorted(fields)
    lines = "".join(f"{name}:{fields[name]}\n" for name in names)
    name_list = ";".join(names)
    request = f"POST\n/\n\n{lines}\n{name_list}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{date}/{region}/{service}/aws4_request"
    text = f"{SIGV4_ALGORITHM}\n{timestamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = _signing_key(credentials.secret_key, date, region, service)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    fields["authorization"] = (
        f"{SIGV4_ALGORITHM} Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={name_list}, Signature={signature}"
    )
    return fields


@lru_cache(maxsize=8)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """The key of a day."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
