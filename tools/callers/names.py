"""Clients of the kit's doors, by the names that the playground and `make chat` use."""

from collections.abc import Mapping

import httpx2

from a2a_lambda.client.discovery import DiscoveredAgent
from a2a_lambda.errors import ConfigurationError
from tools.callers import mcp
from tools.callers.a2a import VERSIONS, A2aCaller

AnyCaller = A2aCaller | mcp.McpCaller

TITLES: Mapping[str, str] = {
    **{name: version.title for name, version in VERSIONS.items()},
    mcp.NAME: mcp.TITLE,
}
"""Title of each version of A2A, of each platform, and of MCP."""


def make_caller(
    http: httpx2.AsyncClient,
    base: str,
    version: str,
    *,
    key: str = "",
    name: str = "",
    agent: DiscoveredAgent | None = None,
) -> AnyCaller:
    """A client of a version; see `A2aCaller`. Raises ConfigurationError."""
    if version not in TITLES:
        raise ConfigurationError(f"VERSION={version}: use one of {', '.join(TITLES)}")
    if version == mcp.NAME:
        return mcp.McpCaller(http, base, key=key, name=name)
    return A2aCaller(http, base, VERSIONS[version], key=key, name=name, agent=agent)
