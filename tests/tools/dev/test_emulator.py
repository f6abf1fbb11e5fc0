"""The emulator of AWS: what is quicker in it than in moto by itself."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from moto.dynamodb.models.table import Table

from a2a_lambda.aws import clients
from tests.conftest import table_properties
from tools import template
from tools.dev import emulator


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Numbers of items that moto looks at, in order."""
    sizes: list[int] = []
    all_items = Table.all_items

    def count_items(table: Table) -> list[object]:
        result = all_items(table)
        sizes.append(len(result))
        return [*result]

    monkeypatch.setattr(Table, "all_items", count_items)
    monkeypatch.setattr(Table, "query", Table.query)  # so that it is put back
    emulator.narrow_queries()
    with mock_aws():
        yield sizes


def test_a_query_looks_only_at_its_partition(sizes: list[int]) -> None:
    client: Any = clients.session().create_client("dynamodb", region_name="us-east-1")
    template.create_table(client, "t", table_properties())
    for partition in range(20):
        for sort in ("1", "2"):
            item = {"pk": {"S": f"p{partition}"}, "sk": {"S": sort}, "listing": {"S": "all"}}
            client.put_item(TableName="t", Item={**item, "changed": {"S": f"{partition:02}#{sort}"}})

    def query(condition: str, value: str, **options: str) -> list[str]:
        answer = client.query(
            TableName="t",
            KeyConditionExpression=condition,
            ExpressionAttributeValues={":value": {"S": value}},
            **options,
        )
        return [item["pk"]["S"] + item["sk"]["S"] for item in answer["Items"]]

    sizes.clear()
    assert query("pk = :value", "p7") == ["p71", "p72"]
    assert query("pk = :value", "nobody") == []
    assert sizes == [2, 0]
    [index] = [
        index["IndexName"]
        for index in table_properties()["GlobalSecondaryIndexes"]
        if index["KeySchema"][0]["AttributeName"] == "listing"
    ]
    assert len(query("listing = :value", "all", IndexName=index)) == 40


def test_the_emulator_starts_without_ec2() -> None:
    """EC2 takes longer to import than all that the emulator has."""
    code = (
        "from tools.dev import emulator; emulator.leave_out_ec2(); import moto.ssm.models, sys;"
        "print([name for name in sys.modules if name.startswith('moto.ec2.')])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
