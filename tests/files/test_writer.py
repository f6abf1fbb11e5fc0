"""A file's way into the bucket: in few calls, in little memory, and all of it or nothing."""

import asyncio
import base64
import io
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.agent.files import output_files
from a2a_lambda.agent.files.message_files import ReceivedFile
from a2a_lambda.agent.outputs import File, FinalMessage, NamedArtifact
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.memory import KeptResults, MemoryEngine
from a2a_lambda.errors import AgentMistake, FilesUnavailable, LimitExceeded, SkillError
from a2a_lambda.files import writer
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.turn_files import TurnFiles
from a2a_lambda.files.writer import PART_BYTES, Writer
from a2a_lambda.protocol.model import Message, Part, Role, TaskState, make_status
from a2a_lambda.protocol.stored_file import is_reference
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from tests.files.fake_s3 import FakeS3
from tests.helpers.clock import wait_until

MB = 2**20


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3()


def head_of(turn_id: str = "turn", place: Place = Place.REQUEST) -> Head:
    return Head(
        namespace=Namespace("owner", "agent"),
        task_id="task",
        context_id="context",
        generation="g",
        created=0,
        expires=1,
        status=make_status(TaskState.WORKING, 0),
        turn_id=turn_id,
        place=place,
    )


def turn_on(s3: FakeS3, place: Place = Place.REQUEST, turn_id: str = "turn") -> Turn:
    turn = Turn(message=Message(messageId="m", role=Role.USER, parts=[]), id=turn_id)
    turn.file_store = TurnFiles(head_of(turn_id, place), Bucket(lambda: s3, "files"), allow_loopback=False)  # type: ignore[arg-type,return-value]
    return turn


@pytest.mark.parametrize("place", list(Place))
@pytest.mark.parametrize("is_replayed", [False, True])
def test_a_second_attempt_writes_over_no_file_of_the_first(
    s3: FakeS3, place: Place, is_replayed: bool
) -> None:
    """A run that has lost its task may still write, and a request keeps the artifacts of its first try. Only
    a replay outputs the same."""
    head, bucket = head_of(place=place), Bucket(lambda: s3, "files")  # type: ignore[arg-type,return-value]
    references = set()
    for attempt in (head, head.with_new_epoch()):
        file = TurnFiles(attempt, bucket, allow_loopback=False).writer(
            1, is_replayed=is_replayed, inline_bytes=100_000
        )
        file.add(b"x" * 200_000)
        references.add(file.finish())
    assert (len(references) == 1) is is_replayed


