"""Files as an author sees them: in a message, at a URL, and as blocks for a model."""

import asyncio
import base64
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, File, SkillError, Turn
from a2a_lambda.agent.event_builder import part_of
from a2a_lambda.agent.files import model_blocks
from a2a_lambda.agent.files.message_files import ReceivedFile
from a2a_lambda.errors import AgentMistake, FileAbsent
from a2a_lambda.net import fetch
from a2a_lambda.protocol.model import Message, Part, Role
from tests.agent.folders import CARD, run, write
from tests.conftest import AGENTS

PNG, PDF = b"\x89PNG", b"%PDF"


class Store:
    """A deployment's files, of which one is there."""

    def open(self, url: str) -> Any:
        if url == "a2a-file:uploads/1":
            return (AGENTS / "probe" / "card.yaml").open("rb")
        if url.startswith("a2a-file:"):
            raise FileAbsent("absent")
        raise fetch.NotFetched("its server answered 404")


def turn_with(*parts: Part) -> Turn:
    turn = Turn(message=Message(messageId="m", role=Role.USER, parts=[Part(text="What is it?"), *parts]))
    turn.file_store = Store()  # type: ignore[assignment]
    return turn


def inline(content: bytes, name: str, media_type: str) -> Part:
    return Part(raw=base64.b64encode(content).decode(), filename=name, mediaType=media_type)


def test_a_file_of_the_bucket_is_read_as_one_of_the_message(tmp_path: Path) -> None:
    expected = (AGENTS / "probe" / "card.yaml").read_bytes()
    [file] = turn_with(Part(url="a2a-file:uploads/1", filename="card.yaml")).files
    assert file.content == file.read() == expected
    assert file.save(tmp_path / "copy").read_bytes() == expected
    with file.open() as stream:
        assert stream.read(4) == expected[:4]
    with pytest.raises(SkillError, match=r"card\.yaml has more than 10 bytes"):
        file.read(10)
    assert part_of(file) == {"url": "a2a-file:uploads/1", "filename": "card.yaml"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("a2a-file:uploads/2", r"The file a\.png is no longer available"),
        ("https://10.0.0.1/a.png", r"The file a\.png cannot be read: its server answered 404\."),
    ],
)
def test_a_file_that_cannot_be_read_is_told_to_the_client(url: str, message: str) -> None:
    [file] = turn_with(Part(url=url, filename="a.png")).files
    with pytest.raises(SkillError, match=message):
        file.read()


def test_a_foreign_url_is_not_content() -> None:
    [file] = turn_with(Part(url="https://example.com/a.png")).files
    assert file.content is None
    assert (file.name, file.url) == (None, "https://example.com/a.png")


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        (
            {},
            [
                {"type": "text", "text": "What is it?\n[file: a.png]\n[file: b c.pdf]\n[file: c.zip]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                {
                    "type": "file",
                    "file": {"filename": "b c.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                },
            ],
        ),
        (
            {"blocks": "anthropic"},
            [
                {"type": "text", "text": "What is it?\n[file: a.png]\n[file: b c.pdf]\n[file: c.zip]"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
                },
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                },
            ],
        ),
        (
            {"blocks": True},
            [
                {"text": "What is it?\n[file: a.png]\n[file: b c.pdf]\n[file: c.zip]"},
                {"image": {"format": "png", "source": {"bytes": PNG}}},
                {"document": {"format": "pdf", "name": "b c pdf 2", "source": {"bytes": PDF}}},
            ],
        ),
    ],
)
def test_blocks_for_models(options: Any, blocks: Any) -> None:
    turn = turn_with(
        inline(PNG, "a.png", "image/PNG; q=1"),
        inline(PDF, "b c.pdf", "application/pdf"),
        inline(b"PK", "c.zip", "application/zip"),
    )
    assert turn.messages(files=True, **options) == [{"role": "user", "content": blocks}]
    assert isinstance(turn.messages()[0]["content"], str)


