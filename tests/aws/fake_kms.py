"""A KMS that signs with a key in memory."""

from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils


class Kms:
    """Signs digests, which moto does not: it hashes them once more."""

    def __init__(self, spec: str) -> None:
        self._ec = ec.generate_private_key(ec.SECP256R1()) if spec == "ECC_NIST_P256" else None
        self._rsa = None if self._ec else rsa.generate_private_key(65537, 2048)
        self.signed = 0

    def get_public_key(self, KeyId: str) -> Any:
        key: Any = self._ec or self._rsa
        der = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        algorithms = ["ECDSA_SHA_256"] if self._ec else ["RSASSA_PSS_SHA_256", "RSASSA_PKCS1_V1_5_SHA_256"]
        return {"PublicKey": der, "SigningAlgorithms": algorithms}

    def sign(self, KeyId: str, Message: bytes, MessageType: str, SigningAlgorithm: str) -> Any:
        assert MessageType == "DIGEST"
        self.signed += 1
        prehashed = utils.Prehashed(hashes.SHA256())
        if self._ec:
            return {"Signature": self._ec.sign(Message, ec.ECDSA(prehashed))}
        assert self._rsa
        return {"Signature": self._rsa.sign(Message, padding.PKCS1v15(), prehashed)}
