"""make run EMULATE=…: what an agent's boto3 finds."""

import os
from pathlib import Path
from typing import Any

import boto3
import httpx2
import pytest
from botocore.config import Config

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.dev.own_resources import create

TEMPLATE = """
Resources:
  Orders:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PROVISIONED
      ProvisionedThroughput: { ReadCapacityUnits: 1, WriteCapacityUnits: 1 }
      SSESpecification: { SSEEnabled: true }
      AttributeDefinitions:
        - { AttributeName: customer, AttributeType: S }
        - { AttributeName: at, AttributeType: N }
      KeySchema: [{ AttributeName: customer, KeyType: HASH }]
      GlobalSecondaryIndexes:
        - IndexName: by-time
          KeySchema: [{ AttributeName: at, KeyType: HASH }]
          Projection: { ProjectionType: ALL }
          ProvisionedThroughput: { ReadCapacityUnits: 1, WriteCapacityUnits: 1 }
  Uploads:
    Type: AWS::S3::Bucket
  Named:
    Type: AWS::S3::Bucket
    Properties: { BucketName: my-bucket, Tags: [{ Key: a, Value: !Ref AWS::StackName }] }
  Other:
    Type: AWS::SNS::Topic
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "environ", {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)})
    template = tmp_path / "mine.yaml"
    template.write_text(TEMPLATE)
    return template


@pytest.mark.parametrize("region", ["", "eu-west-1"])
def test_an_agent_finds_its_tables_and_buckets(path: Path, settings: Settings, region: str) -> None:
    if region:
        os.environ["AWS_DEFAULT_REGION"] = region
    lines, environment = create(path, settings)
    assert lines == ["table Orders", "bucket uploads", "bucket my-bucket"]
    os.environ.update(environment)
    table: Any = boto3.session.Session().resource("dynamodb").Table("Orders")
    table.put_item(Item={"customer": "alice", "at": 7})
    assert table.scan(IndexName="by-time")["Items"] == [{"customer": "alice", "at": 7}]
    s3: Any = boto3.session.Session().client("s3", config=Config(s3={"addressing_style": "virtual"}))
    s3.put_object(Bucket="uploads", Key="a/b.txt", Body=b"text")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "uploads", "Key": "a/b.txt"})
    assert httpx2.get(link, trust_env=False).text == "text"
    form = s3.generate_presigned_post("my-bucket", "c.txt")
    answer = httpx2.post(form["url"], data=form["fields"], files={"file": b"more"}, trust_env=False)
    assert answer.is_success
    assert s3.get_object(Bucket="my-bucket", Key="c.txt")["Body"].read() == b"more"


def test_other_services_and_ones_own_credentials_stay(path: Path, settings: Settings) -> None:
    os.environ.update({"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"})
    path.write_text(TEMPLATE[: TEMPLATE.index("  Uploads")].replace("Orders", "Once"))
    _, environment = create(path, settings)
    assert environment.keys() == {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_DEFAULT_REGION"}


COMPUTED = """
Resources:
  Fn::ForEach::Topics: [Topic, [a, b], { "Topic${Topic}": { Type: AWS::SNS::Topic } }]
  NoType: { Properties: { A: 1 } }
  Carts:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: { Fn::Sub: "${AWS::StackName}-orders" }
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      TimeToLiveSpecification: { AttributeName: ttl, Enabled: !Ref Expires }
      StreamSpecification: !If [HasStream, { StreamViewType: KEYS_ONLY }, !Ref AWS::NoValue]
  DB:
    Type: AWS::S3::Bucket
    Properties: { Tags: { Ref: Tags } }
"""


def test_what_only_cloudformation_knows_is_left_out(path: Path, settings: Settings) -> None:
    path.write_text(COMPUTED)
    lines, environment = create(path, settings)
    assert lines == ["table Carts", "bucket db-bucket"]
    os.environ.update(environment)
    client: Any = boto3.session.Session().client("dynamodb")
    expiry = client.describe_time_to_live(TableName="Carts")["TimeToLiveDescription"]
    assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", "ttl")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Resources: { T: { Type: AWS::DynamoDB::Table, Properties: { KeySchema: !Ref Keys } } }\n",
            r"EMULATE=.*mine\.yaml: table T: ",
        ),
        ("Resources:\n  Other: { Type: AWS::SNS::Topic }\n", "declares no AWS::DynamoDB::Table"),
        ("Outputs: {}\n", "no Resources"),
    ],
)
def test_a_template_that_cannot_be_emulated_is_one_sentence(
    path: Path, settings: Settings, text: str, words: str
) -> None:
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        create(path, settings)


def test_the_kits_own_table_and_bucket_are_not_the_forks(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match=r"EMULATE=template.yaml: it declares no"):
        create(Path("template.yaml"), settings)
