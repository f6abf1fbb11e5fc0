"""Resources of a translated template."""

from typing import Any

Json = Any


def of_type(resources: Json, kind: str) -> dict[str, Json]:
    return {name: item for name, item in resources.items() if item["Type"] == kind}
