"""What an operator sees of a function: log lines, metrics and traces around each invocation."""

import os
import random
from collections.abc import Callable
from typing import Any

from a2a_lambda import telemetry
from a2a_lambda.lambda_ import json_logs, metrics
from a2a_lambda.lambda_.streaming import Response
from a2a_lambda.settings import Settings

Event = dict[str, Any]

Handler = Callable[[Event, Any], Any]


def prepared() -> Settings:
    """Settings of the environment, and logs as they say: before anything else, since Lambda's own runtime
    would let every library write down what it likes. Raises ConfigurationError."""
    settings = Settings.of(os.environ)
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        from snapshot_restore_py import register_after_restore

        # Every container begins as the same snapshot. Ids come from the operating system, connections and
        # keys are got by the first request; only this generator would repeat itself.
        register_after_restore(random.seed)
    json_logs.install(settings.service, settings.log_level, debug=settings.debug_logs)
    return settings


class Observed:
    """A handler, each of whose invocations is told of. A streamed one is over when its stream is.

    release: called when a buffered one is over and told of; may end the process.
    """

    def __init__(
        self, handler: Handler, settings: Settings, *, release: Callable[[], None] = lambda: None
    ) -> None:
        function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local")
        self._handler = handler
        self._release = release
        self._metrics = metrics.install(settings.service, function)
        self._cold = True
        self._traces: Any = None
        if settings.tracing:
            from a2a_lambda.lambda_.traces import Traces

            self._traces = Traces(settings.service)

    def __call__(self, event: Event, context: Any) -> Any:
        telemetry.begin(
            function_name=context.function_name,
            function_request_id=context.aws_request_id,
            cold_start=self._cold,
        )
        self._cold = False
        if self._traces:
            self._traces.begin()
        answer: Any = None
        try:
            answer = self._handler(event, context)
        finally:
            if isinstance(answer, Response):
                answer.release = self._behind(answer.release)
            else:
                self._end()
                self._release()
        return answer

    def _behind(self, release: Callable[[], None]) -> Callable[[], None]:
        def released() -> None:
            self._end()
            release()

        return released

    def _end(self) -> None:
        if self._traces:
            self._traces.end(telemetry.ids())
        telemetry.about()  # the sums are of all of it
        self._metrics.flush_sums()
