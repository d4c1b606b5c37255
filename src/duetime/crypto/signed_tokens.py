"""JSON Web Tokens that others have signed: public keys, and the checks of a token.

Only asymmetric algorithms exist here, and a key is used only with the algorithms of its own kind: a public key can
never be taken for a shared secret. A token names its key by `kid` among the keys of its issuer; everything else in its
header that could bring or point to a key is ignored, and critical extensions are refused. PyJWT checks signature,
times, issuer and audience; what is stricter here than there is in `read_token`.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from duetime.errors import InvalidInput

MOST_TOKEN = 8192
"""Characters of a token."""
MOST_KEYS = 50
LEEWAY = 30.0
"""Seconds by which the clock of an issuer may differ."""
_MOST_KID = 255
_LEAST_RSA, _MOST_RSA = 2048, 8192
_LATEST = 1 << 37
"""Seconds: a later time is no date."""
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
ALGORITHMS: tuple[str, ...] = (*_RSA, "ES256", "ES384", "ES512", "EdDSA")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_TIMES = ("exp", "iat", "nbf", "auth_time")

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class BadToken(Exception):
    """A token that is not accepted. The text is for the server's log."""


class RefusedClaims(BadToken):
    """A token with a good signature whose claims are not accepted. The text is for the caller."""


class NamedKey(NamedTuple):
    kid: str | None
    algorithms: tuple[str, ...]
    """Those that it can be used with."""
    key: PublicKey


class UnreadToken(NamedTuple):
    """The contents of a token before its signature is checked: they decide by which keys that is done, nothing else."""

    text: str
    algorithm: str
    kid: str | None
    claims: Mapping[str, Any]


def keys_in(document: object, field: str = "jwks", *, strict: bool = True) -> tuple[NamedKey, ...]:
    """The public keys of a key set (RFC 7517). Raises `InvalidInput`. Not `strict`: keys for other purposes are left
    out, as sets of providers have them."""
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list | tuple) or not listed:
        raise InvalidInput("has no list `keys`", field=field, remedy='such as {"keys": [{"kty": "EC", …}]}')
    if len(listed) > MOST_KEYS:
        raise InvalidInput(f"has {len(listed)} keys", field=field, remedy=f"at most {MOST_KEYS}")
    found = []
    for number, each in enumerate(listed):
        try:
            found.append(_named_key(each, f"{field}.keys[{number}]"))
        except InvalidInput:
            if strict:
                raise
    kids = [key.kid for key in found if key.kid is not None]
    if len(kids) != len(set(kids)):
        raise InvalidInput("has two keys with the same `kid`", field=field, remedy="give each key its own kid")
    if not found:
        raise InvalidInput("has no key that can check signatures", field=field)
    return tuple(found)


def key_set_of(pem: str, field: str = "public_key") -> dict[str, Any]:
    """A public key in PEM as a key set. Raises `InvalidInput`."""
    if "PRIVATE KEY" in pem:
        raise InvalidInput("is a private key", field=field, remedy="give the public key only")
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput("is not a public key in PEM", field=field, remedy="-----BEGIN PUBLIC KEY-----…") from None
    algorithm = _algorithms(key, field)[0]
    made: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(key, as_dict=True)
    return {"keys": [made]}


def _named_key(given: object, field: str) -> NamedKey:
    if not isinstance(given, Mapping):
        raise InvalidInput("is not a key", field=field)
    if _PRIVATE & given.keys():
        raise InvalidInput("contains a private or shared key", field=field, remedy="give the public part only")
    uses = given.get("key_ops", ("verify",))
    if given.get("use", "sig") != "sig" or not isinstance(uses, list | tuple) or "verify" not in uses:
        raise InvalidInput("is not a key for signatures", field=field, remedy="omit it")
    kid = given.get("kid")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= _MOST_KID):
        raise InvalidInput(f"is not a text of 1 to {_MOST_KID} characters", field=f"{field}.kid")
    try:
        # PyJWT would take the algorithm from the document.
        kind = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[str(given.get("kty"))]
        key = jwt.get_algorithm_by_name(kind).from_jwk(dict(given))
    except (KeyError, ValueError, TypeError, jwt.PyJWTError, UnsupportedAlgorithm):
        raise InvalidInput("is not a public key of the kinds RSA, EC and OKP", field=field) from None
    usable = _algorithms(key, field)
    if given.get("alg") is not None:
        usable = tuple(each for each in usable if each == given["alg"])
        if not usable:
            raise InvalidInput(
                "cannot be used with a key of this kind", field=f"{field}.alg", remedy=", ".join(ALGORITHMS)
            )
    return NamedKey(kid, usable, key)


