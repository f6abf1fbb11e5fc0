"""A stage, an account and a call of make deploy, for the tests of deployments."""

from tools.deployment.account import Account

CALL = {"STAGE": "prod", "ARCH": "x86_64", "BUILD_DIR": "built"}
"""Variables of a call of make deploy."""

SAMCONFIG = """
[dev.deploy.parameters]
stack_name = "a2a-dev"
parameter_overrides = ["LogDays=7"]
[prod.deploy.parameters]
stack_name = "a2a-prod"
parameter_overrides = [
    "DeletionProtection=true", "LogDays=90", "WorkerConcurrency=50", "NotifierConcurrency=20",
]
"""

USUAL_ACCOUNT = Account("123456789012", "us-east-1", 1000, 1000, "arn:aws:iam::123456789012:role/logs")

NEW_ACCOUNT = Account("123456789012", "us-east-1", 10, 10, "")
"""As AWS gives it: with few concurrent executions, and without a role for access logs."""
