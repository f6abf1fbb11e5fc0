"""Numbers that the pages promise: each is a constant of the code, and changes only together with its page."""

import re

import pytest

from a2a_lambda import settings
from a2a_lambda.access import keys
from a2a_lambda.access.tokens import issuer_keys, tokens
from a2a_lambda.agent import event_builder
from a2a_lambda.aws import parameters
from a2a_lambda.background import sweep, worker
from a2a_lambda.durable import memory, outcomes
from a2a_lambda.files import bucket, inbox
from a2a_lambda.http import callbacks
from a2a_lambda.http.mcp import mcp_call, request_state
from a2a_lambda.lambda_ import traces
from a2a_lambda.operations import intake, push_configs, waits
from a2a_lambda.protocol import stored_file
from a2a_lambda.push import delivery, updates
from a2a_lambda.push.webhook import MAX_CONFIG_BYTES
from a2a_lambda.tasks import context, head, identity
from a2a_lambda.turns import journal, lease, run
from tests.conftest import ROOT

HOUR, DAY = 3_600, 86_400

PROMISES = [
    ("authoring", "at most 10,000 artifacts", event_builder.MAX_ARTIFACTS, 10_000),
    ("authoring", "40 entries and 64,000 bytes of JSON", context.CONVERSATION_LENGTH, 40),
    ("authoring", "40 entries and 64,000 bytes of JSON", context.CONVERSATION_BYTES, 64_000),
    ("authoring", "256,000 bytes of JSON | `set` and `add` raise", context.MEMORY_BYTES, 256_000),
    ("authoring", "a turn's output | 50 MB of JSON", run.OUTPUT_BYTES, 50_000_000),
    ("authoring", "at most three attempts in all", worker.TURN_ATTEMPTS, 3),
    ("authoring", "unless 40 later turns", context.KEPT_TURNS, 40),
    ("background-work", "holds a **lease** of 30 seconds", head.LEASE_SECONDS, 30),
    ("background-work", "waits for up to ten seconds for that turn", intake.TURN_WAIT_SECONDS, 10),
    ("routing", "only the last eight are remembered", identity.KEPT_REQUESTS, 8),
    ("background-work", "longer than four days", sweep.QUEUED_TURN_SECONDS, 4 * DAY),
    ("background-work", "If more than 100 events are waiting", updates.MAX_EVENTS, 100),
    ("background-work", "within about two seconds", lease.CANCEL_POLL_SECONDS, 2),
    ("background-work", "at most ten configs, each of at most 8 KB", push_configs.MAX_CONFIGS, 10),
    ("background-work", "at most ten configs, each of at most 8 KB", MAX_CONFIG_BYTES, 8_000),
    ("costs", "ten seconds each", delivery.WEBHOOK_SECONDS, 10),
    ("design", "about four times a second", journal.FLUSH_SECONDS, 0.25),
    ("design", "a turn longer than a second", lease.LEASE_LOOK_SECONDS, 1),
    ("files", "up to 5 GiB each", stored_file.FILE_BYTES, 5 * 2**30),
    ("files", "Above 100 KB", stored_file.INLINE_BYTES, 100_000),
    ("files", "A URL is valid for an hour", bucket.LINK_SECONDS, HOUR),
    ("files", "The form is valid for an hour", bucket.FORM_SECONDS, HOUR),
    ("files", "Within a day, send a message", inbox.UPLOAD_LIFE_SECONDS, DAY),
    ("forking", "keeps a value for five minutes", parameters.CACHE_SECONDS, 300),
    ("forking", "again after 30 seconds", parameters.ABSENT_SECONDS, 30),
    ("long-running", "A run notices within two seconds", lease.CANCEL_POLL_SECONDS, 2),
    ("long-running", "JSON of at most 250,000 bytes", outcomes.RESULT_BYTES, 250_000),
    ("long-running", "3,000, including retries", memory.MAX_OPERATIONS, 3_000),
    ("long-running", "at most 31,622,400 (366 days)", settings.MAX_EXECUTION_SECONDS, 31_622_400),
    ("long-running", "JSON of at most 256 KB", callbacks.MAX_REPLY_BYTES, 256_000),
    ("long-running", "even after ten seconds", waits.EARLY_REPLY_SECONDS, 10),
    ("mcp", "ready within 45 seconds", mcp_call.CLIENT_SECONDS, 45),
    ("mcp", "ends after an hour", request_state.STATE_SECONDS, HOUR),
    ("observability", "during the next half minute", traces.FLUSH_COOLDOWN_SECONDS, 30),
    ("observability", "at most two seconds", traces.SPAN_FLUSH_SECONDS, 2),
    ("operations", "after 1 to 2 seconds", delivery.NOTICE_POSTPONE_SECONDS, 2),
    ("keys", "known keys work for five minutes", keys.STALE_KEYS_SECONDS, 300),
    ("sign-in", "with a minute for clocks", tokens.SKEW_SECONDS, 60),
    ("sign-in", "still get in for a day", issuer_keys.STALE_JWKS_SECONDS, DAY),
]


@pytest.mark.parametrize(
    ("page", "words", "value", "promise"), PROMISES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_page_promises_what_the_code_does(page: str, words: str, value: float, promise: float) -> None:
    text = re.sub(r"\s+", " ", (ROOT / f"docs/{page}.md").read_text())
    assert words in text
    assert value == promise
