"""Lambda function: turns of durable skills, as durable executions."""

from a2a_lambda.agent_threads import end_stragglers
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.execution_handler import DurableHandler
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
durable_handler = DurableHandler(kit.execution_worker, kit.make_lambda_client())
handler = Observed(durable_handler, kit.settings, end_stragglers)
