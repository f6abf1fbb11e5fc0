"""Measurements as CloudWatch metrics, in lines of the embedded metric format that Powertools writes.

    Turns            service, agent, outcome (state of the task); service and outcome
    FirstEventTime   service; service and agent. Milliseconds from the invocation's start
    RunTime          service; service and agent. Milliseconds of the agent's turn
    Pushes           service, agent, outcome (delivered, gone, refused, failed)
    FailedRecords    service, function. Of queues and the stream, but for notifications
    KeyFailures      service, function. Reads of Parameter Store that failed
    DynamoDBCalls    service, function. Of an invocation

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from a2a_lambda import telemetry

NAMESPACE = "A2A"

TIMES = ("FirstEventTime", "RunTime")

logger = logging.getLogger(__name__)


class Metrics(logging.Handler):
    """Handler of `telemetry.MEASURES`. service, function: names of the deployment and of the function."""

    def __init__(self, service: str, function: str) -> None:
        super().__init__()
        self._service = service
        self._function = function
        self._sums: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        values: Mapping[str, float] = record.__dict__["values"]
        dimensions: Mapping[str, str] = record.__dict__["dimensions"]
        if dimensions:
            self._write(values, dimensions)
        else:
            self._sums.update(values)

    def flush_sums(self) -> None:
        """Write what added up over an invocation."""
        self.acquire()
        sums, self._sums = self._sums, Counter()
        self.release()
        if sums:
            self._write(sums, {"function": self._function})

    def _write(self, values: Mapping[str, float], dimensions: Mapping[str, str]) -> None:
        try:
            self._line(values, dimensions)
        except Exception:  # nobody's turn fails for a measurement
            logger.exception("a metric is not written")

    def _line(self, values: Mapping[str, float], dimensions: Mapping[str, str]) -> None:
        metrics: Any = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
        for name, named in dimensions.items():
            metrics.add_dimension(name, named)
        if any(name in TIMES for name in values):
            metrics.add_dimensions(service=self._service)
        if "Turns" in values:
            metrics.add_dimensions(service=self._service, outcome=dimensions["outcome"])
        for name, value in values.items():
            if name in TIMES:
                metrics.add_metric(name, MetricUnit.Milliseconds, value * 1000)
            else:
                metrics.add_metric(name, MetricUnit.Count, value)
        for name, identity in telemetry.ids().items():
            if name not in dimensions:
                metrics.add_metadata(name, identity)
        metrics.flush_metrics()


def install(service: str, function: str) -> Metrics:
    """Make every measurement of the process a metric."""
    handler = Metrics(service, function)
    telemetry.MEASURES.handlers = [handler]
    telemetry.MEASURES.setLevel(logging.INFO)
    return handler
