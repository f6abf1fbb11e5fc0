"""Reads the keys in Parameter Store, and the issuers beside them, page by page, without using up the
account's quota."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.access.issuer import Issuer, is_issuer_row
from a2a_lambda.access.key import Key
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.store.key_copies import ISSUERS_PART, KEYS_PART, KeyLoad

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

PAGE_SECONDS = 0.05
"""Minimum number of seconds between two pages, so that no single second uses more than half of the quota."""

RETRIED_CODES = {"ThrottlingException", "TooManyUpdates", "RequestLimitExceeded", "InternalServerError"}

logger = logging.getLogger(__name__)


class ParameterRefused(Exception):
    """Parameter Store refused a call. code: name that SSM gives the error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def parameter_errors() -> Iterator[None]:
    """Errors of Parameter Store become ParameterRefused or KeysUnavailable."""
    try:
        yield
    except ClientError as error:
        raise ParameterRefused(error.response["Error"]["Code"]) from error
    except BotoCoreError as error:
        raise KeysUnavailable(f"Parameter Store did not answer: {type(error).__name__}") from error


class KeyReader:
    """Reads the keys under a path of Parameter Store, and the issuers. Calls block. client: one that does not
    retry."""

    def __init__(
        self,
        client: "SSMClient",
        path: str,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        # What is read, in this order: the path, what a parameter there becomes, and what deletes it.
        self._parts = (
            (path.rstrip("/"), Key.of_parameter, "make key REVOKE=1"),
            (issuers_path(path), Issuer.of_parameter, "make issuer REMOVE=1"),
        )
        self._clock = clock
        self._sleep = sleep

    def read(self, load: KeyLoad, give_up_at: float, *, retries: bool = True) -> bool:
        """Read the pages that a load does not have yet; returns whether it has all of them in time.

        give_up_at: Unix time at which to stop; math.inf = never. retries: try again if Parameter Store
        throttles. Raises KeysUnavailable.
        """
        pause = 0.1
        while True:
            start = self._clock()
            try:
                has_more = self._read_page(load)
            except (ParameterRefused, KeysUnavailable) as error:
                is_retried = isinstance(error, ParameterRefused) and error.code in RETRIED_CODES
                may_retry = is_retried and retries and self._clock() + pause < give_up_at
                if load.part == ISSUERS_PART and not may_retry:
                    # Without the issuers, the keys still count. The caller may have older issuers.
                    load.refusal = error
                    load.rows = [row for row in load.rows if not is_issuer_row(row)]
                    return True
                if isinstance(error, KeysUnavailable):
                    raise
                # A token is valid for a short time only, and another container may have stopped long ago:
                # begin again.
                if error.code == "InvalidNextToken":
                    load.started_at, load.pages, load.page_token, load.rows = self._clock(), 0, "", []
                    load.part = KEYS_PART
                elif not may_retry:
                    raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
                self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
                pause = min(2 * pause, 1.0)
                continue
            if not has_more:
                return True
            if self._clock() >= give_up_at:
                return False
            if load.page_token:  # the first page of the issuers follows at once
                self._sleep(max(0.0, start + PAGE_SECONDS - self._clock()))

    def _read_page(self, load: KeyLoad) -> bool:
        """Read a page into a load; returns whether there are more. Raises ParameterRefused,
        KeysUnavailable."""
        path, parse, command = self._parts[load.part]
        arguments: dict[str, Any] = {"Path": path, "MaxResults": 10}
        if load.page_token:
            arguments["NextToken"] = load.page_token
        with parameter_errors():
            page = self._client.get_parameters_by_path(**arguments)
        for parameter in page["Parameters"]:
            name = parameter["Name"].rpartition("/")[2]
            try:
                load.rows.append(parse(name, parameter["Value"]).row())
            except (ValueError, TypeError, KeyError):
                logger.error(
                    "the parameter %s/%s is ignored, because its value is not valid: delete it with %s"
                    " NAME=%s (add STACK=… if it belongs to a stack), then create it again",
                    path,
                    name,
                    command,
                    name,
                )
        load.pages += 1
        load.page_token = page.get("NextToken", "")
        if not load.page_token:
            load.part += 1
        return load.part < len(self._parts)


def issuers_path(keys_path: str) -> str:
    """Path of the issuers, beside that of the keys."""
    return f"{keys_path.rstrip('/').rpartition('/')[0]}/issuers"
