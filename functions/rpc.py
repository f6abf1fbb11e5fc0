"""Lambda function: everything but the cards."""

from mangum import Mangum

from a2a_lambda.http import create_app
from a2a_lambda.kit import Kit

kit = Kit.of_environment()
kit.warm()
app = create_app(kit)
handler = Mangum(app, lifespan="off")
