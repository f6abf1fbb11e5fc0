"""A person decides: a question before an action, and a code of a manager before a large one."""

import hashlib
import hmac
from decimal import Decimal
from typing import Annotated

from a2a_lambda import Ask, Authorize, Reject, Turn, skill

LARGE = Decimal(100)
"""Refunds from this amount on need a manager."""

YES = {"yes", "y", "ok", "是", "是的", "好", "好的", "可以", "同意", "确认"}


@skill
def refund(
    turn: Turn,
    order: Annotated[str, "the number of the order"],
    amount: Annotated[Decimal, "the amount in dollars"],
) -> str | Ask | Reject:
    # What was asked is in the memory: the answer to a question could come with another order or amount.
    request = turn.memory.get(turn.task_id)
    if request is None or not turn.answering:
        if amount <= 0:
            return Reject("The amount must be more than zero.")
        return ask(turn, "confirm", order, amount, f"Refund ${amount} for order {order}? yes or no")
    turn.memory.delete(turn.task_id)
    order, amount = request["order"], Decimal(request["amount"])
    match request["step"]:
        case "confirm" if turn.text.strip().lower() not in YES:
            return Reject("Nothing was refunded.")
        case "confirm" if amount >= LARGE:
            text = f"A manager must approve ${amount} for order {order}. Send the code for request {turn.id}."
            return ask(turn, "approve", order, amount, text)
        case "approve" if not is_approved(turn, request):
            return Reject("This is not the manager's code. Nothing was refunded.")
    return pay(request["id"], order, amount)


def ask(turn: Turn, step: str, order: str, amount: Decimal, question: str) -> Ask:
    """Ask, and keep what is asked. The task waits for the answer, which calls `refund` again."""
    values = {"order": order, "amount": str(amount)}
    turn.memory.set(turn.task_id, {**values, "step": step, "id": turn.id})
    return (Ask if step == "confirm" else Authorize)(question, known=values)


def is_approved(turn: Turn, request: dict[str, str]) -> bool:
    expected = approval_code(turn.secret("approval"), request["id"], request["order"], request["amount"])
    return hmac.compare_digest(turn.text.strip().encode(), expected.encode())


def approval_code(secret: str, request: str, order: str, amount: str) -> str:
    """What the manager's page computes. It is for one request: the next one has another id."""
    text = "\n".join((request, order, amount))
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()[:16]


def pay(request: str, order: str, amount: Decimal) -> str:
    """Replace this with a call of your payment service. A turn may run twice, so give it `request` as its
    idempotency key: it is the same each time, and another one for the next refund."""
    return f"Refunded ${amount} for order {order}."
