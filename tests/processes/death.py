"""The death of a process between two of its writes."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head


class Died(BaseException):
    """The process is gone."""


def die_after_context(patch: pytest.MonkeyPatch) -> None:
    """Turns die at the write of their end: their context is stored, their head is not."""
    update_head = Store.update_head

    def update(store: Store, head: Head) -> Head:
        if head.is_stopped:
            raise Died
        return update_head(store, head)

    patch.setattr(Store, "update_head", update)


@contextmanager
def dying_before_write(count: int, store: Store) -> Iterator[None]:
    """The process dies before its write of that number, counted from 1, or before any later one."""
    put, writes = store._table.put, itertools.count(1)

    def put_or_die(*args: Any, **options: Any) -> None:
        if next(writes) >= count:
            raise Died
        put(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._table, "put", put_or_die)
        with pytest.raises(Died):
            yield
