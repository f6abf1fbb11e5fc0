"""template.yaml deployed to an emulator of AWS (ministack) by `sam deploy`, and called there.

    sam build ── sam deploy ── ministack ── the API: cards
                                        └── the function URL: everything else

What this emulator cannot do, and what is done about it here:

- It imports no ANY method of an API (x-amazon-apigateway-any-method): the tests add the one of the cards.
- A streamed REST route answers 500: calls go through the function URL.
- It ignores AWS_LAMBDA_EXEC_WRAPPER, so nothing streams, and a function URL gives the proxy answer as it
  is: it is unwrapped here. Streaming is tested with the built function under a Runtime API of our own
  (tests/lambda_/runtime/test_runtime.py).
- It compares the concurrency of an event source mapping as text: the tests set it again.
- It runs functions with its own interpreter, on this machine's architecture: the build is for those. Their
  processes see their layers, and nothing of its environment (tests/processes/lambda_path).
- It knows no durable execution by its name, so a durable turn stays `submitted`.
- Its account has as much concurrency as this machine has memory for, and no role for access logs.
- Authorization by IAM, throttling, WAF, alarms and domains are stored and do nothing.
- It gives the bucket no lifecycle: the tests do.
- It gives tables no TTL and no point-in-time recovery, and takes DeletionProtection=false for true.
- `sam delete` wants the templates of nested stacks on a host of AWS: the tests delete the stack with
  CloudFormation's own call.
- It gives SAM's transform no parameters, so a new Release publishes no version: the tests publish it.
- It has no CodeDeploy: `Rollout` stays as it is by default.
- It has no composite alarm, no association of WAF, no record of a hosted zone and no layer of another account
  or region, and its callers come through no CDN: the parameters of UNSUPPORTED are left out.
"""

import json
import os
import re
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import httpx2

from tests.e2e.calls import Call, Recorder
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import PLAIN_HTTP
from tests.processes.servers import MINISTACK
from tools.build.built_functions import MACHINE_ARCHITECTURE
from tools.deployment.stack import FUNCTIONS

NAME = "a2a-dev"
"""Of the stage dev in tests.helpers.project."""

REGION = "us-east-1"

UNSUPPORTED = {
    "AlarmSummary": "false",
    "WebAclArn": "",
    "HostedZoneId": "",
    "OriginDigests": "",
    "ApiConcurrency": "0",
    "RpcConcurrency": "0",
    "RpcProvisioned": "0",
    "AccessLogs": "false",
    "ExtraLayerArn": "",
    "ExtraLayerArn2": "",
    "ExtraLayerWrapper": "",
    "OtlpEndpoint": "",
}
"""Parameters whose resources the emulator does not have, that need what only the real account has, or that
would send the spans of a test to a real collector, and their values here."""

COMMAND_SECONDS = 3600.0
"""Seconds that a command has. A canary on AWS takes a quarter of an hour."""


class CommandFailed(AssertionError):
    """Its text is what the command printed."""

    @property
    def reason(self) -> str:
        """The lines that say why: errors, each once; or else the last ones."""
        lines = str(self).strip().splitlines()
        errors = [line for line in lines if re.match(r"error:|Error:|An error occurred", line)]
        return "\n".join(dict.fromkeys(errors)) or "\n".join(lines[-20:])


