"""Observability: log lines, metrics and spans around each invocation."""

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from a2a_lambda import telemetry
from a2a_lambda.lambda_ import json_logs, metrics
from a2a_lambda.settings import Settings

LambdaEvent = dict[str, Any]

Handler = Callable[[LambdaEvent, Any], Any]


def prepare() -> Settings:
    """Read the settings, and set up logging. A function does this first: Lambda's own runtime lets every
    library log whatever it likes. Raises ConfigurationError."""
    settings = Settings.of(os.environ)
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        from snapshot_restore_py import register_after_restore

        # Every container starts from the same snapshot. Ids come from the operating system, and the first
        # request opens connections and reads keys. Only this generator would repeat itself.
        register_after_restore(random.seed)
    json_logs.install(settings.service, settings.log_level, debug=settings.debug_logs)
    return settings


@runtime_checkable
class Releasable(Protocol):
    """A streamed answer. release: called after the invocation and its telemetry. It may end the process."""

    release: Callable[[], None]


class Observed:
    """A handler with telemetry around each invocation. A streamed invocation ends with its stream.

    release: called after each invocation and its telemetry, unless the answer is streamed, which has a
    `release` of its own. It may end the process.
    """

    def __init__(
        self, handler: Handler, settings: Settings, release: Callable[[], None] = lambda: None
    ) -> None:
        function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local")
        self._handler = handler
        self._release = release
        self._metrics = metrics.install(settings.service, function, by_agent=settings.agent_metrics)
        self._is_cold = True
        self._send_spans: Callable[[], object] = lambda: None
        if settings.tracing:
            from a2a_lambda.lambda_ import traces

            self._send_spans = traces.install(settings)

    def __call__(self, event: LambdaEvent, context: Any) -> Any:
        telemetry.begin(
            function_name=context.function_name,
            function_request_id=context.aws_request_id,
            cold_start=self._is_cold,
        )
        self._is_cold = False
        answer: Any = None
        try:
            answer = self._handler(event, context)
        finally:
            if isinstance(answer, Releasable):
                answer.release = partial(self._end, answer.release)
            else:
                self._end(self._release)
        return answer

    def _end(self, release: Callable[[], None]) -> None:
        telemetry.replace_ids()  # the sums are of the whole invocation
        self._metrics.write()
        self._send_spans()
        release()
