"""Measures one contestant, in a process of its own, on Lambda's Python.

    python probe.py <result file> <module> <what> <options as JSON>

`module` has a Lambda handler. The result is JSON. Times are milliseconds of the processor, of all threads.
"""

import asyncio
import base64
import importlib
import json
import os
import re
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

KEY = "local-key"

PATH = "/bench/keys"


class Context:
    """Lambda's context."""

    function_name = "bench"
    function_version = "$LATEST"
    aws_request_id = "00000000-0000-0000-0000-000000000000"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:bench"
    memory_limit_in_mb = "1024"

    def get_remaining_time_in_millis(self) -> int:
        return 600_000


def event(method: str, params: Any, http: str = "POST", path: str = "/") -> Any:
    """An event of a REST API."""
    headers = {
        "Content-Type": "application/json",
        "A2A-Version": "1.0",
        "X-API-Key": KEY,
        "Host": "bench.example.com",
    }
    body = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}
    return {
        "resource": path,
        "path": path,
        "httpMethod": http,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"path": path, "stage": "a2a", "identity": {"sourceIp": "127.0.0.1"}},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def message(text: str = "hi", skill: str = "", **fields: Any) -> Any:
    metadata = {"metadata": {"intentInfos": [{"intent": skill, "slots": []}]}} if skill else {}
    return {
        "message": {
            "messageId": str(uuid.uuid4()),
            "role": "ROLE_USER",
            "parts": [{"text": text}],
            **metadata,
            **fields,
        }
    }


class Contestant:
    """A handler. A streamed answer is made by a loop that stays, as the kit's runtime does."""

    def __init__(self, module: str, options: Any) -> None:
        if options.get("memory"):
            self._replace_aws()
        if options.get("streams"):
            from a2a_lambda.lambda_.streaming import CAN_STREAM

            os.environ[CAN_STREAM] = "1"
        self._handler = importlib.import_module(module).handler
        if options.get("has_tls"):  # AWS is called over TLS, the services of this measurement are not
            from a2a_lambda.aws.lean.connections import aws_tls_context

            aws_tls_context()
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    @staticmethod
    def _replace_aws() -> None:
        from a2a_lambda.aws import hot_path
        from lab.memory_table import MemoryParameters, MemoryTable

        table: Any = MemoryTable()
        parameters: Any = MemoryParameters(PATH, KEY)
        hot_path.dynamodb = lambda settings: table
        hot_path.ssm = lambda settings: parameters

    def invoke(self, invocation: Any) -> tuple[int, bytes, float]:
        """Status, body, and seconds by the clock to the first byte of the body; 0 if it is not streamed."""
        start = time.perf_counter()
        answer = self._handler(invocation, Context())
        if isinstance(answer, dict):
            return answer["statusCode"], answer["body"].encode(), 0.0
        chunks: list[tuple[float, bytes]] = []

        async def write(chunk: bytes) -> None:
            chunks.append((time.perf_counter(), chunk))

        self._loop.run_until_complete(answer.stream(write))
        answer.release()
        status = json.loads(chunks[0][1].partition(bytes(8))[0])["statusCode"]
        return status, b"".join(chunk for _, chunk in chunks[1:]), chunks[1][0] - start

    def call(self, method: str, params: Any) -> Any:
        """Result of a call. Raises ValueError on an error."""
        status, body, _ = self.invoke(event(method, params))
        answer = json.loads(body)
        if status != 200 or "error" in answer:
            raise ValueError(f"{method}: {status} {body[:500]!r}")
        return answer["result"]


