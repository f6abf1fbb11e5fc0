"""Lambda function: push notifications, from the table's stream to a queue, and from there to webhooks."""

from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import NotificationHandler
from a2a_lambda.lambda_.observability import Observed, prepare

kit = Kit(prepare())
handler = Observed(NotificationHandler(kit.push_notifications), kit.settings)
