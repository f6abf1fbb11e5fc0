"""A Lambda handler without any package. It knows nothing of A2A."""

import json
from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    body = json.loads(event["body"])
    answer = {"jsonrpc": "2.0", "id": body["id"], "result": {"task": {"id": "1"}}}
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(answer)}
