"""A client of other agents, for agents of this kit."""

from a2a_lambda.client.answers import AgentError
from a2a_lambda.client.auth import AwsSignature, ClientCredentials, SignInFailed
from a2a_lambda.client.client import Client
from a2a_lambda.client.discovery import Undiscovered
from a2a_lambda.client.keys import BearerToken
from a2a_lambda.net.addresses import Refused

__all__ = [
    "AgentError",
    "AwsSignature",
    "BearerToken",
    "Client",
    "ClientCredentials",
    "Refused",
    "SignInFailed",
    "Undiscovered",
]
