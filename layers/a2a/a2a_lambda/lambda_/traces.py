"""X-Ray, by Powertools: a subsegment for each invocation, and one for each call to AWS.

It is imported only if tracing is on.
Source: https://docs.aws.amazon.com/powertools/python/latest/core/tracer/
"""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Tracer


class Traces:
    """service: name of the deployment."""

    def __init__(self, service: str) -> None:
        self._tracer = Tracer(service=service, patch_modules=("botocore",))
        self._recorder: Any = self._tracer.provider

    def begin(self) -> None:
        self._recorder.begin_subsegment("## invocation")

    def end(self, ids: Mapping[str, str | bool]) -> None:
        """ids: of the invocation. They become annotations, which X-Ray can search."""
        for name, value in ids.items():
            self._tracer.put_annotation(name, value)
        self._recorder.end_subsegment()
