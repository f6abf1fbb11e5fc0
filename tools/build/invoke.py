"""make invoke EVENT=events/send.json: one event through the built function, under AWS's emulator of
Lambda, without Docker. It uses the state of the running development server, or its own for this call."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from a2a_lambda.agent.configuration import ENVIRONMENT_FILE, kind_of, read_variables
from a2a_lambda.catalog.agents import default_of, read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.http.request import Target, target_of
from a2a_lambda.settings import Settings
from tools import environments
from tools.build.built_functions import MACHINE_ARCHITECTURE, Built, find_rie, interpreter
from tools.builds import check_system
from tools.command import note_unread_variables, reports_errors
from tools.dev import emulator
from tools.dev.server import prepare
from tools.state import KEYS_PATH, TABLE, read_state

HOST_BUILDS = Path(".aws-sam/host")
"""Builds for this machine, one for each agent, because all agents together may be too large. Beside each is
the digest of what it was made from."""

MADE = ".manifest.json"
"""A file that a build writes among its sources."""

BUILD_INPUTS = tuple(
    map(Path, ("functions", "layers", "tools/build", "template.yaml", "templates", "uv.lock"))
)


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    check_system("make invoke")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    event, function = _event(environ.get("EVENT", "").split())
    agents = read_cards(Settings.of(environ).agents)[0]
    default = default_of(agents) or next(iter(agents), "")
    if (name := agent_in(event)) and name not in agents:
        print(f"there is no agent {name}, so the event is sent to {default}", file=sys.stderr)
    event = with_agent(event, agents, default)
    read_state(environ)  # raises for a wrong PORT, before anything is built
    folder_of_build = HOST_BUILDS / (agent_in(event) or default)
    if status := build_agent(folder_of_build):
        return status
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variables = {
            "A2A_EMULATOR": _emulator(stack, environ),
            "A2A_TABLE": TABLE,
            "A2A_KEYS_PATH": KEYS_PATH,
        }
        build = Built(
            folder_of_build, folder, _own_values() | variables | {"A2A_LOCAL": "1", "A2A_REPEAT_SECONDS": "0"}
        )
        log = stack.enter_context((folder / "log").open("w+b"))
        rie = find_rie(environments.VENVS / "sam")
        try:
            url = stack.enter_context(build.emulate(function, rie, output=log))
            print(format_answer(_post(url, event)))
        finally:
            log.seek(0)
            print("\nlog:\n" + log.read().decode("utf-8", "replace"), file=sys.stderr)
    return 0


def build_agent(folder: Path) -> int:
    """Build the agent that a folder of HOST_BUILDS is named after, silently if it succeeds, and unless the
    last build is of the same files. Returns the exit status."""
    digest, built = _digest(), folder.with_suffix(".digest")
    if built.exists() and built.read_text("utf-8") == digest and folder.is_dir():
        return 0
    built.unlink(missing_ok=True)
    print(f"building {folder.name}", file=sys.stderr)
    process = subprocess.run(
        [sys.executable, "-m", "tools.build.sam", "build"],
        env=os.environ
        | {
            "ARCH": MACHINE_ARCHITECTURE,
            "LAMBDA_PYTHON": interpreter()[1],
            "BUILD_DIR": str(folder),
            "AGENTS": folder.name,
            "STAGE": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if process.returncode:
        sys.stderr.buffer.write(process.stdout)
    else:
        built.write_text(digest, "utf-8")
    return process.returncode


def _digest() -> str:
    """Digest of everything that a build reads, and of what it is for."""
    digest = hashlib.sha256(f"{MACHINE_ARCHITECTURE} {interpreter()[1]}".encode())
    for place in BUILD_INPUTS:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts and path.name != MADE:
                digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _event(names: list[str]) -> tuple[dict[str, Any], str]:
    """The event of a file, and the function that it is for. Raises ConfigurationError."""
    example = "make invoke EVENT=events/send.json"
    if len(names) != 1:
        raise ConfigurationError(f"name one event, such as {example}")
    try:
        event = json.loads(Path(names[0]).read_text("utf-8"))
        return event, function_of(event)
    except FileNotFoundError:
        paths = ", ".join(sorted(map(str, Path("events").glob("*.json")))) or "none"
        raise ConfigurationError(f"there is no file {names[0]}. Events: {paths}") from None
    except ValueError as error:
        raise ConfigurationError(f"{names[0]} is not JSON: {error}") from None
    except (OSError, AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{names[0]} is not an event of API Gateway: {error!r}") from None


def _own_values() -> dict[str, str]:
    """Secrets and settings in .env, which the built function does not read. Raises ConfigurationError."""
    variables = read_variables(ENVIRONMENT_FILE)
    note_unread_variables(variables, "make invoke")
    return {variable: value for variable, value in variables.items() if kind_of(variable) is not None}


def with_agent(event: dict[str, Any], agents: Collection[str], default: str) -> dict[str, Any]:
    """An event for an agent that is there. If its path names another one, it goes to the default agent."""
    prefix, name, _ = _target_of(event)
    if not name or name in agents:
        return event
    # The event has the path several times, once without the first slash.
    path = rf"(?<![\w-]){re.escape(prefix)}/{re.escape(name)}(?![\w-])"
    copy: dict[str, Any] = json.loads(re.sub(path, f"{prefix}/{default}", json.dumps(event)))
    return copy


def agent_in(event: Mapping[str, Any]) -> str:
    """The agent that the path of an event names; "" = the default one."""
    return _target_of(event).agent or ""


def _target_of(event: Mapping[str, Any]) -> Target:
    # An event of an HTTP API, or of a function URL, has its path in rawPath.
    return target_of(str(event.get("path") or event.get("rawPath") or ""))


def function_of(event: dict[str, Any]) -> str:
    """The function that gets an event, by the routes of template.yaml or by its function URL."""
    domain = event.get("requestContext", {}).get("domainName", "")
    if "httpMethod" in event and "resource" in event:
        return "api" if event["path"].startswith("/.well-known/") else "rpc"
    return "rpc" if ".lambda-url." in domain else "api"


def format_answer(answer: bytes) -> str:
    """Status, headers and body of an answer, streamed or buffered. Anything else as it is."""
    prelude, delimiter, body = answer.partition(bytes(8))
    fields = json.loads(prelude)
    if "statusCode" not in fields:
        return json.dumps(fields, indent=2)
    headers = [f"{name}: {value}" for name, value in fields.get("headers", {}).items()]
    if not delimiter:
        body = base64.b64decode(fields["body"]) if fields["isBase64Encoded"] else fields["body"].encode()
    text = body.decode("utf-8", "replace")
    return "\n".join([str(fields["statusCode"]), *headers, "", text])


def _emulator(stack: ExitStack, environ: Mapping[str, str]) -> str:
    if url := str(read_state(environ).get("emulator", "")):
        return url
    url = stack.enter_context(emulator.running())
    prepare(Settings(table=TABLE, keys_path=KEYS_PATH, local=True, emulator=url), "local-key")
    return url


def _post(url: str, event: dict[str, Any]) -> bytes:
    with urllib.request.urlopen(url, json.dumps(event).encode(), timeout=900) as response:  # noqa: S310
        answer: bytes = response.read()
        return answer


if __name__ == "__main__":
    sys.exit(main())
