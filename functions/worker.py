"""Lambda function: background turns from SQS, their dead letters, the sweep and schedules of each minute, and
events that start a turn."""

from a2a_lambda.agent_threads import end_stragglers
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import WorkerHandler
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
turns = WorkerHandler(
    kit.worker,
    kit.sweep,
    lambda: kit.triggers,
    kit.require_queue(),
    kit.settings.dead_letters,
    has_schedules=kit.has_schedules,
)
handler = Observed(turns, kit.settings, end_stragglers)
