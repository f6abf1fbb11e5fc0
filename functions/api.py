"""Lambda function, buffered: the cards; and the whole application for whoever fronts it with an HTTP
API, an ALB or `sam local invoke`."""

from mangum import Mangum

from a2a_lambda.http import create_app
from a2a_lambda.kit import Kit

app = create_app(Kit.of_environment())
handler = Mangum(app, lifespan="off")