@pytest.mark.parametrize(("name", "media_type"), [("a.jpg", "image/jpg"), ("a.jpeg", None)])
def test_a_model_gets_a_picture_by_whatever_shows_that_it_is_one(name: str, media_type: str | None) -> None:
    part = inline(b"JPG", name, media_type or "")
    if media_type is None:
        del part["mediaType"]
    [message] = turn_with(part).messages(files=True)
    assert message["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_a_model_gets_at_most_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_blocks, "BLOCKS_BYTES", 1_000_000)
    turn = turn_with(*(inline(b"x" * 400_000, f"{name}.png", "image/png") for name in "abc"))
    with pytest.raises(SkillError, match="exceed 1 MB in total"):
        turn.messages(files=True)


def test_a_file_is_named_by_its_type() -> None:
    assert part_of(File("a.png", b"")) == {"filename": "a.png", "raw": "", "mediaType": "image/png"}
    assert "mediaType" not in part_of(File("data.csv.gz", b""))
    assert part_of(File("a", url="https://example.com/a")) == {
        "filename": "a",
        "url": "https://example.com/a",
    }
    for file in (File("a.png"), File("a.png", b"", url="https://example.com/a")):
        with pytest.raises(AgentMistake, match="needs content or url"):
            part_of(file)


def test_a_message_without_files_stays_a_text() -> None:
    turn = turn_with()
    assert turn.messages(files=True) == [{"role": "user", "content": "What is it?"}]


def test_a_test_of_an_agent_sends_and_gets_files(tmp_path: Path) -> None:
    agent = Agent.load(AGENTS / "probe")
    path = tmp_path / "sums.csv"
    path.write_bytes(b"1,2")
    answer = asyncio.run(agent.run("hi", files=[path, File("a.png", b"x" * 200_000)], skill="examine"))
    assert [entry[:3] for entry in answer.data[0]] == [
        ["sums.csv", "text/csv", 3],
        ["a.png", "image/png", 200_000],
    ]
    drawing = asyncio.run(agent.run(skill="draw", slots={"kind": "stream"}))
    assert drawing.files[0].content is not None
    assert len(drawing.files[0].content) == 200_000


def test_files_of_the_message_that_ends_a_turn_are_in_its_answer(tmp_path: Path) -> None:
    answer = run(tmp_path, "@skill\ndef hello(): return Message('done', File('a.txt', b'x'))")
    assert [(file.name, file.content) for file in answer.files] == [("a.txt", b"x")]


@pytest.mark.parametrize("file", ["sums.csv", b"1,2", None])
def test_a_test_that_sends_no_file_is_told_what_to_write(file: Any) -> None:
    with pytest.raises(TypeError, match=r'write Path\("report.pdf"\), not '):
        asyncio.run(Agent.load(AGENTS / "probe").run("hi", files=[file]))


def test_a_test_sends_no_file_that_a_caller_could_not_send() -> None:
    agent = Agent.load(AGENTS / "plain")
    with pytest.raises(
        ValueError, match=r"the file a\.png is image/png; .*add the type to defaultInputModes"
    ):
        asyncio.run(agent.run("hi", files=[File("a.png", b"x")]))
    with pytest.raises(ValueError, match=r"a file is image/png"):
        asyncio.run(agent.run(parts=[Part(url="https://example.com/a", mediaType="image/png")]))


def test_a_url_is_read_with_its_redirects(httpserver: Any) -> None:
    httpserver.expect_request("/a").respond_with_data(status=302, headers={"Location": "/b?x=1"})
    httpserver.expect_request("/b", query_string="x=1").respond_with_data(b"content")
    with fetch.fetch(httpserver.url_for("/a"), allow_loopback=True) as stream:
        assert stream.read() == b"content"
    # Within a loop, too, as an asynchronous skill calls it.
    file = ReceivedFile(Part(url=httpserver.url_for("/b?x=1")))

    async def read() -> bytes:
        return file.read()

    assert asyncio.run(read()) == b"content"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("https://169.254.169.254/latest", "no public address"),
        ("http://example.com/", "its URL is not https"),
        ("/loop", "redirects more than 5 times"),
        ("file:///etc/passwd", "only https"),
    ],
)
def test_a_redirect_leads_nowhere_else(httpserver: Any, location: str, reason: str) -> None:
    httpserver.expect_request("/loop").respond_with_data(status=301, headers={"Location": location})
    with pytest.raises(fetch.NotFetched, match=reason):
        fetch.fetch(httpserver.url_for("/loop"), allow_loopback=True)


def test_a_deployment_reads_no_inner_url(httpserver: Any) -> None:
    for url in (
        httpserver.url_for("/"),
        "https://127.0.0.1/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "https:///",
        "https://[fe80::1%25é]/",
    ):
        with pytest.raises(fetch.NotFetched) as refusal:
            fetch.fetch(url)
        assert url not in str(refusal.value)


