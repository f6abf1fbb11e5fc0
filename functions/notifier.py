"""Lambda function: push notifications, from the table's stream to their queue and from there to webhooks."""

from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import NotificationHandler
from a2a_lambda.lambda_.observability import Observed, prepared

kit = Kit(prepared())
handler = Observed(NotificationHandler(kit.push_notifications), kit.settings)
