"""What an operator does with issuers: add, list and remove them in Parameter Store."""

import math
import time
from typing import TYPE_CHECKING

from a2a_lambda.access.key import ParameterRefused, parameter_errors
from a2a_lambda.access.key_reader import KeyReader, issuers_path
from a2a_lambda.access.tokens.issuer import Issuer, is_issuer_row
from a2a_lambda.errors import ConfigurationError, KeysUnavailable
from a2a_lambda.store.key_copies import Load

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
        try:
            with parameter_errors():
                self._client.put_parameter(
                    Name=f"{self._path}/{issuer.name}",
                    Value=issuer.parameter(),
                    Type="String",
                    Overwrite=True,
                )
        except ParameterRefused as error:
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error

    def list(self) -> list[Issuer]:
        load = Load(time.time())
        self._reader.read(load, math.inf)
        return [Issuer.of_row(row) for row in load.rows if is_issuer_row(row)]

    def remove(self, name: str) -> None:
        """Raises ConfigurationError if there is none."""
        try:
            with parameter_errors():
                self._client.delete_parameter(Name=f"{self._path}/{name}")
        except ParameterRefused as error:
            if error.code == "ParameterNotFound":
                raise ConfigurationError(f"there is no issuer {name!r}") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
