"""Proof Key for Code Exchange (RFC 7636): a stolen code is worth nothing without the verifier of its request."""

import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256


def new_verifier() -> str:
    return secrets.token_urlsafe(48)


def challenge_of(verifier: str) -> str:
    """The challenge of the method S256."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
