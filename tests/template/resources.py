"""Resources of a translated template."""

from typing import Any

FUNCTIONS: dict[str, tuple[str, list[str]]] = {
    "ApiFunction": ("api.handler", []),
    "RpcFunction": ("rpc.handler", ["A2A_NEXT_WRAPPER", "A2A_DURABLE_FUNCTION"]),
    "WorkerFunction": ("worker.handler", ["A2A_DEAD_LETTERS", "A2A_DURABLE_FUNCTION"]),
    "DurableFunction": ("durable.handler", []),
    "NotifierFunction": ("notifier.handler", ["A2A_NOTICES"]),
}
"""Handler, and variables of its own."""


def of_type(resources: Any, kind: str) -> dict[str, Any]:
    return {name: item for name, item in resources.items() if item["Type"] == kind}
