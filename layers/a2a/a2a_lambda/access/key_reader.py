"""Reads the keys in Parameter Store, page by page, without using up the account's quota."""

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from a2a_lambda.access.key import Key, ParameterRefused, parameter_errors
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.store.key_copies import Load

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

PAGE_SECONDS = 0.05
"""Fewest seconds between two pages, so that not even one second takes more than half of the quota."""

KEYS_THROTTLED = {"ThrottlingException", "TooManyUpdates", "RequestLimitExceeded", "InternalServerError"}

logger = logging.getLogger(__name__)


class KeyReader:
    """Reads the keys under a path of Parameter Store. Calls block. client: one that does not retry."""

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path.rstrip("/")
        self._clock = clock
        self._sleep = sleep

    def read(self, load: Load, give_up: float, *, retries: bool = True) -> bool:
        """Read the pages that a load does not have yet; returns whether it has all of them in time.

        retries: try again if throttled. Raises KeysUnavailable.
        """
        pause = 0.1
        while True:
            start = self._clock()
            try:
                token = self._page(load)
            except ParameterRefused as error:
                # A token is valid for a short time only, and another container may have stopped long ago:
                # begin again.
                if error.code == "InvalidNextToken":
                    load.started_at, load.pages, load.token, load.rows = self._clock(), 0, "", []
                elif error.code not in KEYS_THROTTLED or not retries or self._clock() + pause >= give_up:
                    raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
                self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
                pause = min(2 * pause, 1.0)
                continue
            if not token:
                return True
            if self._clock() >= give_up:
                return False
            self._sleep(max(0.0, start + PAGE_SECONDS - self._clock()))

    def _page(self, load: Load) -> str:
        """Read a page into a load; returns the token of the next page, or "". Raises ParameterRefused,
        KeysUnavailable."""
        arguments: dict[str, Any] = {"Path": self._path, "MaxResults": 10}
        if load.token:
            arguments["NextToken"] = load.token
        with parameter_errors():
            page = self._client.get_parameters_by_path(**arguments)
        for parameter in page["Parameters"]:
            label = parameter["Name"].rsplit("/", 1)[1]
            try:
                load.rows.append(Key.of_parameter(label, parameter["Value"]).row())
            except (ValueError, TypeError, KeyError):
                logger.error("the parameter %s/%s is not a key, and is ignored", self._path, label)
        load.pages += 1
        load.token = page.get("NextToken", "")
        return load.token
