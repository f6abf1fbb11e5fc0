"""make restore: what was lost comes back, what is there stays."""

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.conftest import DAY, ROOT
from tests.store.calls import Counted
from tools import template
from tools.deployment import restore


@pytest.mark.parametrize("fields", [{}, {"expires": {"S": "soon"}}, {"expires": {"N": "1.5"}}])
def test_another_applications_table_is_refused(settings: Settings, fields: dict[str, Any]) -> None:
    client = clients.dynamodb(settings)
    source, target = f"orders-{uuid.uuid4().hex[:8]}", f"restore-{uuid.uuid4().hex[:8]}"
    for name in (source, target):
        template.create_table(client, name, template.properties(ROOT / "template.yaml"))
    for number, expiry in (("1", {"expires": {"N": "9999999999"}}), ("2", fields)):
        item: dict[str, Any] = {"pk": {"S": "order"}, "sk": {"S": number}, **expiry}
        client.put_item(TableName=source, Item=item)
    with pytest.raises(ConfigurationError, match=f"table {source} is not a table of this kit"):
        restore.copy_missing(client, source, target, lambda *_: None)


def test_the_stacks_own_table_may_be_named_by_its_arn(settings: Settings) -> None:
    client = clients.dynamodb(settings)
    arn = client.describe_table(TableName=settings.table)["Table"]["TableArn"]
    for source in (settings.table, arn):
        with pytest.raises(ConfigurationError, match="is the stack's own table"):
            restore.copy_missing(client, source, settings.table, lambda *_: None)


def test_a_lost_task_comes_back(kit: Kit, settings: Settings, namespace: Namespace) -> None:
    client = clients.dynamodb(settings)
    tables = [f"restore-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    for name in tables:
        template.create_table(client, name, template.properties(ROOT / "template.yaml"))
    backup, live = (Store(Table(client, name), ttl=DAY) for name in tables)
    counted_kit = Counted(kit, settings.model_copy(update={"table": tables[0]}), namespace)
    lost_task, _ = asyncio.run(counted_kit.send("What is 1 plus 2?", contextId="lost"))
    kept_task, _ = asyncio.run(counted_kit.send("hi", contextId="kept"))
    head = backup.get_head(namespace, kept_task["id"])
    assert head is not None
    live.create_head(replace(head, wire_name="newer"))

    reports: list[tuple[int, int]] = []
    source, target = tables
    looked_at, put = restore.copy_missing(client, source, target, lambda *numbers: reports.append(numbers))
    assert looked_at == 4
    assert put == 3
    assert reports[-1] == (4, 3)
    head_now = live.get_head(namespace, lost_task["id"])
    assert head_now is not None
    assert live.get_task(head_now)[0]["artifacts"] == lost_task["artifacts"]
    assert live.get_context(namespace, "lost").conversation
    still = live.get_head(namespace, kept_task["id"])
    assert still is not None
    assert still.wire_name == "newer"
    assert restore.copy_missing(client, source, target, lambda *_: None) == (4, 0)
