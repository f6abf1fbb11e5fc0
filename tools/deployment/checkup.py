"""make doctor STACK=…: checks a deployed stack as its operator would.

These are the checks of a first deployment in docs/deploying.md that only AWS can answer. They change
nothing. If AWS denies a check, that is a row of its own.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.aws import clients
from a2a_lambda.errors import KitError
from tools.agents.card_checks import Finding
from tools.deployment.account import SMALL_CONCURRENCY, quota_request
from tools.deployment.stack import ALIAS, DURABLE, ask_worker, functions_of
from tools.deployment.versions import SHOWN_CHARACTERS, release_of
from tools.registers.issuers import IssuerRegister
from tools.registers.keys import KeyRegister

EVENT_SOURCES = {
    "WorkerTurns": "background turns",
    "WorkerDeadTurns": "turns that failed",
    "NotifierStream": "changes of tasks",
    "NotifierNotices": "notifications",
}

DEAD = {"DeadTurns": "turns", "DeadNotices": "notices", "DeadRecords": "records"}
"""Dead-letter queues, by the names of make redrive."""

COUNT = "ApproximateNumberOfMessages"


@dataclass(slots=True)
class Checkup:
    """Checks a deployed stack, as its operator would.

    resources, outputs: the stack's resources and outputs, by name.
    """

    stack: str
    resources: Mapping[str, str]
    outputs: Mapping[str, str]
    _clients: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> Iterator[Finding]:
        checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
            "the stack": self._stack,
            "the API": self._api,
            "the functions": self._functions,
            "what calls them": self._sources,
            "the table": self._table,
            "the bucket": self._bucket,
            "the account": self._account,
            "the keys": self._keys,
            "the schedules": self._schedules,
            "dead letters": self._dead,
            "alarms": self._alarms,
        }
        for subject, check in checks.items():
            try:
                yield from check()
            except (ClientError, BotoCoreError, KitError) as error:
                yield subject, False, str(error)
            except (KeyError, IndexError, ValueError) as error:
                yield subject, False, f"not what this kit deploys: {type(error).__name__} {error}"

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = clients.session().create_client(service)
        return self._clients[service]

    def _stack(self) -> Iterator[Finding]:
        [stack] = self._client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        status = stack["StackStatus"]
        yield "the stack is complete", status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), status

    def _api(self) -> Iterator[Finding]:
        api = self._client("apigateway")
        stages = api.get_stages(restApiId=self.resources["Api"])["item"]
        names = ", ".join(stage["stageName"] for stage in stages)
        yield "one stage", [stage["stageName"] for stage in stages] == ["live"], names
        settings = stages[0].get("methodSettings", {}).get("*/*", {})
        rate = settings.get("throttlingRateLimit", 0)
        yield "throttling is on", rate > 0, f"{rate:g} requests per second for each method"
        if "Domain" in self.resources:
            is_disabled = api.get_rest_api(restApiId=self.resources["Api"]).get(
                "disableExecuteApiEndpoint", False
            )
            yield (
                "the API's own URL is disabled",
                is_disabled,
                "the domain is the only way in" if is_disabled else "it bypasses the domain",
            )

    def _functions(self) -> Iterator[Finding]:
        functions = self._client("lambda")
        releases: dict[str, str] = {}
        for name in functions_of(self.resources):
            function = self.resources[name]
            alias = functions.get_alias(FunctionName=function, Name=ALIAS)
            live_configuration = functions.get_function_configuration(FunctionName=function, Qualifier=ALIAS)
            shares = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
            state = live_configuration.get("State", "Active")
            releases[name] = release = release_of(live_configuration)
            text = f"version {alias['FunctionVersion']}, {state}"
            text += f"; also {shares}" if shares else ""
            text += f", release {release[:SHOWN_CHARACTERS]}" if release else ""
            is_active = None if state == "Inactive" else state == "Active"
            text += (
                ": no one has called it for two weeks, and the first call may fail"
                if is_active is None
                else ""
            )
            yield f"{name} serves a version", is_active and alias["FunctionVersion"].isdigit(), text
        core = {release for name, release in releases.items() if name != DURABLE}
        yield (
            "all functions run the same release",
            len(core) == 1,
            "" if len(core) == 1 else f"they differ: make rollback STACK={self.stack}, or deploy again",
        )

    def _sources(self) -> Iterator[Finding]:
        functions = self._client("lambda")
        for name, subject in EVENT_SOURCES.items():
            source = functions.get_event_source_mapping(UUID=self.resources[name])
            arn, state = source["FunctionArn"], source["State"]
            is_connected = state == "Enabled" and arn.endswith(f":{ALIAS}")
            yield f"{subject} arrive", is_connected, f"{state}, at {arn.rpartition(':')[2]}"

    def _table(self) -> Iterator[Finding]:
        dynamodb, name = self._client("dynamodb"), self.outputs["TableName"]
        table = dynamodb.describe_table(TableName=name)["Table"]
        backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        status = backups.get("PointInTimeRecoveryDescription", {}).get(
            "PointInTimeRecoveryStatus", "DISABLED"
        )
        yield "the table can be restored", status == "ENABLED", f"point-in-time recovery {status}"
        expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"]
        yield "old tasks expire", expiry in ("ENABLED", "ENABLING"), f"TTL {expiry}"
        yield "its changes are streamed", "LatestStreamArn" in table, ""
        is_protected = table.get("DeletionProtectionEnabled", False)
        yield "deletion protection", None, "on" if is_protected else "off: DeletionProtection=false"

    def _bucket(self) -> Iterator[Finding]:
        s3, name = self._client("s3"), self.resources.get("FileBucket", "")
        if not name:
            yield "a bucket for files", None, "no: Files=false"
            return
        access = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        is_private = all(access.values())
        yield "files are private", is_private, "" if is_private else str(access)
        try:
            rules = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchLifecycleConfiguration":
                raise
            text = "the bucket has no lifecycle rule: restore those of FileBucket in template.yaml"
            yield "files last as long as tasks", False, text
            return
        days = min(
            (rule["Expiration"]["Days"] for rule in rules if "Days" in rule.get("Expiration", {})),
            default=math.inf,
        )
        function = self._client("lambda").get_function_configuration(
            FunctionName=self.resources["RpcFunction"], Qualifier=ALIAS
        )
        task_days = float(function["Environment"]["Variables"]["A2A_TASK_DAYS"])
        yield "files last as long as tasks", days >= task_days, f"{days:g} days; tasks {task_days:g}"

    def _account(self) -> Iterator[Finding]:
        limits = self._client("lambda").get_account_settings()["AccountLimit"]
        account_limit = limits["ConcurrentExecutions"]
        region = clients.session().get_config_variable("region")
        text = f"{account_limit} concurrent executions" + (
            "" if account_limit >= SMALL_CONCURRENCY else f"; request more: {quota_request(1000, region)}"
        )
        yield "room for calls", True if account_limit >= SMALL_CONCURRENCY else None, text
        role = self._client("apigateway").get_account().get("cloudwatchRoleArn")
        logs = "AccessLines" in self.resources
        text = f"as {role}" if role else "API Gateway has no role to write them; run make account"
        yield "access logs", bool(role) or not logs, text if logs else "off"

    def _keys(self) -> Iterator[Finding]:
        client, path = self._client("ssm"), f"/a2a/{self.stack}/keys"
        keys = [key for key in KeyRegister(client, path).list() if not key.has_expired(time.time())]
        issuers = IssuerRegister(client, path).list()
        hint = f"make key NAME=… STACK={self.stack}"
        yield (
            "callers can sign in",
            bool(keys or issuers),
            f"keys: {len(keys)}, issuers of tokens: {len(issuers)}" if keys or issuers else hint,
        )

    def _schedules(self) -> Iterator[Finding]:
        for entry in ask_worker(self.stack, {"schedules": {}})["schedules"]:
            text = f"next at {entry['next']} ({entry['cron']}, {entry['timezone']})"
            yield f"schedule {entry['agent']}/{entry['id']}", None, text

    def _dead(self) -> Iterator[Finding]:
        for name, queue in DEAD.items():
            answer = self._client("sqs").get_queue_attributes(
                QueueUrl=self.resources[name],
                AttributeNames=[COUNT, f"{COUNT}NotVisible"],
            )
            backlog, work = (
                int(answer["Attributes"][attribute]) for attribute in (COUNT, f"{COUNT}NotVisible")
            )
            text = f"{backlog} waiting, {work} being processed"
            if backlog or work:
                text += f"; make redrive QUEUE={queue} STACK={self.stack}"
            yield f"dead {queue}", not (backlog or work), text

    def _alarms(self) -> Iterator[Finding]:
        pages = self._client("cloudwatch").get_paginator("describe_alarms")
        alarms: list[Any] = []
        for prefix in (f"{self.stack}-Monitoring-", f"{self.stack}-summary"):
            kinds = ["MetricAlarm", "CompositeAlarm"]
            for page in pages.paginate(AlarmNamePrefix=prefix, AlarmTypes=kinds):
                alarms += [*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ())]
        names = [alarm["AlarmName"] for alarm in alarms if alarm["StateValue"] == "ALARM"]
        text = ", ".join(names) or f"{len(alarms)} alarms"
        if any("SweepStoppedAlarm" in name for name in names):
            text += "; SweepStoppedAlarm is on for some minutes after the first deployment"
        yield "no alarm is on", bool(alarms) and not names, text
        has_actions = any(alarm.get("AlarmActions") for alarm in alarms)
        yield "alarms are sent", None, "to a topic" if has_actions else "no: AlarmTopicArn is empty"
