"""The deployed stack, as its clients and its operator meet it; `stack` says what the emulator leaves out."""

import asyncio
import base64
import io
import json
import os
import re
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.exceptions import ClientError
from starlette.testclient import TestClient

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.agent.agent import Agent
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Message, Part, Role
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.store.issuer_copies import Fetch, IssuerCopies
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.turns.claim import Handover
from tests.background.fake_queue import FakeQueue
from tests.conftest import AGENTS, ROOT
from tests.e2e.calls import Recorder
from tests.e2e.proof import Proof
from tests.e2e.stack import NAME, EmulatedStack, Unwrapped
from tests.files.uploading import post
from tests.helpers.builds import building
from tests.helpers.clock import PATIENCE_SECONDS, wait_until
from tests.helpers.rest import message_1_0
from tests.interop.provider import NODE_MODULES, RESOURCE, Provider, run_client
from tests.lambda_.observability.collector import Collector
from tests.processes.front import front
from tests.processes.servers import LAMBDA_PATH, MINISTACK, running_ministack
from tests.push.courier import Webhook
from tests.template.permissions.conftest import render_roles, statements_of
from tests.template.permissions.iam import is_allowed
from tools.build.built_functions import MACHINE_ARCHITECTURE
from tools.client import logs
from tools.deployment import doctor
from tools.deployment.stack import FUNCTIONS
from tools.playground import serve
from tools.playground.app import Playground

pytestmark = [pytest.mark.slow(seconds=240), pytest.mark.e2e]

POLICIES = [
    f"arn:aws:iam::aws:policy/{name}" for name in ("AmazonS3ReadOnlyAccess", "AWSXRayDaemonWriteAccess")
]
"""Of AWS, for the agents."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedStack]:
    """Deployed once. The last test deletes it."""
    with building() as project:
        pass
    with running_ministack(tmp_path_factory.mktemp("ministack")) as url:
        recorder = Recorder(url)
        emulated_stack = EmulatedStack(url, project, recorder=recorder)
        with building():
            emulated_stack.deploy()
        emulated_stack.asked.clear()  # an administrator's: it makes sam's bucket
        emulated_stack.mend()
        yield emulated_stack
        recorder.close()


@pytest.fixture(scope="module")
def key(stack: EmulatedStack) -> str:
    """A key as the stack's own output says it is made."""
    command = stack.outputs["MakeKey"].split()
    assert command == ["make", "key", "NAME=alice", f"STACK={NAME}"]
    secret, *_ = stack.run("make", "--silent", *command[1:]).splitlines()
    return secret


@pytest.fixture
def rest(stack: EmulatedStack, key: str) -> "Rest":
    return Rest(stack, key)


class Rest:
    """HTTP+JSON of A2A 1.0."""

    def __init__(self, stack: EmulatedStack, key: str) -> None:
        self._stack = stack
        self.headers = {"X-API-Key": key, "A2A-Version": "1.0"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._stack.call(method, path, body, **self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, text: str, **configuration: Any) -> Any:
        message = message_1_0(text=text, messageId=str(uuid.uuid4()))
        return self.ask("POST", "/message:send", {"message": message, "configuration": configuration})["task"]

    def state(self, task_id: str) -> str:
        return str(self.ask("GET", f"/tasks/{task_id}")["status"]["state"])


def test_cards_through_the_api(stack: EmulatedStack) -> None:
    for path in (".well-known/agent-card.json", ".well-known/agent.json"):
        card = stack.card(path)
        assert card.status_code == 200, card.text
        assert card.json()["skills"]
    assert stack.card(".well-known/nothing.json").status_code == 404
    assert "CardIsNotAtTheRoot" in stack.outputs


def test_no_one_without_a_key(stack: EmulatedStack, key: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "x"}}
    assert stack.call("POST", "/", body).status_code == 401
    assert stack.call("POST", "/", body, **{"X-API-Key": key[:-1] + "x"}).status_code == 401
    assert stack.call("POST", "/", body, **{"X-API-Key": key}).json()["error"]["code"] == -32001


