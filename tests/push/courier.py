"""A webhook, and what brings notifications to it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import NotificationHandler
from tools.dev import event_sources
from tools.stream_records import to_lambda_json


class Webhook:
    """Receives, and answers with the next of `answers`, or else with `status`."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], Any, bytes]] = []
        self.status = 200
        self.answers: list[int] = []
        self.location = "http://127.0.0.1:1/"
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                webhook.seen.append((headers, json.loads(body), body))
                self.send_response(webhook.answers.pop(0) if webhook.answers else webhook.status)
                self.send_header("Location", webhook.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Courier:
    """Calls the notifier's handler with what the stream and the queue would bring it."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.handler = NotificationHandler(kit.push_notifications)
        self.records = event_sources.StreamRecords(kit)
        self.iterator = self.records.first("LATEST")  # not what other tests did
        self.sqs = clients.sqs(kit.settings)

    def relay(self) -> None:
        """All records there are."""
        if wanted := self.pending():
            assert self.handler({"Records": wanted}, event_sources.LambdaContext()) == {
                "batchItemFailures": []
            }

    def pending(self) -> list[Any]:
        """Records no one has looked at yet."""
        records = [to_lambda_json(record) for record in self._read()]
        return [record for record in records if self.records.wants(record)]

    def _read(self) -> list[Any]:
        """A page of the stream."""
        answer = clients.streams(self.kit.settings).get_records(ShardIterator=self.iterator)
        self.iterator = answer["NextShardIterator"]
        records: list[Any] = answer["Records"]
        return records

    def deliver(self) -> list[bool]:
        """All messages there are; whether each was taken."""
        outcomes: list[bool] = []
        while True:
            batch = self.sqs.receive_message(
                QueueUrl=self.kit.settings.notices, MaxNumberOfMessages=1, AttributeNames=["All"]
            ).get("Messages", [])
            if not batch:
                return outcomes
            [queue_message] = batch
            record = event_sources.sqs_record(queue_message, "notices")
            answer = self.handler({"Records": [record]}, event_sources.LambdaContext())
            outcomes.append(not answer["batchItemFailures"])
            if outcomes[-1]:
                self.sqs.delete_message(
                    QueueUrl=self.kit.settings.notices, ReceiptHandle=queue_message["ReceiptHandle"]
                )
