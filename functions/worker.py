"""Lambda function: background turns from SQS, their dead letters, and the sweep on its schedule."""

from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import TurnHandler
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
handler = Observed(TurnHandler(kit.worker, kit.settings.dead_letters), kit.settings)