def test_files_are_in_the_stacks_bucket(stack: EmulatedStack, rest: Rest) -> None:
    """The emulator checks the signatures of urls and forms, which the functions' own credentials make."""
    large, inline = b"u" * 5_000_000, b"i" * 300_000
    place = rest.ask("POST", "/uploads", {"size": len(large), "mediaType": "text/plain"})
    post(place["form"], large)
    files = [{"url": place["url"]}, {"raw": base64.b64encode(inline).decode()}]
    parts = [{"text": "What is 1 plus 2?"}, *({**file, "mediaType": "text/plain"} for file in files)]
    message = message_1_0(messageId=str(uuid.uuid4()), parts=parts)
    task = rest.ask("POST", "/message:send", {"message": message})["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    _, first, second = rest.ask("GET", f"/tasks/{task['id']}")["history"][0]["parts"]
    assert httpx2.get(first["url"], timeout=PATIENCE_SECONDS).content == large
    assert httpx2.get(second["url"], timeout=PATIENCE_SECONDS).content == inline
    bucket = stack.outputs["FileBucketName"]
    assert f"/{bucket}/" in first["url"]
    forged = first["url"].replace("X-Amz-Signature=", "X-Amz-Signature=0")
    refusal = httpx2.get(forged, timeout=PATIENCE_SECONDS)
    assert refusal.status_code == 403


def test_the_operators_commands(stack: EmulatedStack, key: str) -> None:
    make = ("make", "--silent", "key", f"STACK={NAME}")
    assert "alice" in stack.run(*make)
    secret, *_ = stack.run(*make, "NAME=brief", "AGENTS=assistant", "DAYS=1").splitlines()
    assert secret not in stack.run(*make)
    stack.run("make", "--silent", "secret", f"STACK={NAME}")
    stack.run(*make, "NAME=brief", "REVOKE=1")
    assert "brief" not in stack.run(*make)
    nobodys = subprocess.run(
        ["make", "key", "NAME=a", "STACK=nosuch"],
        cwd=ROOT,
        env={**os.environ, **stack.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert nobodys.returncode
    assert "nosuch" in nobodys.stderr


@pytest.mark.skipif(not NODE_MODULES.exists(), reason="no npm on this machine")
def test_clients_of_a_provider_sign_in(stack: EmulatedStack, tmp_path: Path) -> None:
    """A certified provider's tokens, by the official SDKs' own interceptors. A deployed function calls no
    provider on this machine, so the test shares its keys in the table, as another container would."""
    provider = Provider(tmp_path, "https://login.example.com")
    scopes = {"SCOPE": "agents.call", "AUDIENCE": RESOURCE}
    issuer_output = stack.run(
        *("make", "--silent", "issuer", "NAME=idp", f"ISSUER={provider.issuer}", f"STACK={NAME}"),
        *(f"{name}={value}" for name, value in scopes.items()),
    )
    assert "refused until it answers" in issuer_output
    origin = stack.outputs["FunctionUrl"].rstrip("/")
    with provider.running(), front(origin, Unwrapped(stack)) as url:
        jwks = httpx2.get(f"{provider.url}/jwks", timeout=PATIENCE_SECONDS).json()["keys"]
        issuer = Issuer("idp", provider.issuer, (RESOURCE,))
        client = stack.client("dynamodb")
        copies = IssuerCopies(Table(client, stack.resources["Table"]), f"/a2a/{NAME}/keys")
        copies.finish_fetch(issuer, Fetch(time.time(), cooldown_seconds=30), jwks)
        token = provider.token_of_program()["access_token"]
        message = {"message": message_1_0(text="What is 1 plus 2?", messageId=str(uuid.uuid4()))}

        def send(secret: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {secret}", "A2A-Version": "1.0"}
            return stack.call("POST", "/message:send", message, **headers)

        wait_until(
            lambda: send(token).status_code == 200, pause=0.2
        )  # issuers reach a container within a minute
        assert send(token[:-6] + "AAAAAA").status_code == 401
        poor = send(provider.token_of_program(scope="agents.admin")["access_token"])
        assert poor.status_code == 403
        assert 'scope="agents.call"' in poor.headers["www-authenticate"]
        assert "ID token" in send(provider.token_of_person("alice")["id_token"]).text
        python = str(ROOT / ".venvs/a2a-1/bin/python")
        last = run_client(python, str(ROOT / "tests/interop/client_sign_in.py"), url, token)
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        script = tmp_path / "client_sign_in.mjs"
        script.write_text((ROOT / "tests/interop/client_sign_in.mjs").read_text())
        output = run_client("node", str(script), f"{url}/", token)
        assert output["metadata"]["authorization_servers"] == [provider.issuer]
        assert "hello" in json.dumps(output["answer"])
    assert "removed idp" in stack.run("make", "--silent", "issuer", "NAME=idp", "REMOVE=1", f"STACK={NAME}")


def test_the_operators_look(stack: EmulatedStack, key: str) -> None:
    """All that make doctor STACK=… asks of AWS, on a stack that is well."""
    code = f"from tools.deployment import doctor; print(doctor.inspect({NAME!r}))"
    output = stack.run(sys.executable, "-c", code)
    failed = [line for line in output.splitlines() if line.strip().startswith("FAIL")]
    left_out = ("the table can be restored", "old tasks expire")  # by the emulator
    assert not [line for line in failed if not any(what in line for what in left_out)], output
    assert "one stage" in output
    assert "NotifierFunction serves a version" in output


def test_redriving(stack: EmulatedStack, rest: "Rest") -> None:
    """What a webhook did not accept, and a change that was not relayed, are sent again."""
    webhook = Webhook()
    task = rest.send("What is 1 plus 2?", taskPushNotificationConfig={"url": webhook.url, "id": "a"})
    wait_until(lambda: [body for _, body, _ in webhook.seen if "statusUpdate" in body], pause=0.2)
    sqs, streams = stack.client("sqs"), stack.client("dynamodbstreams")
    table, dynamodb = stack.outputs["TableName"], stack.client("dynamodb")
    [push] = [
        {name: item[name] for name in ("pk", "sk")}
        for item in dynamodb.scan(TableName=table)["Items"]
        if task["id"] in item["pk"]["S"] and item["sk"]["S"] == "push#a"
    ]
    update_count = len(webhook.seen)
    # As if the webhook had received nothing.
    dynamodb.update_item(TableName=table, Key=push, UpdateExpression="REMOVE sent_sequence")
    body = json.dumps(["alice", "assistant", task["id"], "a"])
    sqs.send_message(
        QueueUrl=stack.resources["DeadNotices"],
        MessageBody=body,
        MessageGroupId="g",
        MessageDeduplicationId=str(uuid.uuid4()),
    )
    redrive = ("make", "--silent", "redrive", f"STACK={NAME}")
    assert "1 sent again" in stack.run(*redrive, "QUEUE=notices")
    wait_until(lambda: len(webhook.seen) > update_count, pause=0.2)

    arn = streams.list_streams(TableName=table)["Streams"][0]["StreamArn"]
    [shard, *_] = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    records = streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    place = {
        "streamArn": arn,
        "shardId": shard["ShardId"],
        "startSequenceNumber": records[0]["dynamodb"]["SequenceNumber"],
        "endSequenceNumber": records[-1]["dynamodb"]["SequenceNumber"],
        "batchSize": len(records),
    }
    letter = json.dumps({"DDBStreamBatchInfo": place})
    sqs.send_message(QueueUrl=stack.resources["DeadRecords"], MessageBody=letter)
    assert "1 sent again" in stack.run(*redrive, "QUEUE=records")
    assert "0 sent again" in stack.run(*redrive, "QUEUE=records")
    webhook.close()


def test_access_logs(stack: EmulatedStack) -> None:
    """API Gateway's role is made once; a second time there is nothing to do."""
    assert "make deploy turns access logs on" in stack.run("make", "--silent", "account")


def test_the_playground_calls_it_and_reads_its_log(
    stack: EmulatedStack, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    target = replace(serve.target_of_stack(NAME, key, asyncio.Event()), url=stack.outputs["FunctionUrl"])
    client = TestClient(Playground(target, transport=Unwrapped(stack)), base_url="http://127.0.0.1:8081")
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "What is 1 plus 2?"}]}
    call = {"version": "1.0", "agent": "", "key": key, "operation": "send", "request": {"message": message}}
    answer = client.post("/playground/call", json=call)
    records = [json.loads(line) for line in answer.text.splitlines()]
    [result] = [record["result"] for record in records if record["kind"] == "result"]
    assert result["task"]["artifacts"][0]["parts"][0]["text"] == "1 plus 2 is 3."
    log = logs.log_of(NAME)
    wait_until(lambda: [entry for entry in log.read() if entry["level"] == "INFO"], pause=0.2)


def test_the_doctor_is_content(stack: EmulatedStack, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = asyncio.run(
        doctor.examine(stack.outputs["FunctionUrl"], key, "What is 1 plus 2?", Unwrapped(stack))
    )
    assert report.failed == 0, capsys.readouterr().out


def test_a_conversation(rest: Rest) -> None:
    question = rest.send("coach me")
    assert question["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    message = message_1_0(text="football", taskId=question["id"], contextId=question["contextId"])
    result = rest.ask("POST", "/message:send", {"message": message})["task"]
    assert result["status"]["state"] == "TASK_STATE_COMPLETED"
    assert rest.ask("GET", f"/tasks?contextId={question['contextId']}")["totalSize"] == 1


def test_functions_see_nothing_of_the_environments_here() -> None:
    """An agent with a package that only this environment has fails here, as it does on Lambda."""
    code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    names = ("moto", "requests", "boto3", "hypercorn", "ministack", "json")
    values: dict[bool, list[str]] = {}
    for is_function in (False, True):
        function = {"AWS_LAMBDA_FUNCTION_NAME": "rpc"} if is_function else {}
        environment = {"PYTHONPATH": str(LAMBDA_PATH), **function}
        python = [str(MINISTACK.parent / "python"), "-c", code, *names]
        values[is_function] = subprocess.run(
            python, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
    assert values == {False: ["boto3", "hypercorn", "ministack", "json"], True: ["json"]}


def test_a_background_run(rest: Rest) -> None:
    """It goes through SQS and the worker."""
    task = rest.send("What is 1 plus 2?", returnImmediately=True)
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    wait_until(lambda: rest.state(task["id"]) == "TASK_STATE_COMPLETED", pause=0.2)


def test_a_push(rest: Rest) -> None:
    """It goes through the table's stream, the relay, the FIFO queue and the notifier."""
    webhook = Webhook()
    config = {"url": webhook.url, "token": "t-1"}
    task = rest.send("What is 1 plus 2?", taskPushNotificationConfig=config)
    wait_until(lambda: webhook.seen, pause=0.2)
    headers, body, _ = webhook.seen[-1]
    assert headers["x-a2a-notification-token"] == "t-1"
    [update] = body.values()
    assert update["taskId"] == task["id"]
    webhook.close()


def test_the_sweep(stack: EmulatedStack, rest: Rest, key: str) -> None:
    """A turn whose message never came to the queue is run all the same."""
    store = Store(Table(stack.client("dynamodb"), stack.outputs["TableName"]), ttl=86_400)
    namespace = Namespace("alice", "assistant")
    message = Message(messageId="m", role=Role.USER, parts=[Part(text="What is 1 plus 2?")])
    call = MessageCall(namespace, RequestIdentity.of(namespace, "send", uuid.uuid4().bytes), wire_name="1.0")
    agents = Agents.of(Agent.load(AGENTS / "assistant"))
    intake = Messages(
        store, agents, dispatcher=Dispatcher(FakeQueue()), repeat_seconds=60, files=Files()
    ).intake
    request = SendMessageRequest(message=message, configuration={"returnImmediately": True})
    handover = asyncio.run(intake.start(call, request))
    assert isinstance(handover, Handover)
    head: Head = store.update_head(replace(handover.head, due=0))
    assert rest.state(head.task_id) == "TASK_STATE_SUBMITTED"
    stack.sweep()  # the schedule may be first
    wait_until(lambda: rest.state(head.task_id) == "TASK_STATE_COMPLETED", pause=0.2)


def publish_layer(stack: EmulatedStack, name: str) -> str:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"python/{name}.py", "")
    version = stack.client("lambda").publish_layer_version(
        LayerName=name, Content={"ZipFile": content.getvalue()}
    )
    return str(version["LayerVersionArn"])


def test_an_owners_tasks_and_files_are_erased(stack: EmulatedStack, rest: Rest) -> None:
    """rest: of alice, as all calls of the tests above."""
    bucket = stack.outputs["FileBucketName"]
    file = {"raw": base64.b64encode(b"e" * 200_000).decode(), "mediaType": "text/plain"}
    message = message_1_0(messageId=str(uuid.uuid4()), parts=[{"text": "What is 1 plus 2?"}, file])
    task = rest.ask("POST", "/message:send", {"message": message})["task"]
    assert stack.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"]
    output = stack.run("make", "--silent", "erase", f"STACK={NAME}", "OWNER=alice", "YES=1")
    assert re.search(r"tasks: [1-9].*files: [1-9]", output), output
    assert rest.ask("GET", "/tasks")["tasks"] == []
    assert not stack.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"]
    assert stack.call("GET", f"/tasks/{task['id']}", **rest.headers).status_code == 404


def test_an_update_with_all_that_is_optional(stack: EmulatedStack, request: pytest.FixtureRequest) -> None:
    """A second deployment, with every parameter that adds a resource."""
    arn = "arn:aws:{}:us-east-1:000000000000:{}"
    topic = stack.client("sns").create_topic(Name="alarms")["TopicArn"]
    kms = stack.client("kms")
    signing = kms.create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["Arn"]
    zone = stack.client("route53").create_hosted_zone(Name="example.com", CallerReference="e2e")
    boundary = f"arn:aws:iam::000000000000:policy/{uuid.uuid4()}"
    layer = publish_layer(stack, "tracer")  # the fifth: the kit has four with an OtlpEndpoint
    collector = Collector()
    request.addfinalizer(collector.close)
    with building():
        stack.deploy(
            PermissionsBoundaryArn=boundary,
            AgentPolicyArns=",".join(POLICIES),
            AgentNames="assistant",
            SubnetIds="subnet-1,subnet-2",
            SecurityGroupIds="sg-1",
            SnapStart=str(sys.version_info >= (3, 12)).lower(),  # the functions run on this Python
            AccessLogs="true",
            CorsOrigins="https://a.example",
            DomainName="agents.example.com",
            CertificateArn=arn.format("acm", f"certificate/{uuid.uuid4()}"),
            HostedZoneId=zone["HostedZone"]["Id"].rpartition("/")[2],
            AlarmTopicArn=topic,
            SigningKey=signing,
            RpcConcurrency="20",
            ApiConcurrency="10",
            Tracing="true",
            OtlpEndpoint=collector.url,
            ExtraLayerArn=layer,
        )
    del stack.outputs, stack.resources
    assert stack.outputs["BaseUrl"] == "https://agents.example.com/"
    assert stack.outputs["Card"] == "https://agents.example.com/.well-known/agent-card.json"
    assert "CardIsNotAtTheRoot" not in stack.outputs
    alarms = stack.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert len(alarms) >= 26
    for alarm in alarms:
        assert alarm["AlarmActions"] == [topic]
    rpc = stack.client("lambda").get_function_configuration(FunctionName=stack.resources["RpcFunction"])
    assert rpc["Environment"]["Variables"]["A2A_BASE_URL"] == "https://agents.example.com"
    assert rpc["Architectures"] == [MACHINE_ARCHITECTURE]
    role = rpc["Role"].rpartition("/")[2]
    policies = stack.client("iam").list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    arns = " ".join(policy["PolicyArn"] for policy in policies)
    assert all(name in arns for name in (*POLICIES, "AgentPolicy"))
    stack.mend()
    card = stack.card(".well-known/agent-card.json")
    assert card.json()["signatures"]
    assert card.json()["supportedInterfaces"][0]["url"].startswith("https://agents.example.com/")
    assert layer in [each["Arn"] for each in rpc["Layers"]]
    assert len(rpc["Layers"]) == 5

    def has_sent_spans() -> bool:
        """Spans that an invocation cannot send in time are sent by a later one."""
        stack.card(".well-known/agent-card.json")
        return "GET" in [name for _, name in collector.traces()]

    wait_until(has_sent_spans, pause=0.5)


def test_versions_go_back_and_are_deleted(stack: EmulatedStack) -> None:
    """After the update: the alias is at the version before, and old ones go."""
    functions = stack.client("lambda")

    def live() -> list[int]:
        return [
            int(functions.get_alias(FunctionName=stack.resources[name], Name="live")["FunctionVersion"])
            for name in FUNCTIONS
        ]

    before = live()
    rollback_output = stack.run("make", "--silent", "rollback", f"STACK={NAME}")
    assert all(f"{name}: version" in rollback_output for name in FUNCTIONS)
    assert live() == [version - 1 for version in before]
    forward = stack.run("make", "--silent", "rollback", f"STACK={NAME}", f"RELEASE={stack.release()[:12]}")
    assert live() == before, forward
    rpc = stack.resources["RpcFunction"]
    never_live = []
    for number in range(3):  # as of deployments that failed
        functions.update_function_configuration(FunctionName=rpc, Description=f"failed release {number}")
        never_live.append(functions.publish_version(FunctionName=rpc)["Version"])
    [own] = [
        arn.rpartition(":")[2]
        for logical_id, arn in stack.resources.items()
        if logical_id.startswith("RpcFunctionVersion")
    ]
    output = stack.run("make", "--silent", "prune", f"STACK={NAME}", "KEEP=2")
    assert "RpcFunction: 1 deleted" in output
    versions = functions.list_versions_by_function(FunctionName=rpc)["Versions"]
    numbers = {version["Version"] for version in versions} - {"$LATEST"}
    own_live = live()[FUNCTIONS.index("RpcFunction")]
    assert numbers == {own, str(own_live - 1), str(own_live), *never_live[1:]}


def test_the_roles_of_templates_allow_what_the_commands_asked(stack: EmulatedStack) -> None:
    """The workflow's role allows make deploy, the erasers' policy make erase, the operators' policy the
    other commands. Only an administrator runs make account."""
    roles = render_roles(StackName=NAME)
    operators, erasure = (
        roles.resources[name]["Properties"]["PolicyDocument"]["Statement"]
        for name in ("OperatorPolicy", "ErasurePolicy")
    )
    assert set(stack.asked) >= {"deploy", "key", "doctor", "redrive", "rollback", "prune", "secret", "erase"}
    for command, calls in stack.asked.items():
        allowed = {"deploy": statements_of(roles, "DeployRole"), "erase": erasure}
        statements = allowed.get(command, operators)
        assert len(calls) >= 2, command
        refused = {
            call
            for call in calls
            if command != "account"
            and not call.action.startswith("sts:GetCallerIdentity")  # it needs no permission
            and not is_allowed(statements, call.action, call.resource)
        }
        assert not refused, command


class ProofOnEmulator(Proof):
    """Leaves out log groups that are newer than the stack's deletion: in the emulator, an invocation that
    still ran makes its log group again when it ends. On AWS, no role of a function may make one."""

    deletion_began = float("inf")

    def left(self) -> Iterator[str]:
        names = list(super().left())
        logs = self.stack.client("logs")
        groups = logs.describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{NAME}/")["logGroups"]
        late = {
            group["logGroupName"] for group in groups if group["creationTime"] >= self.deletion_began * 1000
        }
        yield from (name for name in names if name not in late)


def test_the_table_outlives_its_stack_and_a_proof_on_aws_leaves_nothing(stack: EmulatedStack) -> None:
    """Its steps that this emulator can take; and its role allows what they ask."""
    assert stack.recorder
    other_stack = EmulatedStack(stack.recorder.url, stack.project)
    proof = ProofOnEmulator(other_stack)
    del stack.recorder.calls[:]
    proof.make_key()
    assert proof.alarm().startswith(f"{NAME}-Monitoring-")
    assert not proof.weights()
    assert len(list(proof.left())) > 5
    table = stack.outputs["TableName"]
    stack.client("dynamodb").update_table(TableName=table, DeletionProtectionEnabled=False)
    proof.deletion_began = time.time()
    other_stack.delete()
    with pytest.raises(ClientError, match="does not exist"):
        stack.client("cloudformation").describe_stacks(StackName=NAME)
    assert stack.client("lambda").list_functions()["Functions"] == []
    assert stack.client("dynamodb").describe_table(TableName=table), "data outlives its stack"
    assert proof.delete() == "nothing is left"
    roles = render_roles(StackName=NAME, Proof="true")
    statements = [
        *statements_of(roles, "DeployRole"),
        *(
            statement
            for name in ("OperatorPolicy", "ProofPolicy")
            for statement in roles.resources[name]["Properties"]["PolicyDocument"]["Statement"]
        ),
    ]
    calls = set(stack.recorder.calls)
    assert {call.action for call in calls} >= {"cloudformation:DeleteStack", "dynamodb:DeleteTable"}
    assert {"s3:DeleteObjectVersion", "s3:ListBucketVersions"} & {call.action for call in calls}
    assert not {call for call in calls if not is_allowed(statements, call.action, call.resource)}
