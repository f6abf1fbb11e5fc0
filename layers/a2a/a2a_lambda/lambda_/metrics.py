"""Measurements as CloudWatch metrics, in the embedded metric format.

    Turns            service, agent, outcome (state of the task); service and outcome
    FirstEventTime   service; service and agent. Milliseconds from the invocation's start
    RunTime          service; service and agent. Milliseconds of a turn, or of one run of a durable turn
    Pushes           service, agent, outcome (delivered, gone, refused, failed)
    Faults           service, function. Answers that report a server fault
    FailedRecords    service, function. Records of queues and of the stream, except notifications; also tasks
                     and schedules that the worker could not look at
    KeyFailures      service, function. Failed reads of Parameter Store, or of an issuer's public keys
    Sweeps           service, function
    DynamoDBCalls    service, function. Calls in an invocation

Most invocations write one line: a log's bytes cost money. A line has a measurement only once, and one value
for each dimension and id. What does not fit into it begins another line.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
import logging
import sys
import threading
import time
from collections import Counter
from typing import Any

from a2a_lambda import telemetry
from a2a_lambda.telemetry import Dimensions, Values

NAMESPACE = "A2A"

TIME_METRICS = ("FirstEventTime", "RunTime")

logger = logging.getLogger(__name__)


class Metrics:
    """Takes measurements, from any thread.

    service, function: names of the deployment and of the function. by_agent: whether each agent has metrics
    of its own, besides those of the service. Every one costs money.
    """

    def __init__(self, service: str, function: str, *, by_agent: bool = True) -> None:
        self._service = service
        self._function = function
        self._splits_by_agent = by_agent
        self._sums: Counter[str] = Counter()
        self._lines: list[_Line] = []
        self._lock = threading.Lock()

    def take(self, values: Values, dimensions: Dimensions) -> None:
        with self._lock:
            if dimensions:
                self._add(values, dimensions)
            else:
                self._sums.update(values)

    def write(self) -> None:
        """Write what an invocation has measured."""
        with self._lock:
            sums, self._sums = self._sums, Counter()
            if sums:
                self._add(sums, {"function": self._function})
            # Taken under the lock and written after it: threads of agents may measure while this writes.
            lines, self._lines = self._lines, []
        try:
            sys.stdout.write("".join(line.text() for line in lines))
            sys.stdout.flush()
        except Exception:  # a measurement must not fail an invocation
            logger.exception("metrics were not written")

    def _add(self, values: Values, dimensions: Dimensions) -> None:
        metric_dimensions = [name for name in dimensions if self._splits_by_agent or name != "agent"]
        sets = [["service", *metric_dimensions]]
        if "agent" in metric_dimensions and any(name in TIME_METRICS for name in values):
            sets.append(["service"])
        if "agent" in metric_dimensions and "Turns" in values:
            sets.append(["service", "outcome"])
        fields = {"service": self._service, **telemetry.ids(), **dimensions}
        numbers = {name: value * 1000 if name in TIME_METRICS else value for name, value in values.items()}
        # One line can carry several measurements, as long as they agree on the fields that they share, and
        # none measures the same thing twice. CloudWatch charges by the byte of log.
        if not self._lines or not self._lines[-1].takes(fields, numbers):
            self._lines.append(_Line())
        self._lines[-1].add(fields, numbers, sets)


class _Line:
    """A line in the embedded metric format, with a directive for each measurement."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._directives: list[dict[str, Any]] = []

    def takes(self, fields: dict[str, Any], numbers: dict[str, float]) -> bool:
        """Whether these change nothing that is on the line."""
        is_same = all(self._fields.get(name, value) == value for name, value in fields.items())
        return is_same and not any(name in self._fields for name in numbers)

    def add(self, fields: dict[str, Any], numbers: dict[str, float], sets: list[list[str]]) -> None:
        """sets: sets of dimensions, each of which makes separate metrics."""
        self._fields |= fields
        self._fields |= numbers
        units = {name: "Milliseconds" if name in TIME_METRICS else "Count" for name in numbers}
        metrics = [{"Name": name, "Unit": unit} for name, unit in units.items()]
        self._directives.append({"Namespace": NAMESPACE, "Dimensions": sets, "Metrics": metrics})

    def text(self) -> str:
        head = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": self._directives}
        return json.dumps({"_aws": head, **self._fields}, separators=(",", ":"), ensure_ascii=False) + "\n"


def install(service: str, function: str, *, by_agent: bool) -> Metrics:
    """Make metrics of all measurements of the process."""
    metrics = Metrics(service, function, by_agent=by_agent)
    telemetry.sink = metrics.take
    return metrics
