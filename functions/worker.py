"""Lambda function: background turns from SQS, their dead letters, and the sweep on its schedule."""

from a2a_lambda.agent.executor import end_stragglers
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import TurnHandler
from a2a_lambda.lambda_.observability import Observed, prepared

kit = Kit(prepared())
worker = TurnHandler(kit.worker, kit.settings.dead_letters)
handler = Observed(worker, kit.settings, release=end_stragglers)
