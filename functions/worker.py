"""Lambda function: background turns from SQS, their dead letters, and the sweep on its schedule."""

from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import TurnHandler
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
turns = TurnHandler(kit.worker, kit.sweep, kit.require_queue(), kit.settings.dead_letters)
handler = Observed(turns, kit.settings)
