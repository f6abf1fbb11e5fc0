"""Puts the parts together. Each is made when it is first needed."""

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client

    from a2a_lambda.access.keys import Keys
    from a2a_lambda.access.rate_limit import RateLimit
    from a2a_lambda.access.tokens.tokens import Tokens
    from a2a_lambda.aws.executions import Executions
    from a2a_lambda.aws.queue import Queue
    from a2a_lambda.aws.signing import Signer
    from a2a_lambda.background.dispatch import Dispatcher
    from a2a_lambda.background.execution_worker import ExecutionWorker
    from a2a_lambda.background.sweep import Sweep
    from a2a_lambda.background.worker import Worker
    from a2a_lambda.files.files import Files
    from a2a_lambda.operations.call_slots import CallSlots
    from a2a_lambda.operations.messages import Messages
    from a2a_lambda.operations.service import Service
    from a2a_lambda.operations.triggers import Triggers
    from a2a_lambda.operations.waits import Waits
    from a2a_lambda.push.delivery import PushNotifications
    from a2a_lambda.push.webhook import WebhookPolicy
    from a2a_lambda.store.shared_secret import SharedSecret
    from a2a_lambda.store.store import Store
    from a2a_lambda.store.table import Table

MANIFEST = "manifest.json"
"""File beside the folder of the agents in a deployed function, with their profiles."""


