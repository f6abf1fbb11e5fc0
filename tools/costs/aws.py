"""What AWS allows and what it charges, in us-east-1, for arm64, without the free tier.

Every figure is a default of November 2026. Quotas marked with * can be raised on request.
"""

MILLION = 1_000_000

# --- Lambda. Sources: https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html,
# …/scaling-behavior.html, https://aws.amazon.com/lambda/pricing/

CONCURRENCY = 1_000
"""* Functions that run at once in an account and region. A new account may have 10."""

SCALING = 1_000
"""Containers that a function may add within SCALING_SECONDS."""

SCALING_SECONDS = 10.0

QUEUE_FIRST_RUNS, QUEUE_RUNS_PER_MINUTE = 5, 300
"""Runs at once that an event source mapping of SQS begins with, and those that it adds each minute.
Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

GIGABYTE_SECOND = 0.0000133334

REQUEST = 0.20 / MILLION

# --- API Gateway. Sources: https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html,
# https://aws.amazon.com/api-gateway/pricing/

API_REQUESTS = 10_000
"""* Requests a second of an account and region."""

API_BURST = 5_000

API_CALL = 3.50 / MILLION

# --- DynamoDB on demand. Sources:
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html,
# …/warm-throughput.html, …/ServiceQuotas.html, https://aws.amazon.com/dynamodb/pricing/on-demand/

PARTITION_WRITES = 1_000
"""Write units a second of a partition."""

PARTITION_READS = 3_000
"""Read units a second of a partition."""

NEW_PARTITIONS = 4
"""Partitions of a new table, and of each of its indexes: it takes 4,000 writes and 12,000 reads a second."""

TABLE_UNITS = 40_000
"""* Write units a second of a table, and read units."""

CALL_SECONDS = 0.006
"""A call from Lambda, about. This figure is not AWS's."""

WRITE_UNIT_BYTES = 1_024

READ_UNIT_BYTES = 4_096

WRITE_UNIT = 0.625 / MILLION

READ_UNIT = 0.125 / MILLION

# --- S3. Source: https://aws.amazon.com/s3/pricing/

S3_PUT = 0.005 / 1_000
"""PUT, and each part of a large file, with two calls more for its begin and its end."""

S3_GET = 0.0004 / 1_000

# --- The others. Sources: https://aws.amazon.com/sqs/pricing/, https://aws.amazon.com/cloudwatch/pricing/

QUEUED = 3 * (0.40 + 0.10) / MILLION
"""A message of a standard queue that is fair: sent, received, deleted."""

LOGGED_BYTE = 0.50 / 1e9

METRIC_MONTH = ((10_000, 0.30), (240_000, 0.10), (750_000, 0.05))
"""Custom metrics, and the price of each for a month: the first 10,000, the next 240,000, and so on."""


def metrics_price(count: int) -> float:
    """Dollars that so many custom metrics cost in a month."""
    dollars = 0.0
    for size, price in METRIC_MONTH:
        dollars += min(count, size) * price
        count -= min(count, size)
    return dollars
