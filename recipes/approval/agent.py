"""A person decides: a question before an action, and a code of a manager before a large one."""

import hashlib
import hmac
from decimal import Decimal
from typing import Annotated

from a2a_lambda import Ask, Authorize, Reject, Turn, skill

LARGE = Decimal(100)
"""Refunds from this amount on need a manager."""

YES = {"yes", "y", "ok", "是", "好"}


@skill
def refund(
    turn: Turn,
    order: Annotated[str, "the number of the order"],
    amount: Annotated[Decimal, "the amount in dollars"],
    confirmed: Annotated[str, "yes or no"] = "",
    code: Annotated[str, "the manager's code"] = "",
) -> str | Ask | Reject:
    # The task waits after each question. Its answer fills the parameter, and `known` comes back with it.
    known = {"order": order, "amount": str(amount)}
    if not confirmed:
        return Ask(f"Refund ${amount} for order {order}? yes or no", fills="confirmed", known=known)
    if confirmed.strip().lower() not in YES:
        return Reject("Nothing was refunded.")
    if amount >= LARGE and not code:
        return Authorize(
            f"A manager must approve ${amount}. Send the code of the manager's page for {turn.task_id}.",
            fills="code",
            known={**known, "confirmed": confirmed},
        )
    if amount >= LARGE and not is_approved(turn, code):
        return Reject("This is not the manager's code. Nothing was refunded.")
    return pay(turn, order, amount)


def is_approved(turn: Turn, code: str) -> bool:
    expected = approval_code(turn.secret("approval"), turn.task_id)
    return hmac.compare_digest(code.strip().encode(), expected.encode())


def approval_code(secret: str, task_id: str) -> str:
    """What the manager's page computes. It is for one task only."""
    return hmac.new(secret.encode(), task_id.encode(), hashlib.sha256).hexdigest()[:12]


def pay(turn: Turn, order: str, amount: Decimal) -> str:
    """Replace this with a call of your payment service. turn.id is its idempotency key: turns may repeat."""
    return f"Refunded ${amount} for order {order}."
