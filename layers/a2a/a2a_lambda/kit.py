"""The parts put together, each made when it is first needed: a card costs no AWS client."""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from a2a_lambda.agent import Agent, load_all
from a2a_lambda.settings import Settings

if TYPE_CHECKING:
    from a2a_lambda.keys import Keys
    from a2a_lambda.service import Service
    from a2a_lambda.signing import Signer


class Kit:
    """A deployment's agents, operations and keys. Raises ConfigurationError."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.agents: dict[str, Agent] = load_all(settings.agents)
        self.default = next(iter(self.agents))

    @classmethod
    def of_environment(cls) -> "Kit":
        return cls(Settings.of(os.environ))

    @cached_property
    def service(self) -> "Service":
        from a2a_lambda import aws
        from a2a_lambda.service import Service
        from a2a_lambda.store import Store

        store = Store(
            aws.dynamodb(self.settings), self.settings.table, ttl=int(self.settings.task_days * 86_400)
        )
        return Service(store, self.agents, window=self.settings.repeat_seconds)

    @cached_property
    def keys(self) -> "Keys":
        from a2a_lambda import aws
        from a2a_lambda.keys import Keys

        return Keys(aws.ssm(self.settings), self.settings.keys_path, local=self.settings.local)

    @cached_property
    def signer(self) -> "Signer | None":
        """None where no signing key is configured."""
        if not self.settings.signing_key:
            return None
        from a2a_lambda import aws
        from a2a_lambda.signing import Signer

        return Signer(aws.kms(self.settings), self.settings.signing_key)

    def warm(self) -> None:
        """Make what calls need, while Lambda's initialization has the CPU; asks nobody anything."""
        _ = self.service, self.keys