class Stack:
    """A stack that a project's folder is deployed to, in the account and the region of the environment. The
    stage is one of the project's samconfig.toml, and the name is the one that it gives the stack."""

    def __init__(self, project: Path, stage: str = "dev", name: str = NAME) -> None:
        self.project = project
        self.stage = stage
        self.name = name
        self.environment: dict[str, str] = {}

    def client(self, service: str) -> Any:
        return boto3.session.Session().client(service)  # type: ignore[call-overload]

    def run(self, *command: str, **variables: str) -> str:
        """Output of a command. Raises CommandFailed."""
        result = subprocess.run(
            command,
            cwd=self.project,
            env={**os.environ, **self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        if result.returncode:
            raise CommandFailed(result.stdout + result.stderr)
        return result.stdout

    def deploy(self, *options: str, **parameters: str) -> None:
        """Run make deploy with more options of make, and with parameters beside those of the stage."""
        overrides = " ".join(f"{name}={value}" for name, value in parameters.items())
        self.run("make", "deploy", f"STAGE={self.stage}", f"PARAMETERS={overrides}", *options)

    def delete(self) -> None:
        client = self.client("cloudformation")
        client.delete_stack(StackName=self.name)
        patience = {"Delay": 5, "MaxAttempts": 360}  # half an hour: durable turns may have to end
        client.get_waiter("stack_delete_complete").wait(StackName=self.name, WaiterConfig=patience)

    @cached_property
    def outputs(self) -> dict[str, str]:
        [description] = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}

    @cached_property
    def resources(self) -> dict[str, str]:
        """Physical ids by logical ones."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return {
            item["LogicalResourceId"]: item["PhysicalResourceId"]
            for page in pages.paginate(StackName=self.name)
            for item in page["StackResourceSummaries"]
        }

    def release(self) -> str:
        """Of the last deployment."""
        [description] = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        [release] = [each for each in description["Parameters"] if each["ParameterKey"] == "Release"]
        return str(release["ParameterValue"])


class EmulatedStack(Stack):
    """A stack on the emulator at a url. With a recorder, `asked` holds what each command has asked of AWS.

    region, profile: those of the stage. This machine need not have the profile.
    """

    def __init__(
        self,
        url: str,
        project: Path,
        stage: str = "dev",
        name: str = NAME,
        *,
        recorder: Recorder | None = None,
        region: str = REGION,
        profile: str = "",
    ) -> None:
        super().__init__(project, stage, name)
        self.url = url
        self.region = region
        self.recorder = recorder
        self.asked: dict[str, set[Call]] = {}
        self.environment = {
            "AWS_ENDPOINT_URL": recorder.url if recorder else url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": region,
        }
        if profile:
            config = project / ".aws-sam" / "e2e-config"
            config.parent.mkdir(exist_ok=True)
            config.write_text(
                f"[profile {profile}]\naws_access_key_id = test\naws_secret_access_key = test\n"
            )
            self.environment["AWS_CONFIG_FILE"] = str(config)

    def client(self, service: str) -> Any:
        return boto3.session.Session().client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def run(self, *command: str, **variables: str) -> str:
        before = len(self.recorder.calls) if self.recorder else 0
        output = super().run(*command, **variables)
        if self.recorder:
            goal = next((word for word in command[1:] if re.fullmatch("[a-z]+", word)), "doctor")
            self.asked.setdefault(goal, set()).update(self.recorder.calls[before:])
        return output

    def deploy(self, *options: str, **parameters: str) -> None:
        """Built for this machine; with a function URL."""
        here = (f"ARCH={MACHINE_ARCHITECTURE}", f"LAMBDA_PYTHON={interpreter()}", "BUILD_DIR=.aws-sam/e2e")
        super().deploy(
            *here,
            *options,
            **{"Architecture": MACHINE_ARCHITECTURE, "FunctionUrl": "true", **UNSUPPORTED, **parameters},
        )

    def mend(self) -> None:
        """Make up for what the emulator leaves out; and let webhooks be on this machine."""
        api, functions = self.client("apigateway"), self.client("lambda")
        arn = functions.get_alias(FunctionName=self.resources["ApiFunction"], Name="live")["AliasArn"]
        [cards] = [
            item
            for item in api.get_resources(restApiId=self.resources["Api"])["items"]
            if item["path"] == "/.well-known/{proxy+}"
        ]
        where = {"restApiId": self.resources["Api"], "resourceId": cards["id"], "httpMethod": "ANY"}
        if "ANY" not in cards.get("resourceMethods", {}):
            api.put_method(**where, authorizationType="NONE")
        api.put_integration(
            **where,
            type="AWS_PROXY",
            integrationHttpMethod="POST",
            uri=f"arn:aws:apigateway:{self.region}:lambda:path/2015-03-31/functions/{arn}/invocations",
        )
        if bucket := self.resources.get("FileBucket"):
            expiration: Any = {"ID": "expire", "Status": "Enabled", "Filter": {}, "Expiration": {"Days": 30}}
            self.client("s3").put_bucket_lifecycle_configuration(
                Bucket=bucket, LifecycleConfiguration={"Rules": [expiration]}
            )
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            if most := mapping.get("ScalingConfig", {}).get("MaximumConcurrency"):
                functions.update_event_source_mapping(
                    UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": int(most)}
                )
        for name in FUNCTIONS:
            configuration = functions.get_function_configuration(FunctionName=self.resources[name])
            variables = {**configuration["Environment"]["Variables"], "A2A_LOOPBACK_WEBHOOKS": "1"}
            functions.update_function_configuration(
                FunctionName=self.resources[name], Environment={"Variables": variables}
            )
            description = f"{configuration['Description']} {self.release()}"  # as SAM has it
            published = functions.publish_version(FunctionName=self.resources[name], Description=description)
            version = published["Version"]
            functions.update_alias(FunctionName=self.resources[name], Name="live", FunctionVersion=version)

    def card(self, path: str) -> httpx2.Response:
        """A card's answer, through the API."""
        api = f"{self.url}/_aws/execute-api/{self.resources['Api']}/live"
        return httpx2.get(f"{api}/{path}", timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """An answer through the function URL."""
        with httpx2.Client(transport=Unwrapped(self), timeout=PATIENCE_SECONDS) as client:
            url = self.outputs["FunctionUrl"].rstrip("/") + path
            return client.request(method, url, json=body, headers=headers)

    def sweep(self) -> Any:
        """What the schedule does every minute."""
        answer = self.client("lambda").invoke(
            FunctionName=self.resources["WorkerFunction"],
            Qualifier="live",
            Payload=json.dumps({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}),
        )
        assert "FunctionError" not in answer, answer["Payload"].read()
        return json.loads(answer["Payload"].read())


class Unwrapped(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Calls of the function URL's own host, made to the emulator; a proxy answer is unwrapped."""

    def __init__(self, stack: EmulatedStack) -> None:
        self._url = httpx2.URL(stack.url)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        with httpx2.Client(timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP) as client:
            return self._unwrapped(client.send(self._moved(request)))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP) as client:
            return self._unwrapped(await client.send(self._moved(request)))

    def _moved(self, request: httpx2.Request) -> httpx2.Request:
        url = request.url.copy_with(scheme="http", host=self._url.host, port=self._url.port)
        return httpx2.Request(request.method, url, headers=request.headers, content=request.read())

    def _unwrapped(self, answer: httpx2.Response) -> httpx2.Response:
        body = answer.json()
        assert "statusCode" in body, body
        headers = {name: value for name, value in body["headers"].items() if name != "content-length"}
        return httpx2.Response(body["statusCode"], headers=headers, content=body["body"].encode())


def interpreter() -> str:
    """Version of the Python the emulator runs functions with."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    result = subprocess.run(
        [str(MINISTACK.parent / "python"), "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()
