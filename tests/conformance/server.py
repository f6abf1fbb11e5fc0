"""Serves the conformance agent, every version at once.

python -m tests.conformance.server [PORT] [--plain] [--any-media]

--plain: its card declares neither streaming nor push notifications.
--any-media: it takes files of any type, as the kit's state of May 2026 wants against its own text.
"""

import shutil
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn

from a2a_lambda.aws import clients
from a2a_lambda.aws.queue import Sqs
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import TurnReference
from tools.dev import emulator, event_sources
from tools.dev.server import prepare

AGENTS = Path(__file__).parent / "agents"
PORT = 9999
KEY = "conformance-key"
LATER_SECONDS = 0.4


class Later(Sqs):
    """A queue that takes turns a little later. The conformance kit reads a task twice, one read after the
    other, and wants the same state; a second after it was sent it wants the turn to run."""

    def send(self, ticket: TurnReference) -> None:
        threading.Timer(LATER_SECONDS, super().send, (ticket,)).start()


def main(arguments: list[str]) -> None:
    port = int(next((argument for argument in arguments if argument.isdigit()), PORT))
    with emulator.running() as url, tempfile.TemporaryDirectory() as folder:
        agents = Path(shutil.copytree(AGENTS, Path(folder) / "agents"))
        card = agents / "conformance" / "card.yaml"
        text = card.read_text()
        if "--plain" in arguments:
            for capability in ("streaming", "pushNotifications"):
                assert f"{capability}: true" in text
                text = text.replace(f"{capability}: true", f"{capability}: false")
        if "--foreground" in arguments:
            assert "background: true" in text
            text = text.replace("background: true", "background: false")
        if "--any-media" in arguments:
            text = text.replace("defaultInputModes: [", 'defaultInputModes: ["*/*", ')
        card.write_text(text)
        settings = Settings(
            table="conformance",
            keys_path="/conformance/keys",
            base_url=f"http://localhost:{port}",
            agents=agents,
            repeat_seconds=0,
            local=True,
            emulator=url,
        )
        prepare(settings, KEY)
        queues = event_sources.create_queues(clients.sqs(settings), settings.table)
        settings = settings.model_copy(
            update={
                "queue": queues.turns,
                "dead_letters": queues.dead_arn,
                "notices": queues.notices,
                "loopback_webhooks": True,
            }
        )
        kit = Kit(settings)
        kit.__dict__["queue"] = Later(clients.sqs(settings), queues.turns)
        event_sources.PAUSES_SECONDS = (0.1, 0.5)
        event_sources.start(kit)
        print(f"serving http://localhost:{port} with the key {KEY}", flush=True)
        uvicorn.run(create_app(kit), host="localhost", port=port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1:])
