"""The keys in Parameter Store that the tests of `access` have, too."""

from tests.access.conftest import path, register, ssm

__all__ = ["path", "register", "ssm"]