def test_a_url_may_lead_to_so_much(httpserver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FETCH_BYTES", 1000)
    httpserver.expect_request("/a").respond_with_data(b"x" * 1001)
    with pytest.raises(fetch.NotFetched, match="more than 1,000 bytes"):
        fetch.fetch(httpserver.url_for("/a"), allow_loopback=True)
    httpserver.expect_request("/none").respond_with_data(status=404)
    with pytest.raises(fetch.NotFetched, match="answered 404"):
        fetch.fetch(httpserver.url_for("/none"), allow_loopback=True)


def test_a_packed_content_is_refused(httpserver: Any) -> None:
    for encoding, is_plain in (
        ("gzip", False),
        ("Identity", True),
        ("aws-chunked", True),
        ("br, identity", False),
    ):
        path = f"/{encoding.split(',')[0]}"
        httpserver.expect_request(path).respond_with_data(b"x", headers={"Content-Encoding": encoding})
        with nullcontext() if is_plain else pytest.raises(fetch.NotFetched, match="compressed"):
            assert fetch.fetch(httpserver.url_for(path), allow_loopback=True).read() == b"x"


def test_a_url_may_take_so_long(httpserver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FILE_SECONDS", 0.0)
    with pytest.raises(fetch.NotFetched, match="TimeoutError"):
        fetch.fetch(httpserver.url_for("/a"), allow_loopback=True)


@pytest.mark.parametrize("sizes", [[300_000], [90_000, 90_000, 90_000], [10, 100_001]])
@pytest.mark.parametrize(
    "output", ["Message('done', *files)", "*files, 'done'", "Artifact('result', *files)"]
)
def test_a_test_gets_the_content_of_every_file(tmp_path: Path, output: str, sizes: list[int]) -> None:
    """A client gets the same from a deployment, where large files are in the bucket."""
    code = f"""
    @skill
    def hello():
        files = [File(f'{{size}}.bin', b'x' * size) for size in {sizes}]
        return {output}
    """
    answer = run(tmp_path, code)
    assert answer.state == "completed"
    assert [len(file.content or b"") for file in answer.files] == sizes


@pytest.mark.parametrize(("count", "size"), [(1, 90_000), (3, 90_000), (4, 20_000), (2, 300_000)])
def test_a_message_sends_the_users_files_back(tmp_path: Path, count: int, size: int) -> None:
    card = CARD + 'defaultInputModes: ["*/*"]\n'
    agent = Agent.load(
        write(tmp_path, "@skill\ndef hello(turn: Turn): return Message('x', *turn.files)", card)
    )
    files = [File(f"{number}.bin", bytes([number]) * size, media_type="image/png") for number in range(count)]
    answer = asyncio.run(agent.run("back", files=files))
    assert [(file.name, file.content) for file in answer.files] == [
        (file.name, file.content) for file in files
    ]
    assert {file.media_type for file in answer.files} == {"image/png"}


@pytest.mark.parametrize(
    "output", ["Message('x', *[File('a.bin', turn.files[0].content)] * 3)", "Message('x', *turn.files * 3)"]
)
def test_a_message_may_have_a_file_several_times(tmp_path: Path, output: str) -> None:
    """All of them are in the message, which has room for what one file may have."""
    card = CARD + 'defaultInputModes: ["*/*"]\n'
    agent = Agent.load(write(tmp_path, f"@skill\ndef hello(turn: Turn): return {output}", card))
    answer = asyncio.run(agent.run("back", files=[File("a.bin", b"x" * 90_000)]))
    assert answer.state == "completed"
    assert [file.content for file in answer.files] == [b"x" * 90_000] * 3


@pytest.mark.parametrize(("size", "seen"), [(100_000, 0), (100_001, 1)])
def test_the_next_turn_reads_a_large_file_of_the_history(tmp_path: Path, size: int, seen: int) -> None:
    code = f"""
    @skill
    def hello(turn: Turn):
        if not turn.history:
            return File("a.bin", b"x" * {size})
        files = turn.files_in(turn.history[1].parts)
        return {{"sizes": [len(file.read()) for file in files], "urls": [file.url[:5] for file in files]}}
    """
    agent = Agent.load(write(tmp_path, code))
    first = asyncio.run(agent.run("make one"))
    second = asyncio.run(agent.run("read it", after=first))
    assert second.data == [{"sizes": [size] * seen, "urls": ["data:"] * seen}]
