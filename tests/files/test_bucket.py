"""The bucket: reading to the end or not at all, and URLs and forms as S3 takes them."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import FlexibleChecksumError
from botocore.response import StreamingBody

from a2a_lambda.aws import clients
from a2a_lambda.errors import FileAbsent, FilesUnavailable
from a2a_lambda.files.bucket import NAME_CHARACTERS, Bucket, key_of, version_of
from a2a_lambda.files.content import content_of
from a2a_lambda.protocol.stored_file import CHUNK_BYTES
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace

SCOPE = Namespace("owner", "agent")


@pytest.fixture
def bucket(settings: Settings) -> Bucket:
    return Bucket(lambda: clients.s3(settings), settings.files_bucket)


@pytest.fixture
def rows(bucket: Bucket) -> tuple[str, bytes]:
    """Key and content of an object of some chunks."""
    content = b"".join(b"%07d\n" % number for number in range(400_000))
    bucket.put("rows", content)
    assert len(content) > 3 * CHUNK_BYTES
    return "rows", content


def test_a_content_is_a_file(bucket: Bucket, rows: tuple[str, bytes]) -> None:
    key, content = rows
    with bucket.open(key) as stream:
        assert list(stream)[-1] == b"0399999\n"
    with bucket.open(key) as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
        assert len(list(text)) == 400_000
    with bucket.open(key) as stream:
        assert stream.read() == content
        assert stream.read(1) == b""
        assert stream.seek(-8, io.SEEK_END) == len(content) - 8
        assert stream.read() == b"0399999\n"
        stream.seek(8)
        assert stream.readline() == b"0000001\n"


def test_a_zip_file_is_read_where_it_is(bucket: Bucket) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("large", b"x" * 3_000_000)
        archive.writestr("small", b"y")
    bucket.put("a.zip", file.getvalue())
    with bucket.open("a.zip") as stream, zipfile.ZipFile(stream) as archive:
        assert archive.read("small") == b"y"


def test_a_content_that_has_changed_is_absent(bucket: Bucket) -> None:
    bucket.put("a", b"first")
    content = bucket.find("a")
    assert content is not None
    with bucket.open("a", content.version) as stream:
        assert stream.read() == b"first"
    bucket.put("a", b"second")
    with pytest.raises(FileAbsent):
        bucket.open("a", content.version)
    etag, _, second = content.version.rpartition("-")
    bucket.put("a", b"first")  # the same ETag, as two files may have on purpose
    with pytest.raises(FileAbsent):
        bucket.open("a", f"{etag}-{int(second) - 1}")


def test_a_content_that_changes_while_it_is_read_is_absent(bucket: Bucket, rows: tuple[str, bytes]) -> None:
    key, content = rows
    with bucket.open(key) as stream:
        stream.read(8)
        bucket.put(key, content[::-1])
        stream.seek(-8, io.SEEK_END)
        with pytest.raises(FileAbsent):
            stream.read()
        for offset, whence in ((0, 7), (-1, io.SEEK_SET)):
            with pytest.raises(ValueError, match=r"position|whence|negative"):
                stream.seek(offset, whence)


class WrongChecksum(io.BytesIO):
    """What botocore's stream does at its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        if chunk := super().read(size):
            return chunk
        raise FlexibleChecksumError(error_msg="it differs")


def test_a_content_has_its_checksum() -> None:
    with content_of(WrongChecksum(b"abc"), 3, lambda position: None) as stream:  # noqa: SIM117
        with pytest.raises(FilesUnavailable):
            stream.read()


class Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise ConnectionResetError


@pytest.mark.parametrize("raw", [io.BytesIO(b"abc"), Broken()])
def test_a_connection_that_breaks_off_is_not_the_end(raw: Any) -> None:
    with content_of(StreamingBody(raw, 1000), 1000, lambda position: None) as stream:  # noqa: SIM117
        with pytest.raises(FilesUnavailable, match="S3 stopped within a file"):
            stream.read()


@pytest.fixture(params=["us-east-1", "eu-west-1", "ap-southeast-5", "cn-north-1"])
def deployed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Bucket]]:
    """Host of a bucket in a region, and the bucket as a function has it."""
    region = request.param
    clients.session.cache_clear()
    for name, value in {
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    end = ".cn" if region.startswith("cn-") else ""
    yield f"files-1.s3.{region}.amazonaws.com{end}", Bucket(lambda: clients.s3(Settings()), "files-1")
    clients.session.cache_clear()


def test_urls_and_forms_name_the_buckets_host_in_its_region(deployed: tuple[str, Bucket]) -> None:
    """The global host redirects for a new bucket, and a browser follows no redirect of a preflight."""
    host, bucket = deployed
    assert urlsplit(bucket.link("a", "a.png", "image/png")).netloc == host
    assert urlsplit(bucket.form("a", 10).url).netloc == host


@pytest.mark.parametrize(
    ("media_type", "served"),
    [
        ("text/plain", "text/plain; charset=utf-8"),
        ("Text/Plain; charset=latin-1", "text/plain; charset=utf-8"),
        ("image/PNG", "image/png"),
        ("video/mp4", "video/mp4"),
        ("video/x+xml", "application/octet-stream"),
        ("video/名前", "application/octet-stream"),
        ("audio/\u0660", "application/octet-stream"),
        ("video/" + "x" * 127, "video/" + "x" * 127),
        ("video/" + "x" * 128, "application/octet-stream"),
        ("text/html; x=image/png", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_how_a_url_serves_its_file(bucket: Bucket, media_type: str, served: str) -> None:
    query = parse_qs(urlsplit(bucket.link("a", "a", media_type)).query)
    assert query["response-content-type"] == [served]


def test_a_long_name_makes_no_long_url(bucket: Bucket) -> None:
    query = parse_qs(urlsplit(bucket.link("a", "\u6587" * 100_000 + ".pdf", "")).query)
    [disposition] = query["response-content-disposition"]
    assert disposition.endswith(".pdf")
    assert len(disposition) < 9 * NAME_CHARACTERS + 30


@pytest.mark.parametrize(
    "reference",
    ["a2a-file:", "a2a-file:uploads/../x", f"a2a-file:uploads/{'0' * 32}/a/b", "a2a-file:tasks/x/y/1"],
)
def test_a_made_up_reference_has_no_key(reference: str) -> None:
    with pytest.raises(FileAbsent):
        key_of(SCOPE, reference)
    assert version_of(reference) == ""
