"""Signatures as Standard Webhooks says: `webhook-id`, `webhook-timestamp` and `webhook-signature`.

What is signed is the id, the moment and the body, with every secret of the tenant that is not over: while secrets are
rotated a receiver may check with the old one or the new one. A secret is shown as `whsec_` and base64.
"""

import hmac
import os
from base64 import b64encode
from collections.abc import Sequence

_PREFIX = "whsec_"
_LENGTH = 32


def new_secret() -> bytes:
    return os.urandom(_LENGTH)


def shown(secret: bytes) -> str:
    """As receivers have it in their settings."""
    return _PREFIX + b64encode(secret).decode()


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets)
