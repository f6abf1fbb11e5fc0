"""Signatures, against botocore's own signer."""

import datetime
from unittest import mock

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda.aws.lean.sigv4 import Credentials, signed_headers

WORDS = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789+/=_-", min_size=1, max_size=40)


SENT = {
    "host": "dynamodb.us-east-1.amazonaws.com",
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": "DynamoDB_20120810.PutItem",
}


@given(
    credentials=st.builds(Credentials, WORDS, WORDS, st.just("") | WORDS),
    region=WORDS,
    body=st.binary(),
    now=st.integers(0, 4_000_000_000),
)
def test_the_signature_is_botocores(credentials: Credentials, region: str, body: bytes, now: int) -> None:
    ours = signed_headers(credentials, region=region, service="dynamodb", headers=SENT, body=body, now=now)
    signer = SigV4Auth(BotocoreCredentials(*credentials), "dynamodb", region)
    request = AWSRequest("POST", f"https://{SENT['host']}/", headers=SENT, data=body)
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)
    with mock.patch("botocore.auth.get_current_datetime", return_value=moment):
        signer.add_auth(request)
    assert ours["authorization"] == request.headers["Authorization"]
