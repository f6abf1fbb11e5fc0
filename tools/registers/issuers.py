"""What an operator does with issuers: add, list and remove them in Parameter Store."""

import math
import time
from typing import TYPE_CHECKING

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.key_reader import KeyReader, issuers_path
from a2a_lambda.store.key_copies import ISSUERS_PART, KeyLoad
from tools.registers.keys import operator_errors

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient


class IssuerRegister:
    """Issuers beside the keys under a path of Parameter Store. Calls block. They raise KeysUnavailable.

    keys_path: path of the keys.
    """

    def __init__(self, client: "SSMClient", keys_path: str) -> None:
        self._client = client
        self._path = issuers_path(keys_path)
        self._reader = KeyReader(client, keys_path)

    def add(self, issuer: Issuer) -> None:
        """Store an issuer, in the place of one with this name."""
        with operator_errors():
            self._client.put_parameter(
                Name=f"{self._path}/{issuer.name}", Value=issuer.parameter(), Type="String", Overwrite=True
            )

    def list(self) -> list[Issuer]:
        load = KeyLoad(time.time(), part=ISSUERS_PART)
        self._reader.read(load, math.inf)
        if load.refusal is not None:
            with operator_errors():
                raise load.refusal
        return [Issuer.of_row(row) for row in load.rows]

    def remove(self, name: str) -> None:
        """Raises ConfigurationError if there is none."""
        with operator_errors(ParameterNotFound=f"there is no issuer {name!r}"):
            self._client.delete_parameter(Name=f"{self._path}/{name}")
