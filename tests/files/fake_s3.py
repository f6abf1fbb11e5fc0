"""S3 in memory: it counts its calls, and fails when it is told to."""

from collections import Counter
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError


class FakeS3:
    """objects: content by key. calls: how often each method was called. failing: names of methods that get no
    answer. keeps: whether it keeps what it is given."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, list[bytes]] = {}
        self.calls: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.sizes: list[int] = []
        self._keeps = keeps

    def _count(self, name: str) -> None:
        self.calls[name] += 1
        if name in self.failing:
            raise ReadTimeoutError(endpoint_url="https://s3")

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:
        self._count("put_object")
        self._keep(Key, Body)

    def create_multipart_upload(self, *, Key: str, **_: Any) -> Any:
        self._count("create_multipart_upload")
        self.parts[Key] = []
        return {"UploadId": Key}

    def upload_part(self, *, Key: str, PartNumber: int, Body: bytes, **_: Any) -> Any:
        self._count("upload_part")
        assert PartNumber == len(self.parts[Key]) + 1
        self.parts[Key].append(Body if self._keeps else b"")
        self.sizes.append(len(Body))
        return {"ETag": str(PartNumber), "ChecksumCRC32": "c"}

    def complete_multipart_upload(self, *, Key: str, MultipartUpload: Any, **_: Any) -> None:
        self._count("complete_multipart_upload")
        numbers = [(part["PartNumber"], part["ChecksumCRC32"]) for part in MultipartUpload["Parts"]]
        assert numbers == [(number, "c") for number in range(1, len(self.parts[Key]) + 1)]
        self._keep(Key, b"".join(self.parts.pop(Key)))

    def abort_multipart_upload(self, *, Key: str, **_: Any) -> None:
        self._count("abort_multipart_upload")
        del self.parts[Key]

    def head_object(self, *, Key: str, **_: Any) -> Any:
        self._count("head_object")
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "404"}}, "HeadObject")
        return {"ETag": '"1"', "LastModified": datetime.now(UTC)}

    def get_object(self, *, Key: str, Range: str = "bytes=0-", **_: Any) -> Any:
        self._count("get_object")
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        content = self.objects[Key][int(Range[6:-1]) :]
        return {"Body": BytesIO(content), "ContentLength": len(content), "ETag": '"1"'}

    def generate_presigned_url(self, operation: str, *, Params: Any, ExpiresIn: int) -> str:
        self._count("generate_presigned_url")
        return f"https://{Params['Bucket']}.s3/{Params['Key']}?{self.calls['generate_presigned_url']}"

    def _keep(self, key: str, content: bytes) -> None:
        self.objects[key] = content if self._keeps else b""
