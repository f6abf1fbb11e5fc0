"""Puts back into a stack's table what another table has and it has not: one restored from a backup, or one
that outlived its stack.

make restore FROM=restored-table STACK=my-stack

Nothing that is there is changed, so it may be run again. Webhooks are not told of what had ended.
Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery.Tutorial.html
"""

import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.deployment.stack import asking_aws, table_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITERS = 16


def restored(client: "DynamoDBClient", source: str, target: str) -> tuple[int, int]:
    """Copy the items that are missing; returns how many were looked at, and how many put.

    Raises ConfigurationError for tables that are not there, the same, or none of this kit's.
    """
    if source == target:
        raise ConfigurationError(f"table {source} is the stack's own")
    with asking_aws(f"table {source}"):
        keys = client.describe_table(TableName=source)["Table"]["KeySchema"]
        if [key["AttributeName"] for key in keys] != ["pk", "sk"]:
            raise ConfigurationError(f"table {source} is none of this kit's")
    looked = put = 0

    def copied(item: dict[str, Any]) -> bool:
        try:
            client.put_item(TableName=target, Item=item, ConditionExpression="attribute_not_exists(pk)")
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        for page in client.get_paginator("scan").paginate(TableName=source, ConsistentRead=True):
            kept = [item for item in page["Items"] if int(item["expires"]["N"]) > time.time()]
            looked += len(page["Items"])
            put += sum(pool.map(copied, kept))
    return looked, put


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Returns the process's exit status."""
    source, stack = environ.get("FROM", ""), environ.get("STACK", "")
    if not source or not stack:
        print("usage: make restore FROM=<table> STACK=<stack>", file=sys.stderr)
        return 2
    try:
        with asking_aws(f"restoring {source}"):
            looked, put = restored(clients.dynamodb(Settings()), source, table_of(stack))
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{put} of {looked} items put back; the others are there, or have expired")
    return 0


if __name__ == "__main__":
    sys.exit(main())