def _algorithms(key: object, field: str) -> tuple[str, ...]:
    match key:
        case RSAPublicKey():
            if not _LEAST_RSA <= key.key_size <= _MOST_RSA:
                raise InvalidInput(f"has {key.key_size} bits", field=field, remedy=f"{_LEAST_RSA} to {_MOST_RSA}")
            return _RSA
        case EllipticCurvePublicKey() if key.curve.name in _OF_CURVES:
            return _OF_CURVES[key.curve.name]
        case Ed25519PublicKey():
            return ("EdDSA",)
        case _:
            raise InvalidInput("is not an RSA, P-256, P-384, P-521 or Ed25519 key", field=field)


def looks_like_token(text: str) -> bool:
    """Whether this can be a signed token; it says nothing about its signature."""
    return text.count(".") == 2 and text.startswith("ey")


def read_token(text: str, most: int = MOST_TOKEN) -> UnreadToken:
    """The contents of a token, unchecked. Raises `BadToken` for everything that is malformed or ambiguous."""
    if len(text) > most or not text.isascii():
        raise BadToken("it is too long, or not ASCII")
    parts = text.split(".")
    if len(parts) != 3:
        raise BadToken("it does not have three parts")
    header, claims = (_decoded(part) for part in parts[:2])
    if {"crit", "b64"} & header.keys():
        raise BadToken("its header has extensions")
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise BadToken(f"its algorithm is {str(algorithm)[:20]!r}")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= _MOST_KID):
        raise BadToken("its `kid` is not a text")
    for name in _TIMES:
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:
            raise BadToken(f"its `{name}` is not a time")
    return UnreadToken(text, algorithm, kid, claims)


def verified_claims(
    token: UnreadToken, keys: Iterable[NamedKey], algorithms: Collection[str], *, issuer: str, audience: str
) -> Mapping[str, Any]:
    """The claims of a token that one of these keys has signed, for this audience, now. Raises `BadToken`."""
    if token.algorithm not in algorithms:
        raise BadToken(f"the issuer does not use {token.algorithm}")
    fitting = [key for key in keys if token.algorithm in key.algorithms and token.kid in (None, key.kid)]
    if len(fitting) != 1:
        raise BadToken("no key fits it" if not fitting else "several keys fit it, and it names none")
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token.text,
            fitting[0].key,
            algorithms=[token.algorithm],
            audience=audience,
            issuer=issuer,
            leeway=LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud"]},
        )
    except jwt.ExpiredSignatureError:
        raise RefusedClaims("the token has expired") from None
    except jwt.ImmatureSignatureError:
        raise RefusedClaims("the token is not valid yet: `nbf` or `iat` is in the future") from None
    except jwt.InvalidAudienceError:
        raise RefusedClaims(f"the token is not for the audience {audience!r}") from None
    except jwt.MissingRequiredClaimError as error:
        raise RefusedClaims(f"the token has no claim `{error.claim}`") from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise BadToken(f"{type(error).__name__}: {error}") from None
    return claims


def _decoded(part: str) -> Mapping[str, Any]:
    try:
        raw = urlsafe_b64decode(part.encode() + b"=" * (-len(part) % 4))
        found = json.loads(raw, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadToken("it is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise BadToken("it is not an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two parsers may differ in which of two equal names they take."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
