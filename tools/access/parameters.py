"""What the commands of keys and issuers share: Parameter Store, and the variables both take."""

from collections.abc import Mapping, Sequence
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.command import agent_folder, split_names
from tools.deployment.stack import table_of
from tools.state import KEYS_PATH, emulator_of, port_argument, server_port


def find_parameters(environ: Mapping[str, str]) -> tuple[Any, str]:
    """Client of Parameter Store, and the path of the keys there: of STACK, or of the running server. Raises
    ConfigurationError."""
    if stack := environ.get("STACK"):
        table_of(stack)  # raises if there is no such stack: a key for it would be useless
        return clients.session().create_client("ssm"), f"/a2a/{stack}/keys"  # which tries several times
    url = emulator_of(environ, "AWS_ENDPOINT_URL_SSM")
    path = environ.get("A2A_KEYS_PATH") or KEYS_PATH
    return clients.ssm(Settings(local=True, emulator=url)), path


def stack_argument(environ: Mapping[str, str]) -> str:
    """ " STACK=…", for a command that the user copies; "" = the development server."""
    return f" STACK={environ['STACK']}" if environ.get("STACK") else ""


def check_command(environ: Mapping[str, str], agents: Sequence[str]) -> str:
    """A command that calls an agent, for the user to complete. agents: those that it may call; empty =
    all."""
    if environ.get("STACK") and not agents:
        return f"make doctor{stack_argument(environ)}"
    agent = f" AGENT={agents[0]}" if agents else ""
    return f"make chat{stack_argument(environ) or port_argument(server_port(environ))}{agent}"


def named_agents(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The agents of AGENTS=a,b. Raises ConfigurationError if there is no such agent."""
    agents, names = Settings().agents, split_names(environ.get("AGENTS", ""))
    if environ.get("AGENTS") and not names:
        raise ConfigurationError("AGENTS names no agent: leave it out if all agents may be called")
    return tuple(agent_folder(name, agents).name for name in names)
