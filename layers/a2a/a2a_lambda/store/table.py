"""One DynamoDB table. A failed condition, a refusal and silence are three different exceptions."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import telemetry
from a2a_lambda.errors import StoreError, WriteRefused
from a2a_lambda.store.items import Item, has_expired, number

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


REFUSED_WRITE_CODES = frozenset({"ValidationException", "RequestEntityTooLarge", "SerializationException"})
"""Errors of a request that is wrong in itself, such as an item over 400 KB.
Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
"""


MAX_BATCH_KEYS = 100
"""Items of a BatchGetItem. It returns 16 MB at most, and names the others.
Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""

FIRST_BATCH_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 2.0
"""Pauses before it is asked again for items, if it returned none."""


ABSENT_CONDITION = "attribute_not_exists(pk) OR expires <= :now"

FREE_CONDITION = "attribute_not_exists(pk) OR #until <= :now"

HELD_CONDITION = "holder = :holder"


class ConditionFailed(Exception):
    """The condition of a write did not hold. item: what is there instead, after `put`; otherwise empty."""

    def __init__(self, item: Item) -> None:
        self.item = item


class Table:
    """Calls block. They raise StoreError if DynamoDB does not answer, WriteRefused if it refuses an item for
    good."""

    def __init__(
        self, client: "DynamoDBClient", name: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self.name = name
        self.clock = clock

    def get(self, key: dict[str, Any]) -> Item | None:
        """An item, or None if it is absent or expired. The read is strongly consistent."""
        with _call():
            answer = self._client.get_item(TableName=self.name, Key=key, ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None or has_expired(item, self.clock()) else item

    def get_many(self, keys: Sequence[dict[str, Any]]) -> Iterator[Item]:
        """Items that are neither absent nor expired, in no order. The reads are strongly consistent.

        keys: all different.
        """
        for start in range(0, len(keys), MAX_BATCH_KEYS):
            request: Mapping[str, Any] = {
                self.name: {"Keys": keys[start : start + MAX_BATCH_KEYS], "ConsistentRead": True}
            }
            pause = FIRST_BATCH_PAUSE_SECONDS
            while request:
                with _call():
                    answer = self._client.batch_get_item(RequestItems=request)
                rows = answer["Responses"].get(self.name, [])
                yield from (item for item in rows if not has_expired(item, self.clock()))
                request = answer.get("UnprocessedKeys", {})
                if request and not rows:
                    if pause > MAX_PAUSE_SECONDS:
                        raise StoreError("DynamoDB throttled every attempt to read the items")
                    time.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311  # no secret
                    pause *= 2

    def put(self, item: dict[str, Any], condition: str, values: Mapping[str, Any] | None = None) -> None:
        """Put an item. Raises ConditionFailed, unless the item in the way is this very one: then an
        earlier try succeeded after all."""
        # DynamoDB refuses an empty map of values, and botocore also refuses None.
        options: dict[str, Any] = {"ExpressionAttributeValues": values} if values else {}
        try:
            with _call():
                self._client.put_item(
                    TableName=self.name,
                    Item=item,
                    ConditionExpression=condition,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **options,
                )
        except ConditionFailed as conflict:
            if conflict.item != item:
                raise

    def take(self, item: dict[str, Any], now: float) -> Item | None:
        """Put an item that a process holds until the Unix time in `until`, if no other one holds it. Returns
        what was there, or None, which is also returned if an earlier try succeeded after all. Raises
        ConditionFailed."""
        try:
            with _call():
                answer = self._client.put_item(
                    TableName=self.name,
                    Item=item,
                    ConditionExpression=FREE_CONDITION,
                    ExpressionAttributeValues={":now": {"N": str(now)}},
                    ExpressionAttributeNames={"#until": "until"},
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as conflict:
            if conflict.item != item:
                raise
            return None
        return answer.get("Attributes")

    def add(self, key: dict[str, Any], attribute: str, amount: int, *, expires: int) -> int:
        """Add to a number in an item; returns the sum. Makes the item if it is absent."""
        with _call():
            answer = self._client.update_item(
                TableName=self.name,
                Key=key,
                UpdateExpression="ADD #number :amount SET expires = :expires",
                ExpressionAttributeNames={"#number": attribute},
                ExpressionAttributeValues={":amount": number(amount), ":expires": number(expires)},
                ReturnValues="UPDATED_NEW",
            )
        return int(answer["Attributes"][attribute]["N"])

    def update(self, key: dict[str, Any], expression: str, condition: str, values: Mapping[str, Any]) -> None:
        """Change attributes of an item. Raises ConditionFailed."""
        with _call():
            self._client.update_item(
                TableName=self.name,
                Key=key,
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
            )

    def delete(self, key: dict[str, Any]) -> None:
        """Delete an item, if it is there."""
        with _call():
            self._client.delete_item(TableName=self.name, Key=key)

    def delete_if(self, key: dict[str, Any], condition: str, values: Mapping[str, Any]) -> None:
        """Delete an item. Raises ConditionFailed."""
        with _call():
            self._client.delete_item(
                TableName=self.name,
                Key=key,
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
            )

    def query(self, condition: str, values: Mapping[str, Any]) -> Iterator[Item]:
        """Items of a partition, in the order of their sort keys. The reads are strongly consistent."""
        query = {
            "ConsistentRead": True,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }
        for answer in self.query_pages(query):
            yield from answer["Items"]

    def query_unexpired(self, condition: str, values: Mapping[str, Any]) -> Iterator[Item]:
        """Items of a partition that have not expired, in the order of their sort keys."""
        now = self.clock()
        return (item for item in self.query(condition, values) if not has_expired(item, now))

    def query_pages(self, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Answers of a query, page by page."""
        # botocore's paginator would load another model file on the cold path.
        while True:
            answer = self.query_page(query)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            query = {**query, "ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def query_page(self, query: Mapping[str, Any]) -> Mapping[str, Any]:
        """One answer of a query."""
        with _call():
            return self._client.query(TableName=self.name, **query)


@contextmanager
def _call() -> Iterator[None]:
    """Count a call, and raise its failures as the kit's own."""
    telemetry.measure({"DynamoDBCalls": 1})
    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ConditionalCheckFailedException":
            item: Any = error.response.get("Item", {})
            raise ConditionFailed(item) from None
        kind = WriteRefused if code in REFUSED_WRITE_CODES else StoreError
        raise kind(f"DynamoDB refused: {code}") from error
    except BotoCoreError as error:
        raise StoreError(f"DynamoDB did not answer: {type(error).__name__}") from error
