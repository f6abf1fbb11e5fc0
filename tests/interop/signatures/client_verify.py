"""Verifies a signed card with a2a-sdk: python client_verify.py card.json jwks.json"""

import json
import sys
from pathlib import Path

from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import ParseDict
from jwt.api_jwk import PyJWK

card, keys = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
verify = create_signature_verifier(lambda kid, jku: PyJWK(keys["keys"][0]), ["RS256", "ES256"])
verify(ParseDict(card, AgentCard(), ignore_unknown_fields=True))
print("verified")
