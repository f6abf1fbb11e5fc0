"""Callers whom AWS has authenticated: through a function URL with the parameter FunctionUrl=iam.

Lambda checks the signature (SigV4) and the permission `lambda:InvokeFunctionUrl` before the function runs,
and says in the event who called. No header of a request can say so.
Source: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from a2a_lambda.access.issuer import IAM
from a2a_lambda.protocol.caller import Caller

ARN = re.compile(r"arn:[a-z-]+:(?:iam|sts)::(?P<account>\d{12}):(?P<kind>[a-z-]+)/?(?P<name>.*)")


def find_caller(event: Mapping[str, Any]) -> Caller | None:
    """The caller in the event of a function URL, or None. The owner is the account and the role or the user,
    and not the session: the next call of the same role has another."""
    authorizer = (event.get("requestContext") or {}).get("authorizer") or {}
    identity = authorizer.get("iam") if isinstance(authorizer, dict) else None
    match = ARN.fullmatch(str(identity.get("userArn"))) if isinstance(identity, dict) else None
    if match is None:
        return None
    kind, name = match["kind"], match["name"]
    if kind == "assumed-role":
        kind, name = "role", name.partition("/")[0]
    owner = f"{IAM}|{match['account']}:{quote(f'{kind}/{name}', safe='')}"
    return Caller(owner, "iam", issuer=IAM, subject=f"{match['account']}:{kind}/{name}")
