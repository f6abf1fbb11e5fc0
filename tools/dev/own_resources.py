"""Tables and buckets of the fork's own in the emulator: those that a CloudFormation template declares.

make run EMULATE=template.yaml ── the template's tables and buckets ── emulator
                               └─ AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_S3 ── boto3 of the agents
"""

from pathlib import Path
from typing import Any

from botocore.session import Session

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import EMULATOR_REGION, Settings
from tools import template
from tools.deployment.stack import aws_errors

TABLE, BUCKET = "AWS::DynamoDB::Table", "AWS::S3::Bucket"

KIT_RESOURCES = (template.RESOURCE, "FileBucket")
"""Logical ids in the kit's template of what make run has without EMULATE."""

EMULATOR_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
"""For a machine that has none. The emulator does not check them."""


def create(path: Path, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Create what a template declares. Returns a line about each resource, and the environment with which
    boto3 calls the emulator: for every table if the template has a table, for every bucket if it has one.

    Raises ConfigurationError if the template cannot be read, or declares no table and no bucket.
    """
    if not path.exists():
        raise ConfigurationError(f"EMULATE={path}: there is no such file")
    kit_names = KIT_RESOURCES if path.resolve() == Path("template.yaml").resolve() else ()
    tables, declared = (
        {name: resource for name, resource in template.resources(path, kind).items() if name not in kit_names}
        for kind in (TABLE, BUCKET)
    )
    # A bucket's name has no capitals and at least three characters. A logical id may have others.
    buckets = [name.lower() if len(name) > 2 else f"{name.lower()}-bucket" for name in declared]
    if not tables and not buckets:
        raise ConfigurationError(
            f"EMULATE={path}: it declares no {TABLE} and no {BUCKET} of yours: declare one, or leave out"
            " EMULATE"
        )
    session = Session()
    region = session.get_config_variable("region")
    options: Any = {"endpoint_url": settings.emulator} | {
        name.lower(): value for name, value in EMULATOR_CREDENTIALS.items()
    }
    # The emulator keeps regions apart, and the agents call their own.
    dynamodb: Any = session.create_client("dynamodb", region_name=region or EMULATOR_REGION, **options)
    for name, definition in tables.items():
        with aws_errors(f"EMULATE={path}: table {name}"):
            template.create_table(dynamodb, name, definition)
    s3: Any = session.create_client("s3", region_name=EMULATOR_REGION, **options)
    for name in buckets:
        with aws_errors(f"EMULATE={path}: bucket {name}"):
            s3.create_bucket(Bucket=name)
    # What boto3 needs for any call, unless this machine has it.
    environment = {} if session.get_credentials() is not None else dict(EMULATOR_CREDENTIALS)
    if region is None:
        environment["AWS_DEFAULT_REGION"] = EMULATOR_REGION
    if tables:
        environment["AWS_ENDPOINT_URL_DYNAMODB"] = settings.emulator
    if buckets:
        environment["AWS_ENDPOINT_URL_S3"] = settings.emulator
    return [*(f"table {name}" for name in tables), *(f"bucket {name}" for name in buckets)], environment
