"""Proves the kit on AWS, in a stack of its own, which it deletes: python -m tests.e2e.proof

    deploy ── key ── stream, background turn, durable turn ── doctor ── two canaries ── rollback ── prune
                                                                   └── in any case, at last: delete

The credentials and the region are those of the environment. STACK names the stack. If a role deploys, ROLE
and BOUNDARY are outputs of templates/deploy-role.yaml with Proof=true. .github/workflows/aws.yml runs this.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.errors import ConfigurationError
from tests.e2e.live import AGENTS, Live
from tests.e2e.stack import NAME, CommandFailed, Stack
from tests.helpers.project import copy_kit
from tools.command import reports_errors
from tools.deployment.stack import aws_errors

STREAM_SECONDS = 40
"""More than the 29 s after which API Gateway ends an answer that it buffers."""

READY_SECONDS = 900.0
"""Seconds in which a new stack must please make doctor: an alarm is on until the sweep has run."""

POLL_SECONDS = 10.0

CANARY = "Canary10Percent5Minutes"

KEY = "proof"

NAMES = re.compile(r"([a-z0-9-]+-)?proof")

LAST = "the stack is deleted, and nothing is left"


class Proof:
    """Steps in order. Every deployment gets the options of make, and the parameters."""

    def __init__(self, stack: Stack, options: tuple[str, ...] = (), **parameters: str) -> None:
        self.stack = stack
        self._options = options
        self._parameters = {
            "ExecutionTimeout": "3600",
            "DeletionProtection": "false",
            "LogDays": "1",
            **parameters,
        }
        self._key = ""

    @property
    def steps(self) -> Mapping[str, Callable[[], str]]:
        return {
            "the stack is deployed": self.deploy,
            "a key is made": self.make_key,
            f"a stream of {STREAM_SECONDS} s arrives event by event": lambda: asyncio.run(
                self._client.check_stream(STREAM_SECONDS)
            ),
            "a background turn ends, and its webhook is called": lambda: asyncio.run(
                self._client.check_background_turn_and_webhook()
            ),
            "a durable turn pauses": lambda: asyncio.run(self._client.check_pause()),
            "files go through the bucket": lambda: asyncio.run(self._client.check_files()),
            "make doctor passes": self.see_doctor,
            "a canary takes over": self.roll_out,
            "an alarm stops a canary": self.stop_rollout,
            "make rollback": self.roll_back,
            "make prune": self.prune,
        }

    def check_absent(self) -> None:
        """Raises ConfigurationError if there are no credentials, or an earlier proof was cut off before it
        deleted its stack."""
        if left := self.find_left("make e2e AWS=1"):
            raise ConfigurationError(
                f"{left[0]} is there. Delete what an earlier proof left: make e2e AWS=delete"
            )

    def deploy(self, **parameters: str) -> str:
        self.stack.deploy(*self._options, **{**self._parameters, **parameters})
        return f"version {self.live()}"

    def make_key(self) -> str:
        output = self.stack.run("make", "--silent", "key", f"NAME={KEY}", f"STACK={self.stack.name}")
        self._key = output.split()[0]
        return ""

    @property
    def _client(self) -> Live:
        return Live(self.stack.outputs["BaseUrl"], self._key)

    def see_doctor(self) -> str:
        give_up_at = time.monotonic() + READY_SECONDS
        while True:
            try:
                output = self.stack.run(
                    "make", "--silent", "doctor", f"STACK={self.stack.name}", f"KEY={self._key}"
                )
            except CommandFailed:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return output.strip().splitlines()[-1]

    def roll_out(self) -> str:
        before = self.live()
        with self._rollout(LogLevel="DEBUG") as deployment:
            if error := deployment.exception():
                raise error
        assert self.live() > before
        assert not self.weights()
        return f"version {before} → {self.live()}"

    def stop_rollout(self) -> str:
        """A canary during which an alarm goes off returns all calls to the version before."""
        before = self.live()
        alarms = self.stack.client("cloudwatch")
        with self._rollout(LogLevel="WARNING") as deployment:
            while not deployment.done():  # again, because CloudWatch sets it back when it looks at its metric
                alarms.set_alarm_state(
                    AlarmName=self.alarm(), StateValue="ALARM", StateReason="the proof stops a canary"
                )
                time.sleep(POLL_SECONDS)
            error = deployment.exception()
        assert isinstance(error, CommandFailed), "the deployment succeeded, although an alarm was on"
        assert (self.live(), self.weights()) == (before, {})
        alarms.set_alarm_state(AlarmName=self.alarm(), StateValue="OK", StateReason="the proof has seen it")
        return f"version {before} is live"

    @contextmanager
    def _rollout(self, **parameters: str) -> Iterator["Future[str]"]:
        """A deployment by CodeDeploy, from the moment at which two versions share the calls."""
        with ThreadPoolExecutor() as pool:
            deployment = pool.submit(self.deploy, Rollout=CANARY, **parameters)
            while not self.weights():
                assert not deployment.done(), f"no version got a share of the calls: {deployment.exception()}"
                time.sleep(POLL_SECONDS)
            yield deployment

    def roll_back(self) -> str:
        before = self.live()
        output = self.stack.run("make", "--silent", "rollback", f"STACK={self.stack.name}")
        assert self.live() < before, output
        return f"version {before} → {self.live()}"

    def prune(self) -> str:
        output = self.stack.run("make", "--silent", "prune", f"STACK={self.stack.name}", "KEEP=2")
        return output.strip().splitlines()[0]

    def live(self) -> int:
        return int(self._alias()["FunctionVersion"])

    def weights(self) -> Mapping[str, float]:
        """Shares of calls that a rollout gives to other versions."""
        routing = self._alias().get("RoutingConfig", {})
        return dict(routing.get("AdditionalVersionWeights", {}))

    def _alias(self) -> Any:
        functions = self.stack.client("lambda")
        return functions.get_alias(FunctionName=self.stack.resources["RpcFunction"], Name="live")

    def alarm(self) -> str:
        """Name of the alarm that a rollout of RpcFunction watches."""
        prefix = f"{self.stack.name}-Monitoring-"
        pages = self.stack.client("cloudwatch").get_paginator("describe_alarms")
        names = [
            alarm["AlarmName"]
            for page in pages.paginate(AlarmNamePrefix=prefix)
            for alarm in page["MetricAlarms"]
        ]
        [alarm_name] = [name for name in names if "-RpcErrorsAlarm-" in name]
        return str(alarm_name)

    def delete(self) -> str:
        """Delete the stack, and what outlives one: the table, the bucket, the key, what sam has uploaded.
        Each is tried, whatever becomes of the others."""
        errors = []
        for part in (
            *(self.stack.delete, self._delete_tables, self._delete_buckets),
            *(self._delete_parameters, self._delete_uploads),
        ):
            try:
                part()
            except (ClientError, BotoCoreError) as error:
                errors.append(str(error))
        left = list(self.left())
        assert not errors, errors
        assert not left, left
        return "nothing is left"

    def _delete_tables(self) -> None:
        dynamodb = self.stack.client("dynamodb")
        for table in self._tables():
            dynamodb.delete_table(TableName=table)
            dynamodb.get_waiter("table_not_exists").wait(TableName=table)

    def _delete_buckets(self) -> None:
        s3 = self.stack.client("s3")
        for bucket in self._buckets():
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for item in page.get("Contents", []):
                    s3.delete_object(Bucket=bucket, Key=item["Key"])
            s3.delete_bucket(Bucket=bucket)

    def _delete_parameters(self) -> None:
        for name in self._parameters_left():
            self.stack.client("ssm").delete_parameter(Name=name)

    def _delete_uploads(self) -> None:
        bucket, objects = self._uploads()
        for key, version in objects:
            self.stack.client("s3").delete_object(Bucket=bucket, Key=key, VersionId=version)

    def find_left(self, command: str) -> list[str]:
        """Names of what is still there of the stack. Raises ConfigurationError with the command that needs
        AWS, if it does not answer."""
        with aws_errors(command):
            return list(self.left())

    def left(self) -> Iterator[str]:
        """Names of what is still there of the stack."""
        functions = self.stack.client("lambda").get_paginator("list_functions").paginate()
        yield from (
            each["FunctionName"]
            for page in functions
            for each in page["Functions"]
            if each["FunctionName"].startswith(f"{self.stack.name}-")
        )
        yield from self._tables()
        yield from self._buckets()
        logs = self.stack.client("logs")
        for place in ("lambda", "apigateway"):
            base = f"/aws/{place}/{self.stack.name}"
            groups = logs.describe_log_groups(logGroupNamePrefix=base)["logGroups"]
            yield from (
                name for each in groups if f"{(name := each['logGroupName'])}/".startswith(f"{base}/")
            )
        yield from self._parameters_left()
        yield from (key for key, _ in self._uploads()[1])

    def _tables(self) -> list[str]:
        pages = self.stack.client("dynamodb").get_paginator("list_tables").paginate()
        prefix = f"{self.stack.name}-Table-"
        return [name for page in pages for name in page["TableNames"] if name.startswith(prefix)]

    def _buckets(self) -> list[str]:
        names = [bucket["Name"] for bucket in self.stack.client("s3").list_buckets()["Buckets"]]
        return [name for name in names if name.startswith(f"{self.stack.name}-filebucket-")]

    def _parameters_left(self) -> list[str]:
        pages = self.stack.client("ssm").get_paginator("get_parameters_by_path")
        entries = pages.paginate(Path=f"/a2a/{self.stack.name}/", Recursive=True)
        return [each["Name"] for page in entries for each in page["Parameters"]]

    def _uploads(self) -> tuple[str, list[tuple[str, str]]]:
        """sam's bucket, which keeps versions, and the keys and versions of the stack's objects."""
        clouds = self.stack.client("cloudformation")
        try:
            [description] = clouds.describe_stacks(StackName="aws-sam-cli-managed-default")["Stacks"]
        except ClientError:
            return "", []
        bucket = next(
            each["OutputValue"] for each in description["Outputs"] if each["OutputKey"] == "SourceBucket"
        )
        pages = self.stack.client("s3").get_paginator("list_object_versions")
        entries = pages.paginate(Bucket=bucket, Prefix=f"{self.stack.name}/")
        return bucket, [
            (each["Key"], each["VersionId"])
            for page in entries
            for each in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
        ]


def run(proof: Proof) -> int:
    """Take each step until one fails, then delete the stack. Prints a line each; returns the exit status.
    Raises ConfigurationError before the first step."""
    proof.check_absent()
    status = 0
    try:
        for what, step in proof.steps.items():
            if status := _report(what, step):
                break
    finally:
        status = _report(LAST, proof.delete) or status
    return status


def _report(what: str, step: Callable[[], str]) -> int:
    began = time.monotonic()
    try:
        outcome, status = step(), 0
    except Exception as error:  # whatever it is, the stack must be deleted
        outcome, status = f"{type(error).__name__}: {error}", 1
    print(
        f"  {'FAIL' if status else 'pass'}  {what}  {time.monotonic() - began:.0f} s  {outcome}".rstrip(),
        flush=True,
    )
    return status


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    """AWS=delete deletes what a proof has left."""
    name = environ.get("STACK") or "a2a-proof"
    if not NAMES.fullmatch(name):
        raise ConfigurationError(
            f"STACK={name}: write a name of a-z, 0-9 and - that ends with -proof, because the stack is"
            " deleted"
        )
    if environ.get("AWS") == "delete":
        proof = Proof(Stack(Path(), name=name))
        proof.find_left("make e2e AWS=delete")  # without credentials, it says so
        return _report(LAST, proof.delete)
    role = (f"ROLE={environ['ROLE']}",) if environ.get("ROLE") else ()
    boundary = {"PermissionsBoundaryArn": environ["BOUNDARY"]} if environ.get("BOUNDARY") else {}
    with tempfile.TemporaryDirectory() as folder:
        project = copy_kit(Path(folder), AGENTS)
        config = project / "samconfig.toml"
        config.write_text(config.read_text().replace(NAME, name))
        return run(Proof(Stack(project, name=name), role, **boundary))


if __name__ == "__main__":
    sys.exit(main())
