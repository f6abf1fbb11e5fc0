import asyncio
import base64
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from a2a_lambda import Agent, SkillError

SETTINGS = {"bucket": "my-bucket"}

CSV = "name,price\nanvil,10\nrope,2.5\n"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        boto3.client("s3").create_bucket(
            Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield Agent.load(Path(__file__).parents[1])


def part(text: str) -> dict[str, str]:
    raw = base64.b64encode(text.encode()).decode()
    return {"raw": raw, "filename": "data.csv", "mediaType": "text/csv"}


def file_in(artifacts: list[dict[str, list[dict[str, str]]]]) -> dict[str, str]:
    [found] = [part for artifact in artifacts for part in artifact["parts"] if "filename" in part]
    return found


def test_a_small_file_is_part_of_the_messages(agent: Agent) -> None:
    answer = asyncio.run(agent.run(parts=[part(CSV)], settings=SETTINGS))
    assert "Rows: 2." in answer.text
    assert base64.b64decode(file_in(answer.artifacts)["raw"]) == b"price\r\n12.5\r\n"


def test_a_large_file_goes_through_the_bucket(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agent_module(), "SMALL_BYTES", 10)

    async def talk() -> None:
        place = (await agent.run(skill="upload", slots={"name": "a.csv"}, settings=SETTINGS)).data[0]
        assert place["url"] == "https://my-bucket.s3.eu-west-1.amazonaws.com/"
        assert "policy" in place["fields"]
        boto3.client("s3").put_object(Bucket="my-bucket", Key=place["key"], Body=CSV.encode())
        answer = await agent.run(skill="add-up", slots={"key": place["key"]}, settings=SETTINGS)
        assert "X-Amz-Signature" in file_in(answer.artifacts)["url"]

    asyncio.run(talk())


def test_other_files_cannot_be_named(agent: Agent) -> None:
    boto3.client("s3").put_object(Bucket="my-bucket", Key="someone/1/a.csv", Body=CSV.encode())
    for key in ("someone/1/a.csv", "local/../someone/1/a.csv"):
        with pytest.raises(SkillError, match="no such file"):
            asyncio.run(agent.run(skill="add-up", slots={"key": key}, settings=SETTINGS))


def test_what_is_missing_or_wrong_is_said(agent: Agent) -> None:
    assert asyncio.run(agent.run("Add up.", settings=SETTINGS)).state == "input-required"
    wrong = {"raw": base64.b64encode(b"\xff\xfe").decode(), "mediaType": "text/csv"}
    with pytest.raises(SkillError, match="not a CSV"):
        asyncio.run(agent.run(parts=[wrong], settings=SETTINGS))


def agent_module() -> dict[str, object]:
    """Names of the agent's module, which `Agent.load` imported by its path."""
    name = Path(__file__).parents[1].name
    return vars(sys.modules[f"agents.{name}.agent"])