def pieces(total: int, size: int = MB) -> Iterator[bytes]:
    piece = b"x" * size
    return (piece for _ in range(total // size))


async def async_pieces(total: int, size: int = MB) -> AsyncIterator[bytes]:
    for piece in pieces(total, size):
        yield piece


@pytest.mark.parametrize(
    ("size", "calls"),
    [
        (100_000, {}),
        (100_001, {"put_object": 1}),
        (PART_BYTES - 1, {"put_object": 1}),
        (PART_BYTES, {"create_multipart_upload": 1, "upload_part": 1, "complete_multipart_upload": 1}),
        (
            2 * PART_BYTES + 1,
            {"create_multipart_upload": 1, "upload_part": 3, "complete_multipart_upload": 1},
        ),
    ],
)
def test_a_file_is_written_once_in_few_calls(s3: FakeS3, size: int, calls: dict[str, int]) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    [file] = output_files.store(turn_on(s3), (File("a.bin", content[:size]),))
    assert s3.calls == calls
    if calls:
        assert s3.objects == {next(iter(s3.objects)): content[:size]}
        assert file.content is None
    else:
        assert file == File("a.bin", content[:size])


def test_a_gigabyte_takes_little_memory() -> None:
    """A part is in memory, and its copy on its way to S3: not the file."""
    s3 = FakeS3(keeps=False)
    tracemalloc.start()
    try:
        [file] = asyncio.run(
            output_files.store_async(turn_on(s3), (File("film.mp4", async_pieces(1024 * MB)),))
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(s3.sizes) == 1024 * MB
    assert file.url is not None
    assert peak < 4 * PART_BYTES


def test_what_fails_leaves_nothing(s3: FakeS3) -> None:
    def broken() -> Iterator[bytes]:
        yield from pieces(3 * PART_BYTES)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        output_files.store(turn_on(s3), (File("a.bin", broken()),))
    assert (s3.parts, s3.objects) == ({}, {})
    s3.failing = {"upload_part"}
    with pytest.raises(FilesUnavailable, match="S3 did not answer UploadPart"):
        output_files.store(turn_on(s3), (File("a.bin", pieces(3 * PART_BYTES)),))
    assert (s3.parts, s3.objects) == ({}, {})


def test_a_canceled_turn_stops_writing(s3: FakeS3) -> None:
    turn = turn_on(s3)

    def endless() -> Iterator[bytes]:
        for number, piece in enumerate(pieces(10 * PART_BYTES)):
            if number == 20:
                turn.cancel()
            yield piece

    with pytest.raises(SkillError):
        output_files.store(turn, (File("a.bin", endless()),))
    assert (s3.parts, s3.objects) == ({}, {})
    assert s3.calls["upload_part"] == 2


def test_an_asynchronous_turn_that_is_canceled_leaves_nothing(s3: FakeS3) -> None:
    async def go() -> None:
        is_running = asyncio.Event()

        async def stuck() -> AsyncIterator[bytes]:
            async for piece in async_pieces(2 * PART_BYTES):
                yield piece
            is_running.set()
            await asyncio.Event().wait()

        work = asyncio.create_task(output_files.store_async(turn_on(s3), (File("a.bin", stuck()),)))
        await is_running.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        while s3.parts:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert s3.objects == {}


def test_a_file_that_is_aborted_while_a_part_is_on_its_way_leaves_nothing(s3: FakeS3) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    create = s3.create_multipart_upload

    def create_slowly(**options: Any) -> Any:
        begun.set()
        assert may_go_on.wait(60)
        return create(**options)

    s3.create_multipart_upload = create_slowly  # type: ignore[method-assign]
    file = Writer(Bucket(lambda: s3, "files"), "key", "reference", 0)  # type: ignore[arg-type,return-value]
    file.add(b"x" * PART_BYTES)
    flush = threading.Thread(target=file.flush)
    flush.start()
    assert begun.wait(60)
    abort = threading.Thread(target=file.abort)
    abort.start()
    wait_until(lambda: file._is_aborted)
    may_go_on.set()
    for thread in (flush, abort):
        thread.join()
    assert s3.parts == {}
    assert s3.calls["abort_multipart_upload"] == 1


def test_a_file_that_is_aborted_is_not_finished(s3: FakeS3) -> None:
    file = Writer(Bucket(lambda: s3, "files"), "key", "reference", 0)  # type: ignore[arg-type,return-value]
    file.add(b"x" * MB)
    file.abort()
    file.finish()
    assert s3.objects == {}


def test_a_received_file_is_a_content(s3: FakeS3) -> None:
    file = ReceivedFile(Part(raw="eHl6", filename="a.txt"))
    assert output_files.store(turn_on(s3), (File("copy.txt", file),)) == (File("copy.txt", b"xyz"),)  # type: ignore[arg-type]


def test_a_file_has_a_limit(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FILE_BYTES", 10 * MB)
    with pytest.raises(LimitExceeded, match="at most 10,485,760 bytes"):
        output_files.store(turn_on(s3), (File("a.bin", pieces(11 * MB)),))
    assert s3.parts == {}


def test_the_same_run_writes_to_the_same_keys(s3: FakeS3) -> None:
    for letter in (b"a", b"b"):
        output_files.store(turn_on(s3), (File("a.bin", letter * MB), File("b.bin", letter * MB)))
    assert list(s3.objects.values()) == [b"b" * MB] * 2
    output_files.store(turn_on(s3, turn_id="other"), (File("a.bin", b"c" * MB),))
    assert len(s3.objects) == 3


def test_a_replay_writes_nothing_again(s3: FakeS3) -> None:
    outputs = (File("a.bin", b"a" * MB), "text", File("small.bin", b"s"), File("b.bin", b"b" * MB))
    turns = [turn_on(s3, Place.EXECUTION) for _ in range(3)]
    for turn in turns[:2]:
        turn.engine = MemoryEngine(KeptResults(), {})
    first, second = (output_files.store(turn, outputs) for turn in turns[:2])
    assert first == second
    assert s3.calls["put_object"] == 2
    output_files.store(turns[2], outputs)
    assert s3.calls["put_object"] == 4, "a plain skill, which a router chose, may output another content"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_replay_runs_the_code_that_makes_a_files_content(s3: FakeS3, is_async: bool) -> None:
    """The code may have steps, or change what the skill uses later."""
    sizes: list[int] = []

    def make() -> Iterator[bytes]:
        for piece in pieces(3 * MB):
            sizes.append(len(piece))
            yield piece

    async def make_async() -> AsyncIterator[bytes]:
        for piece in make():
            yield piece

    references = set()
    for count in (3, 6):
        turn = turn_on(s3, Place.EXECUTION)
        turn.engine = MemoryEngine(KeptResults(), {})
        content = make_async() if is_async else make()
        [file] = asyncio.run(output_files.store_async(turn, (File("a.bin", content),)))
        references.add(file.url)
        assert len(sizes) == count
    assert len(references) == s3.calls["put_object"] == 1


def test_files_within_other_outputs(s3: FakeS3) -> None:
    file = File("a.bin", b"a" * MB)
    turn = turn_on(s3)
    artifact, message, again = output_files.store(
        turn, (NamedArtifact("report", "text", file, description="d"), FinalMessage(file, "end"), file)
    )
    assert artifact.contents[1].url == message.contents[0].url == again.url
    assert (artifact.name, artifact.contents[0], artifact.description) == ("report", "text", "d")
    assert s3.calls["put_object"] == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_the_files_of_a_message_share_the_room_of_one(s3: FakeS3, is_async: bool) -> None:
    """They are in the head of its task, which is one item of the table."""
    turn = turn_on(s3)
    small, large = File("a", b"x" * 30_000), File("b", b"y" * 60_000)
    piecewise = File("c", pieces(40_000, 10_000))
    outputs = (FinalMessage("here", small, large, piecewise), large)
    if is_async:
        stored = asyncio.run(output_files.store_async(turn, outputs))
    else:
        stored = output_files.store(turn, outputs)
    message, _ = stored
    assert [file.content for file in message.contents[1:]] == [b"x" * 30_000, None, None]
    assert sorted(map(len, s3.objects.values())) == [40_000, 60_000]


def test_received_files_share_the_room_of_a_message_too(s3: FakeS3) -> None:
    """Those that are in the bucket, or elsewhere, take no room, and stay where they are."""
    raw = base64.b64encode(b"x" * 60_000).decode()
    inline = [ReceivedFile(Part(raw=raw, filename=name, metadata={"page": 3})) for name in "ab"]
    elsewhere = [ReceivedFile(Part(url=url)) for url in ("a2a-file:uploads/1", "https://example.com/f")]
    [message] = output_files.store(turn_on(s3), (FinalMessage("x", *inline, *elsewhere),))
    for name, file in zip("ab", message.contents[1:3], strict=True):
        assert file.part == {"url": file.part["url"], "filename": name, "metadata": {"page": 3}}
        assert is_reference(file.part)
    assert message.contents[3:] == (*elsewhere,)
    assert [*map(len, s3.objects.values())] == [60_000, 60_000]
    [alone] = output_files.store(turn_on(s3), (FinalMessage("x", inline[0], *elsewhere),))
    assert alone.contents == ("x", inline[0], *elsewhere)


def closed_file() -> io.BytesIO:
    file = io.BytesIO(b"content")
    file.close()
    return file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text", r"is of type str: write text.encode\(\). It must be bytes"),
        (7, "is of type int"),
        (["a", "b"], "is str, not bytes"),
        (Path("/nowhere/no.csv"), "cannot be read: No such file or directory$"),
        (closed_file(), "is a closed file"),
    ],
)
def test_what_no_file_can_have(s3: FakeS3, content: Any, message: str) -> None:
    with pytest.raises(AgentMistake, match=message) as error:
        output_files.store(turn_on(s3), (File("a.bin", content),))
    assert "a.bin" not in str(error.value), "it is logged, and may be the user's words"


def test_without_a_bucket_a_file_stays_in_its_task() -> None:
    turn = turn_on(FakeS3())
    turn.file_store = TurnFiles(head_of(), None, allow_loopback=False)
    [file] = output_files.store(turn, (File("a.bin", pieces(2 * MB)),))
    assert file.content == b"x" * (2 * MB)
