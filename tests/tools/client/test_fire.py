"""make fire, where no make run answers."""

from typing import Any

import pytest

from a2a_lambda.errors import ConfigurationError
from tools.client.fire import ask_server


@pytest.mark.parametrize(("status", "body"), [(200, "hello"), (404, "{}"), (200, "")])
def test_another_server_at_the_port_is_a_mistake(httpserver: Any, status: int, body: str) -> None:
    httpserver.expect_request("/playground/schedules").respond_with_data(body, status=status)
    with pytest.raises(ConfigurationError, match=f"port {httpserver.port} does not answer as make run does"):
        ask_server(httpserver.port, {})
