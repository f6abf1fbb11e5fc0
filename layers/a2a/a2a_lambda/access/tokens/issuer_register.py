"""What an operator does with issuers: add, list and remove them in Parameter Store."""

from typing import TYPE_CHECKING

from a2a_lambda.access.key import ParameterRefused, parameter_errors
from a2a_lambda.access.key_reader import issuers_path, read_issuers
from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.errors import ConfigurationError, KeysUnavailable

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient


class IssuerRegister:
    """Issuers beside the keys under a path of Parameter Store. Calls block. They raise KeysUnavailable.

    keys_path: path of the keys.
    """

    def __init__(self, client: "SSMClient", keys_path: str) -> None:
        self._client = client
        self._path = issuers_path(keys_path)

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
        pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=self._path)
        with parameter_errors():
            return [issuer for page in pages for issuer in read_issuers(self._path, page["Parameters"])]

    def remove(self, name: str) -> None:
        """Raises ConfigurationError if there is none."""
        try:
            with parameter_errors():
                self._client.delete_parameter(Name=f"{self._path}/{name}")
        except ParameterRefused as error:
            if error.code == "ParameterNotFound":
                raise ConfigurationError(f"there is no issuer {name!r}") from None
            raise KeysUnavailable(f"Parameter Store refused: {error.code}") from error
