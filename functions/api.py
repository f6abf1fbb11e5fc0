"""Lambda function, buffered: the cards. It can serve the whole application, too, for an HTTP API, an ALB
or `sam local invoke`."""

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.buffered import Buffered
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
app = create_app(kit)
handler = Observed(Buffered(app), kit.settings)
