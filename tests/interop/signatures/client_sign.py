"""Signs a card with a2a-sdk, and prints it as its server serves it, with the public key: python client_sign.py URL"""

import json
import sys

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    APIKeySecurityScheme,
    SecurityScheme,
)
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

interfaces = [
    AgentInterface(url=sys.argv[1], protocol_binding="JSONRPC", protocol_version=version)
    for version in ("1.0", "0.3")
]
card = AgentCard(
    name="Other",
    description="Another agent – with ü.",
    version="1",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(
        streaming=True, extensions=[AgentExtension(uri="urn:x"), AgentExtension(uri="urn:y", required=True)]
    ),
    skills=[AgentSkill(id="s", name="S", description="Does it.", tags=["x"])],
    security_schemes={
        "key": SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Key"))
    },
    supported_interfaces=interfaces,
)
key = ec.generate_private_key(ec.SECP256R1())
signed_card = create_agent_card_signer(key, {"kid": "k", "alg": "ES256", "typ": "JOSE", "jku": None})(card)
public_key = json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": "k"}
print(json.dumps({"card": agent_card_to_dict(signed_card), "keys": {"keys": [public_key]}}))
