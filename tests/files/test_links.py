"""The links to the stored files in one answer."""

from collections import Counter
from typing import Any, cast

from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.links import Links
from a2a_lambda.tasks.identity import Namespace


class SigningBucket:
    def __init__(self) -> None:
        self.signed: Counter[str] = Counter()

    def link(self, key: str, name: str, media_type: str) -> str:
        self.signed[name] += 1
        return f"https://s3.example/{key}?{name}"


def test_a_file_that_an_answer_names_often_is_signed_once() -> None:
    bucket, url = SigningBucket(), f"a2a-file:uploads/{1:032x}"
    parts = [{"url": url, "filename": name} for name in ("a.txt", "a.txt", "b.txt")]
    event: Any = {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": parts}}}
    shown: Any = Links(cast(Bucket, bucket)).show_blocking(Namespace("owner", "agent"), event)
    urls = [part["url"] for part in shown["artifactUpdate"]["artifact"]["parts"]]
    assert urls[0] == urls[1] != urls[2]
    assert bucket.signed == {"a.txt": 1, "b.txt": 1}