class Kit:
    """A deployment's agents, operations and keys. Raises ConfigurationError."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        manifest = settings.agents.parent / MANIFEST
        if manifest.exists():
            self.agents = Agents.of_manifest(manifest, settings.agents, settings.agent_names)
        else:
            self.agents = Agents.of_folder(
                settings.agents, settings.agent_names, shows_reasons=settings.local
            )

    @classmethod
    def of_environment(cls) -> "Kit":
        return cls(Settings.of(os.environ))

    @cached_property
    def table(self) -> "Table":
        from a2a_lambda.aws import hot_path
        from a2a_lambda.store.table import Table

        return Table(hot_path.dynamodb(self.settings), self.settings.table)

    @cached_property
    def store(self) -> "Store":
        from a2a_lambda.store.store import Store

        settings = self.settings
        return Store(
            self.table,
            ttl=int(settings.task_days * 86_400),
            list_shards=settings.list_shards,
            execution_seconds=settings.execution_timeout,
        )

    @cached_property
    def files(self) -> "Files":
        from a2a_lambda.files.bucket import Bucket
        from a2a_lambda.files.files import Files

        def make_s3_client() -> "S3Client":
            from a2a_lambda.aws import clients

            return clients.s3(self.settings)

        name = self.settings.files_bucket
        return Files(
            Bucket(make_s3_client, name) if name else None,
            repeat_seconds=self.settings.repeat_seconds,
            allow_loopback=self.settings.loopback_webhooks,
        )

    @cached_property
    def call_slots(self) -> "CallSlots":
        from a2a_lambda.operations.call_slots import CallSlots

        return CallSlots(self.store, self.settings.streams_per_owner)

    @cached_property
    def rate_limit(self) -> "RateLimit":
        from a2a_lambda.access.rate_limit import RateLimit

        return RateLimit(self.store, self.settings.requests_per_owner)

    @cached_property
    def queue(self) -> "Queue | None":
        """None if no turns run in the background."""
        if not self.settings.queue:
            return None
        from a2a_lambda.aws import hot_path
        from a2a_lambda.aws.queue import Sqs

        return Sqs(hot_path.sqs(self.settings), self.settings.queue)

    def require_queue(self) -> "Queue":
        """The queue of the worker. Raises ConfigurationError if there is none."""
        if self.queue is None:
            raise ConfigurationError(
                "environment variable A2A_QUEUE is not set: set it to the URL of the background turns' queue"
            )
        return self.queue

    @cached_property
    def executions(self) -> "Executions | None":
        """None if the deployment has no durable function."""
        if not self.settings.durable_function:
            return None
        from a2a_lambda.aws.executions import LambdaExecutions

        return LambdaExecutions(self.make_lambda_client, self.settings.durable_function)

    def make_lambda_client(self) -> "LambdaClient":
        """A client of Lambda's API, for durable executions."""
        from a2a_lambda.aws import clients

        return clients.lambda_(self.settings)

    @cached_property
    def dispatcher(self) -> "Dispatcher":
        from a2a_lambda.background.dispatch import Dispatcher

        return Dispatcher(self.queue, self.executions)

    @cached_property
    def messages(self) -> "Messages":
        from a2a_lambda.operations.messages import Messages

        return Messages(
            self.store,
            self.agents,
            dispatcher=self.dispatcher,
            repeat_seconds=self.settings.repeat_seconds,
            webhooks=self.webhook_policy,
            call_slots=self.call_slots,
            files=self.files,
        )

    @cached_property
    def service(self) -> "Service":
        from a2a_lambda.operations.service import Service

        return Service(self.store, dispatcher=self.dispatcher, webhooks=self.webhook_policy, files=self.files)

    @cached_property
    def webhook_policy(self) -> "WebhookPolicy":
        from a2a_lambda.push.webhook import WebhookPolicy

        return WebhookPolicy(self.settings.loopback_webhooks, bool(self.settings.signing_key))

    @cached_property
    def waits(self) -> "Waits | None":
        """None if the deployment has no durable function."""
        from a2a_lambda.operations.waits import Waits

        return None if self.executions is None else Waits(self.store, self.dispatcher)

    @cached_property
    def worker(self) -> "Worker":
        from a2a_lambda.background.worker import Worker

        return Worker(self.store, self.agents, self.files)

    @cached_property
    def execution_worker(self) -> "ExecutionWorker":
        from a2a_lambda.background.execution_worker import ExecutionWorker

        return ExecutionWorker(self.store, self.agents, self.files)

    @cached_property
    def sweep(self) -> "Sweep":
        from a2a_lambda.background.sweep import Sweep

        return Sweep(self.store, self.dispatcher)

    @property
    def has_schedules(self) -> bool:
        return any(profile.card.schedules for profile in self.agents.values())

    @cached_property
    def triggers(self) -> "Triggers":
        from a2a_lambda.operations.triggers import Triggers
        from a2a_lambda.store.schedule_marks import ScheduleMarks

        url = self.settings.base_url.rstrip("/")
        return Triggers(self.store, ScheduleMarks(self.table), self.agents, self.messages, url)

    @cached_property
    def keys(self) -> "Keys":
        from a2a_lambda.access.keys import Keys
        from a2a_lambda.aws import hot_path
        from a2a_lambda.store.key_copies import KeyCopies

        path = self.settings.keys_path
        copies = KeyCopies(self.table, path)
        return Keys(hot_path.ssm(self.settings), path, copies, local=self.settings.local)

    @cached_property
    def tokens(self) -> "Tokens":
        from a2a_lambda.access.tokens.discovery import fetch_keys
        from a2a_lambda.access.tokens.introspection import introspect
        from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
        from a2a_lambda.access.tokens.tokens import Tokens
        from a2a_lambda.agent.configuration import process_configuration
        from a2a_lambda.store.issuer_copies import IssuerCopies

        copies = IssuerCopies(self.table, self.settings.keys_path)
        is_local = self.settings.local
        keys = IssuerKeys(copies, partial(fetch_keys, allow_loopback=is_local))
        ask = partial(introspect, find_secret=process_configuration().secret, allow_loopback=is_local)
        return Tokens(self.keys, keys, ask)

    @cached_property
    def question_secret(self) -> "SharedSecret":
        """What the state of MCP's questions is signed with."""
        from a2a_lambda.store.shared_secret import SharedSecret

        return SharedSecret(self.table, self.settings.keys_path, "questions")

    @cached_property
    def signer(self) -> "Signer | None":
        """None if no signing key is configured."""
        if not self.settings.signing_key:
            return None
        from a2a_lambda.aws import clients
        from a2a_lambda.aws.signing import Signer

        return Signer(clients.kms(self.settings), self.settings.signing_key)

    @cached_property
    def push_notifications(self) -> "PushNotifications":
        """Raises ConfigurationError if they have no queue."""
        from a2a_lambda.aws import hot_path
        from a2a_lambda.push.delivery import PushNotifications

        if not self.settings.notices:
            raise ConfigurationError(
                "environment variable A2A_NOTICES is not set: set it to the URL of the FIFO queue of push"
                " notifications"
            )
        return PushNotifications(
            hot_path.sqs(self.settings),
            self.settings.notices,
            self.store,
            files=self.files,
            signer=self.signer,
            allow_loopback=self.settings.loopback_webhooks,
        )

    def warm_up(self) -> None:
        """Make the parts that calls need, and import agents, while Lambda's initialization has the full CPU.
        Calls no service."""
        _ = self.messages, self.service, self.keys
        self.agents.warm_up()
