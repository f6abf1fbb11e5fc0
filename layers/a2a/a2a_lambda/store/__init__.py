"""Tasks and contexts in DynamoDB: `table` has the operations, `copies` those of the keys' copy, `items` the
layout of keys and items. Nothing outside this package knows either."""

from a2a_lambda.store.indexes import Page
from a2a_lambda.store.items import due_task, noticed
from a2a_lambda.store.key_copies import Copies, Copy, Load
from a2a_lambda.store.store import Store, Superseded

__all__ = ["Copies", "Copy", "Load", "Page", "Store", "Superseded", "due_task", "noticed"]
