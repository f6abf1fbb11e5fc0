"""Measurements as CloudWatch metrics, in the embedded metric format, which Powertools writes.

    Turns            service, agent, outcome (state of the task); service and outcome
    FirstEventTime   service; service and agent. Milliseconds from the invocation's start
    RunTime          service; service and agent. Milliseconds of the agent's turn
    Pushes           service, agent, outcome (delivered, gone, refused, failed)
    FailedRecords    service, function. Records of queues and of the stream, except notifications
    KeyFailures      service, function. Reads of Parameter Store that failed
    DynamoDBCalls    service, function. Calls in an invocation

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import logging
import threading
from collections import Counter
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from a2a_lambda import telemetry
from a2a_lambda.telemetry import Dimensions, Values

NAMESPACE = "A2A"

TIMES = ("FirstEventTime", "RunTime")

logger = logging.getLogger(__name__)


class Metrics:
    """Takes measurements, from any thread.

    service, function: names of the deployment and of the function. by_agent: whether each agent has metrics
    of its own, besides those of the service. Every one costs money.
    """

    def __init__(self, service: str, function: str, *, by_agent: bool = True) -> None:
        self._service = service
        self._function = function
        self._by_agent = by_agent
        self._sums: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, values: Values, dimensions: Dimensions) -> None:
        with self._lock:  # Powertools writes a line in two steps
            if dimensions:
                self._write(values, dimensions)
            else:
                self._sums.update(values)

    def flush_sums(self) -> None:
        """Write the sums of an invocation."""
        with self._lock:
            sums, self._sums = self._sums, Counter()
            if sums:
                self._write(sums, {"function": self._function})

    def _write(self, values: Values, dimensions: Dimensions) -> None:
        try:
            self._line(values, dimensions)
        except Exception:  # a measurement must not fail a turn
            logger.exception("a metric was not written")

    def _line(self, values: Values, dimensions: Dimensions) -> None:
        metrics: Any = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
        own = {name: named for name, named in dimensions.items() if self._by_agent or name != "agent"}
        for name, named in own.items():
            metrics.add_dimension(name, named)
        if "agent" in own and any(name in TIMES for name in values):
            metrics.add_dimensions(service=self._service)
        if "agent" in own and "Turns" in values:
            metrics.add_dimensions(service=self._service, outcome=own["outcome"])
        for name, value in values.items():
            if name in TIMES:
                metrics.add_metric(name, MetricUnit.Milliseconds, value * 1000)
            else:
                metrics.add_metric(name, MetricUnit.Count, value)
        for name, identity in {**dimensions, **telemetry.ids()}.items():
            if name not in own:
                metrics.add_metadata(name, identity)
        metrics.flush_metrics()


def install(service: str, function: str, *, by_agent: bool) -> Metrics:
    """Make metrics of all measurements of the process."""
    metrics = Metrics(service, function, by_agent=by_agent)
    telemetry.sink = metrics.take
    return metrics
