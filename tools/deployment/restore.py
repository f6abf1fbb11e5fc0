"""Copies the missing items of a stack's table from another table: one restored from a backup, or one that
outlived its stack.

    make restore FROM=restored-table STACK=my-stack

Items that are already in the table are not changed, so you can run it again. No notifications are sent for
tasks that had already ended.
Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery.Tutorial.html
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rich.console import Console

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.command import reports_errors
from tools.deployment.stack import aws_errors, table_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITERS = 16


def copy_missing(
    client: "DynamoDBClient", source: str, target: str, report: Callable[[int, int], None]
) -> tuple[int, int]:
    """Copy the missing items; returns how many it read, and how many it copied.

    report: called with both numbers after every page of at most 1 MB.
    Raises ConfigurationError if a table is absent or not of this kit, or if both are the same.
    """
    with aws_errors(f"table {source}"):
        table = client.describe_table(TableName=source)["Table"]
    if table["TableName"] == target:  # source may be its ARN
        raise ConfigurationError(f"table {source} is the stack's own table: write FROM=<the restored table>")
    foreign = ConfigurationError(
        f"table {source} is not a table of this kit: write FROM=<a table restored from the stack's>"
    )
    if [key["AttributeName"] for key in table["KeySchema"]] != ["pk", "sk"]:
        raise foreign
    reads = copies = 0

    def copy(item: dict[str, Any]) -> bool:
        try:
            client.put_item(TableName=target, Item=item, ConditionExpression="attribute_not_exists(pk)")
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        for page in client.get_paginator("scan").paginate(TableName=source, ConsistentRead=True):
            try:
                items = [item for item in page["Items"] if int(item["expires"]["N"]) > time.time()]
            except (KeyError, ValueError):
                raise foreign from None
            reads += len(page["Items"])
            copies += sum(pool.map(copy, items))
            report(reads, copies)
    return reads, copies


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    source, stack = environ.get("FROM", ""), environ.get("STACK", "")
    if not source or not stack:
        raise ConfigurationError("name a table and a stack: make restore FROM=<table> STACK=<stack>")
    with aws_errors(f"restoring {source}"), Console(stderr=True).status(f"reading {source}") as status:
        total, copies = copy_missing(
            clients.dynamodb(Settings()),
            source,
            table_of(stack),
            lambda reads, writes: status.update(f"{reads:,} items read, {writes:,} copied"),
        )
    print(f"{copies} of {total} items copied; the others already exist, or have expired")
    print(f"Next: make doctor STACK={stack}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
