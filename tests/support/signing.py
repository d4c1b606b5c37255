"""A service that signs tokens for its users: keys, key sets, and tokens with any header and claims."""

import json
import time
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER = "https://app.example.com"


@cache
def private_key(kind: str = "ES256", name: str = "one") -> Any:
    """A private key; the same for the same kind and name."""
    if kind.startswith("ES"):
        return ec.generate_private_key(
            {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[kind]
        )
    if kind == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def jwk(kind: str = "ES256", name: str = "one", **more: Any) -> dict[str, Any]:
    """The public part as a JWK."""
    made: dict[str, Any] = jwt.get_algorithm_by_name(kind).to_jwk(private_key(kind, name).public_key(), as_dict=True)
    return {**made, "kid": name, **more}


def jwks(kind: str = "ES256", name: str = "one") -> dict[str, Any]:
    return {"keys": [jwk(kind, name)]}


def pem(kind: str = "ES256", name: str = "one") -> str:
    public = private_key(kind, name).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()  # type: ignore[no-any-return]


def claims(owner: str, **more: Any) -> dict[str, Any]:
    now = int(time.time())
    given = {"iss": ISSUER, "aud": "duetime:default", "sub": owner, "iat": now, "exp": now + 600, **more}
    return {name: value for name, value in given.items() if value is not None}


def token(
    owner: str, kind: str = "ES256", key: str = "one", *, headers: dict[str, Any] | None = None, **more: Any
) -> str:
    """A token for a user. `more` are claims; None leaves one out."""
    sent = {"kid": key} if headers is None else headers
    return jwt.encode(claims(owner, **more), private_key(kind, key), algorithm=kind, headers=sent)


def part(value: Any) -> str:
    """A part of a token: JSON, or a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")
