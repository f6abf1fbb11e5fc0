"""make redrive: what a letter names is sent again, and nothing is lost on the way."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.deployment import redrive
from tools.deployment.redrive import RECORDS_AT_ONCE, Redrive

RESOURCES = {"DeadRecords": "dead", "NotifierFunction": "notifier"}


def record(number: int, *, sk: str = "head", pushes: bool = True) -> dict[str, Any]:
    image: dict[str, Any] = {"sk": {"S": sk}, "document": {"B": b"{}"}}
    if pushes:
        image["pushes"] = {"N": "1"}
    return {"eventName": "MODIFY", "dynamodb": {"SequenceNumber": str(number), "NewImage": image}}


class Gone(Exception):
    pass


class Aws:
    """The stream, the queue and the notifier."""

    class exceptions:  # as a client has it
        TrimmedDataAccessException = Gone
        ResourceNotFoundException = Gone

    def __init__(self, pages: list[list[dict[str, Any]]], letters: list[str]) -> None:
        self.pages = pages
        self.letters: list[dict[str, Any]] = [
            {"Body": body, "ReceiptHandle": str(at)} for at, body in enumerate(letters)
        ]
        self.deleted: list[str] = []
        self.shown: list[str] = []
        self.told: list[list[int]] = []
        self.sent: list[dict[str, str]] = []
        self.fails = self.refuses = False

    def create_client(self, _: str) -> "Aws":
        return self

    def receive_message(self, *, MessageSystemAttributeNames: list[str], **_: Any) -> dict[str, Any]:
        assert MessageSystemAttributeNames == ["MessageGroupId"], "without it, SQS does not name the group"
        letters, self.letters = self.letters, []
        return {"Messages": letters} if letters else {}

    def send_message(self, **message: str) -> None:
        self.sent.append(message)

    def delete_message(self, *, ReceiptHandle: str, **_: Any) -> None:  # AWS's name
        self.deleted.append(ReceiptHandle)

    def change_message_visibility(self, *, ReceiptHandle: str, VisibilityTimeout: int, **_: Any) -> None:
        assert VisibilityTimeout == 0
        self.shown.append(ReceiptHandle)
        if self.refuses:
            raise ClientError({}, "ChangeMessageVisibility")

    def get_shard_iterator(self, *, ShardId: str, **_: Any) -> dict[str, Any]:
        if ShardId == "trimmed":
            raise Gone
        return {"ShardIterator": "0"}

    def get_records(self, *, ShardIterator: str) -> dict[str, Any]:
        at = int(ShardIterator)
        answer: dict[str, Any] = {"Records": self.pages[at]}
        if at + 1 < len(self.pages):
            answer["NextShardIterator"] = str(at + 1)
        return answer

    def invoke(self, *, Payload: str, Qualifier: str, **_: Any) -> dict[str, Any]:
        assert Qualifier == "live"
        records = json.loads(Payload)["Records"]
        self.told.append([int(each["dynamodb"]["SequenceNumber"]) for each in records])

        class Body:
            fails = self.fails

            def read(self) -> str:
                return json.dumps({"batchItemFailures": [{"itemIdentifier": "1"}] if self.fails else []})

        return {"Payload": Body()}


def letter(begin: int, end: int, shard: str = "s") -> str:
    place = {"streamArn": "arn", "shardId": shard, "startSequenceNumber": str(begin)}
    return json.dumps({"DDBStreamBatchInfo": {**place, "endSequenceNumber": str(end), "batchSize": 9}})


def redriven(monkeypatch: pytest.MonkeyPatch, fake: Aws) -> tuple[int, int]:
    monkeypatch.setattr(clients, "session", lambda: fake)
    return Redrive(RESOURCES).records()


def test_pages_may_be_empty_before_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Aws([[], [], [record(1), record(2)], [record(3), record(4)]], [letter(1, 3)])
    assert redriven(monkeypatch, fake) == (1, 0)
    assert fake.told == [[1, 2, 3]], "not what comes after it"
    assert fake.deleted == ["0"]


def test_only_what_webhooks_hear_of_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter of the notifier's mapping selects the same."""
    others = [record(2, sk="copy", pushes=False), record(3, pushes=False)]
    fake = Aws([[record(1), *others, *(record(number) for number in range(4, 11))]], [letter(1, 10)])
    assert redriven(monkeypatch, fake) == (1, 0)
    assert [number for some in fake.told for number in some] == [1, 4, 5, 6, 7, 8, 9, 10]
    assert all(len(some) <= RECORDS_AT_ONCE for some in fake.told)


@pytest.mark.parametrize("refuses", [False, True])
def test_letters_after_one_that_fails_are_left_to_the_next_run(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """The one that fails stays hidden, or it would keep the others from being sent."""
    fake = Aws([[record(1)]], ["no json", letter(1, 1), letter(1, 1), letter(1, 1)])
    fake.fails, fake.refuses = True, refuses
    with pytest.raises(ConfigurationError, match="failed again"):
        redriven(monkeypatch, fake)
    assert (fake.deleted, fake.shown) == (["0"], ["2", "3"])


def test_letters_that_name_nothing_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = ["no json", '{"DDBStreamBatchInfo": {}}', letter(1, 1, shard="trimmed"), letter(1, 1)]
    fake = Aws([[record(1)]], letters)
    assert redriven(monkeypatch, fake) == (1, 3)
    assert fake.told == [[1]]


@pytest.mark.parametrize("count", [0, 2])
def test_letters_that_another_reader_has_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    """They are hidden then, and "0 sent again" would say that there are none."""

    class Queue(Aws):
        def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
            return {"Attributes": {"ApproximateNumberOfMessagesNotVisible": str(count)}}

    queue = Queue([], [])
    resources = {"DeadTurns": "dead", "Turns": "turns", "DeadNotices": "dead", "Notices": "notices"}
    resources["WorkerDeadTurns"] = "7f3c"
    monkeypatch.setattr(clients, "session", lambda: queue)
    monkeypatch.setattr(redrive, "resources_of", lambda _: resources)
    assert redrive.main({"QUEUE": "turns", "STACK": "s"}) == bool(count)
    output = capsys.readouterr()
    assert output.out == "0 sent again\n"
    assert ("Hidden messages: 2." in output.err and "--uuid 7f3c --no-enabled" in output.err) is bool(count)
    assert redrive.main({"QUEUE": "notices", "STACK": "s"}) == bool(count)
    assert ("Run this command again in 5 minutes" in capsys.readouterr().err) is bool(count)


@pytest.mark.parametrize(("queue", "has_id"), [("turns", False), ("notices", True)])
def test_a_letter_keeps_its_group(monkeypatch: pytest.MonkeyPatch, queue: str, has_id: bool) -> None:
    """Only a FIFO queue, which that of the turns is not, takes the id of a message."""
    aws = Aws([], [])
    aws.letters = [{"Body": "{}", "ReceiptHandle": "0", "Attributes": {"MessageGroupId": "g"}}]
    monkeypatch.setattr(clients, "session", lambda: aws)
    resources = {name: name for name in ("DeadTurns", "Turns", "DeadNotices", "Notices")}
    _, send_again = redrive.QUEUES[queue]
    assert send_again(Redrive(resources)) == (1, 0)
    [message] = aws.sent
    assert message["MessageGroupId"] == "g"
    assert ("MessageDeduplicationId" in message) is has_id
