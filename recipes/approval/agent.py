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
) -> str | Ask | Reject:
    # What was asked is in the memory: the answer to a question could come with another order or amount.
    asked = turn.memory.get(turn.task_id)
    if asked is None or not turn.answering:
        return ask(turn, "confirm", order, amount, f"Refund ${amount} for order {order}? yes or no")
    turn.memory.delete(turn.task_id)
    order, amount = asked["order"], Decimal(asked["amount"])
    match asked["step"]:
        case "confirm" if turn.text.strip().lower() not in YES:
            return Reject("Nothing was refunded.")
        case "confirm" if amount >= LARGE:
            text = (
                f"A manager must approve ${amount}. Send the code of the manager's page for {turn.task_id}."
            )
            return ask(turn, "approve", order, amount, text)
        case "approve" if not is_approved(turn):
            return Reject("This is not the manager's code. Nothing was refunded.")
    return pay(turn, order, amount)


def ask(turn: Turn, step: str, order: str, amount: Decimal, question: str) -> Ask:
    """Ask, and keep what is asked. The task waits for the answer, which calls `refund` again."""
    values = {"order": order, "amount": str(amount)}
    turn.memory.set(turn.task_id, {**values, "step": step})
    return (Ask if step == "confirm" else Authorize)(question, known=values)


def is_approved(turn: Turn) -> bool:
    expected = approval_code(turn.secret("approval"), turn.task_id)
    return hmac.compare_digest(turn.text.strip().encode(), expected.encode())


def approval_code(secret: str, task_id: str) -> str:
    """What the manager's page computes. It is for one task only."""
    return hmac.new(secret.encode(), task_id.encode(), hashlib.sha256).hexdigest()[:12]


def pay(turn: Turn, order: str, amount: Decimal) -> str:
    """Replace this with a call of your payment service. turn.id is its idempotency key: turns may repeat."""
    return f"Refunded ${amount} for order {order}."
