"""A request for a push notification config of 1.0, as other clients write it."""

from typing import Any

import pytest

from a2a_lambda.wire import v1_0

CONFIG = {"url": "https://example.com/hook", "token": "t"}


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"config": CONFIG}, {}),  # a2a-rs
        ({"configId": "c", "config": CONFIG}, {"id": "c"}),  # a2a-dotnet
        ({"configId": "c", "config": {**CONFIG, "id": "d"}}, {"id": "c"}),
        ({"config": {**CONFIG, "id": "d"}}, {"id": "d"}),
        ({"id": None, "token": "", "config": {**CONFIG, "id": "d"}}, {"id": "d"}),
        ({"token": "outer", "config": CONFIG}, {"token": "outer"}),
    ],
)
def test_a_config_may_be_in_a_field_of_its_own(params: Any, fields: Any) -> None:
    assert v1_0.decode_config({"taskId": "t", **params}) == {"taskId": "t", **CONFIG, **fields}
