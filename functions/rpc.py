"""Lambda function, streamed: everything except the cards."""

import os

from a2a_lambda.agent_threads import end_stragglers
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.observability import Observed, prepare
from a2a_lambda.lambda_.streaming import CAN_STREAM, Streaming
from a2a_lambda.turns.run import wait_for_turns

kit = Kit(prepare())
kit.warm_up()
app = create_app(kit)
streaming = Streaming(app, settle=wait_for_turns, release=end_stragglers, can_stream=CAN_STREAM in os.environ)
handler = Observed(streaming, kit.settings)
