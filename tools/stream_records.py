"""Records of the table's stream, as Lambda gives them to the notifier."""

import base64
from datetime import datetime
from typing import Any

from a2a_lambda.protocol.model import Json


def is_for_webhooks(record: Json) -> bool:
    """The filter of NotifierStream in template.yaml: heads of tasks with push configs."""
    image = record["dynamodb"].get("NewImage", {})
    return image.get("sk") == {"S": "head"} and "pushes" in image


def to_lambda_json(value: Any) -> Any:
    """A record as JSON, with bytes in base64."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: to_lambda_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_lambda_json(item) for item in value]
    return value
