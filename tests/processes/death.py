"""The death of a process between a turn's two last writes: its context is stored, its head is not."""

import pytest

from a2a_lambda.store.store import Store
from a2a_lambda.tasks.head import Head


class Died(BaseException):
    pass


def die_after_context(patch: pytest.MonkeyPatch) -> None:
    """Turns die at the write of their end."""
    update_head = Store.update_head

    def update(store: Store, head: Head) -> Head:
        if head.is_stopped:
            raise Died
        return update_head(store, head)

    patch.setattr(Store, "update_head", update)
