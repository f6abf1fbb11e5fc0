"""Lambda function, streamed: everything except the cards."""

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.observability import Observed, prepare
from a2a_lambda.lambda_.streaming import Streaming

kit = Kit(prepare())
kit.warm_up()
app = create_app(kit)
handler = Observed(Streaming(app), kit.settings)
