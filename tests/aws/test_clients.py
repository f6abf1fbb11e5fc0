"""The kit's session: like botocore's, but it does not look for all services on the disk."""

import os

import pytest
from botocore.exceptions import UnknownServiceError
from botocore.session import Session

from a2a_lambda.aws import clients


def test_the_session_knows_the_services_that_botocore_knows() -> None:
    assert set(Session().get_available_services()) <= set(clients.session().get_available_services())


def test_a_service_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownServiceError):
        clients.session().create_client("nothing", region_name="us-east-1")


def test_the_first_client_opens_few_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []
    listdir = os.listdir

    def watch(path: str) -> list[str]:
        folders.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", watch)
    clients.session.__wrapped__().create_client(  # a new session
        "dynamodb", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    assert len([path for path in folders if "botocore" in path]) < 10, "botocore's own loader opens over 400"
