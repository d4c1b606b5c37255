"""Signatures as defined by Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.

The id, the timestamp and the body are signed with every secret of the tenant that has not expired: during a rotation a
receiver may verify with the old secret or the new one. A secret is displayed as `whsec_` and base64.
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
    """The form that receivers put into their settings."""
    return _PREFIX + b64encode(secret).decode()


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets)