def cost(work: Callable[[], object], times: int = 1) -> float:
    """Milliseconds of the processor that one of several calls takes."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) * 1000 / times


def measure_cold(module: str, options: Any) -> Any:
    """Import, and with `path` or `send` one answered request. The caller measures this process."""
    contestant = Contestant(module, options)
    if options.get("path"):
        status, _, _ = contestant.invoke(event("", {}, http="GET", path=options["path"]))
        assert status == 200, status
    if options.get("send"):
        contestant.call("SendMessage", message())
    return {
        "modules": len(sys.modules),
        "memory": int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024,
    }


def measure_send(module: str, options: Any) -> Any:
    """A warm send, and a warm stream if the contestant has streams."""
    contestant = Contestant(module, options)

    def send() -> None:
        contestant.call("SendMessage", message())

    def stream() -> None:
        status, body, first = contestant.invoke(event("SendStreamingMessage", message()))
        assert status == 200, body
        assert b"Hello World" in body, body
        firsts.append(first * 1000)

    firsts: list[float] = []
    works = [("send", send)] + ([("stream", stream)] if options.get("streamed", True) else [])
    costs: dict[str, Any] = {}
    for name, work in works:
        cost(work, 50)
        firsts.clear()
        costs[name] = min(cost(work, options["times"]) for _ in range(3))
    return costs | ({"first event": statistics.median(firsts)} if any(firsts) else {})


def measure_chunks(module: str, options: Any) -> Any:
    """Streams of so many chunks each."""
    contestant = Contestant(module, options)
    skill = "" if options.get("peer") else "chunks"

    def stream(count: int) -> None:
        params = message(str(count), skill)
        status, body, _ = contestant.invoke(event("SendStreamingMessage", params))
        assert status == 200, body
        assert body.count(b"chunk ") >= count, body[-500:]

    stream(10)
    return {str(count): min(cost(partial(stream, count)) for _ in range(3)) for count in options["counts"]}


def measure_growth(module: str, options: Any) -> Any:
    """Operations on more and more."""
    contestant = Contestant(module, options)
    call = contestant.call
    costs: dict[str, dict[str, float]] = {"get": {}, "turn": {}, "list": {}, "message": {}}
    tasks = 0
    for count in (10, 100, 1_000, 10_000):
        while tasks < count:
            call("SendMessage", message())
            tasks += 1
        page = partial(call, "ListTasks", {"pageSize": 100})
        costs["list"][str(count)] = min(cost(page) for _ in range(3))
    for count in (10, 100, 1_000, 10_000):
        task = call("SendMessage", message(str(count), "chunks"))["task"]
        get = partial(call, "GetTask", {"id": task["id"]})
        costs["get"][str(count)] = min(cost(get) for _ in range(3))
    context = str(uuid.uuid4())
    turns: list[float] = []
    for turn in range(1, 1_001):
        turns.append(cost(lambda: call("SendMessage", message(contextId=context))))
        if turn in (10, 30, 100, 300, 1_000):
            costs["turn"][str(turn)] = statistics.median(turns[-10:])
    for kilobytes in (1, 10, 100, 1_000, 4_000, 6_000):
        send = partial(contestant.invoke, event("SendMessage", message("x" * kilobytes * 1_000)))
        costs["message"][str(kilobytes)] = min(cost(send) for _ in range(3))
    return costs


def measure_calls(module: str, options: Any) -> Any:
    """Calls to DynamoDB of each operation, and their bytes."""
    from a2a_lambda.aws.lean.connections import Connections

    contestant = Contestant(module, options)
    counters = [0, 0, 0]
    post = Connections.post

    def counting(self: Any, headers: Any, body: bytes) -> Any:
        answer = post(self, headers, body)
        counters[:] = counters[0] + 1, counters[1] + len(body), counters[2] + len(answer.body)
        return answer

    Connections.post = counting  # type: ignore[method-assign]
    task = contestant.call("SendMessage", message(contextId=str(uuid.uuid4())))["task"]
    operations: dict[str, tuple[str, Any]] = {
        "send": ("SendMessage", message()),
        "send in a context": ("SendMessage", message(contextId=task["contextId"])),
        "stream": ("SendStreamingMessage", message()),
        "get": ("GetTask", {"id": task["id"]}),
        "list 10 tasks": ("ListTasks", {"pageSize": 10}),
    }
    for _ in range(10):
        contestant.call("SendMessage", message())
    counts = {}
    for name, (method, params) in operations.items():
        counters[:] = 0, 0, 0
        status, body, _ = contestant.invoke(event(method, params))
        assert status == 200, body
        counts[name] = counters.copy()
    return counts


def measure_put(module: str, options: Any) -> Any:
    """A write through the kit's client and through botocore's."""
    kit = importlib.import_module(module).kit
    from a2a_lambda.aws import clients, hot_path

    item: Any = {"pk": {"S": "bench"}, "sk": {"S": "put"}, "document": {"B": b"x" * 1_000}}
    item |= {f"field{number}": {"S": "x" * 20} for number in range(15)}
    costs = {}
    for name, client in (
        ("kit", hot_path.dynamodb(kit.settings)),
        ("botocore", clients.dynamodb(kit.settings)),
    ):
        put = partial(client.put_item, TableName="bench", Item=item)
        cost(put, 50)
        costs[name] = min(cost(put, options["times"]) for _ in range(3))
    return costs


def measure_background(module: str, options: Any) -> Any:
    """A send that the worker runs, with that run; and a push: a change of a task, relayed and delivered."""
    from a2a_lambda.store.documents import pack

    contestant = Contestant(module, options)
    worker, notifier = (importlib.import_module(name).handler for name in ("worker", "notifier"))
    bodies: list[str] = []
    queue = importlib.import_module(module).kit.queue._client
    send_message = queue.send_message

    def sending(**arguments: Any) -> Any:
        bodies.append(arguments["MessageBody"])
        return send_message(**arguments)

    queue.send_message = sending

    def record(body: str) -> Any:
        return {
            "messageId": str(uuid.uuid4()),
            "receiptHandle": "handle",
            "body": body,
            "attributes": {"ApproximateReceiveCount": "1"},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:turns",
        }

    def invoke(handler: Any, records: list[Any]) -> None:
        answer = handler({"Records": records}, Context())
        assert answer == {"batchItemFailures": []}, answer

    def background() -> None:
        contestant.call("SendMessage", message() | {"configuration": {"returnImmediately": True}})
        invoke(worker, [record(bodies.pop())])

    config = {"id": "webhook", "url": options["webhook"]}
    request = message() | {"configuration": {"taskPushNotificationConfig": config}}
    task = contestant.call("SendMessage", request)["task"]["id"]

    def push() -> None:
        image = {
            "pk": {"S": f"bench#hello#task#{task}"},
            "sk": {"S": "head"},
            "changed": {"S": f"2026-11-22T00:00:00.000Z#{task}"},
            "state": {"S": "TASK_STATE_COMPLETED"},
            "version": {"N": "1"},
            "document": {"B": base64.b64encode(pack({"push": ["webhook"]})["B"]).decode()},
        }
        old = image | {"state": {"S": "TASK_STATE_WORKING"}}
        change: Any = {"NewImage": image, "OldImage": old, "SequenceNumber": "1"}
        change["ApproximateCreationDateTime"] = time.time()
        invoke(notifier, [{"eventSource": "aws:dynamodb", "eventID": "1", "dynamodb": change}])
        invoke(notifier, [record(json.dumps(["bench", "hello", task, "webhook"]))])

    costs = {}
    for name, work in (("background", background), ("push", push)):
        cost(work, 30)
        costs[name] = min(cost(work, options["times"]) for _ in range(3))
    return costs


MEASUREMENTS = {
    "background": measure_background,
    "put": measure_put,
    "cold": measure_cold,
    "send": measure_send,
    "chunks": measure_chunks,
    "growth": measure_growth,
    "calls": measure_calls,
}


def main() -> None:
    _, result, module, what, options = sys.argv
    figures = MEASUREMENTS[what](module, json.loads(options))
    Path(result).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
