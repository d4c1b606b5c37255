"""Issuers: who signs tokens for the users of a tenant.

A tenant registers the public keys of its own service. The service then gives each of its users a short-lived token (a
JWT) that names the user. With it the user sees and controls the jobs whose `owner` is this name, and no others
(`model/scope.py`). The tenant is named by the request or by the audience, never by the issuer: two tenants may register
the same one.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.crypto.signed_tokens import ALGORITHMS, RefusedClaims
from duetime.errors import InvalidInput
from duetime.model.access import SCOPED_ROLES, Role
from duetime.model.name import check_key
from duetime.model.scope import Scope

AUDIENCE = "duetime:"
"""The beginning of an audience that names the tenant."""
DEFAULT_LIFETIME = timedelta(hours=1)
LONGEST_LIFETIME = timedelta(days=1)
DEFAULT_ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
_MOST_NAME = 100


class Issuer(msgspec.Struct, frozen=True, omit_defaults=True):
    """As it is registered. Its keys are in `jwks`, or at `jwks_url`."""

    name: str
    issuer: str
    """The claim `iss` of its tokens."""
    audience: str
    """The claim `aud` of its tokens, or one of them."""
    role: Role = Role.VIEWER
    owner_claim: str = "sub"
    """The claim that names the owner."""
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    max_lifetime: float = DEFAULT_LIFETIME.total_seconds()
    """Seconds between `iat` and `exp` of a token, at most."""
    jwks: dict[str, Any] | None = None
    jwks_url: str | None = None
    tag: str | None = None
    queue: str | None = None
    """Only jobs of the owner with this tag, in this queue."""
    expires_at: datetime | None = None
    networks: tuple[str, ...] = ()
    """Those of the key that registered it: a token does not outlive this key, and is accepted from no other networks
    (`model/key_grants.py`)."""

    def scope(self, owner: str) -> Scope:
        return Scope(owner, self.tag, self.queue)

    def owner_in(self, claims: Mapping[str, Any]) -> str:
        """The owner that verified claims name. Raises `RefusedClaims`."""
        if claims["exp"] - claims["iat"] > self.max_lifetime:
            raise RefusedClaims(f"the token is valid for longer than {self.max_lifetime:g} s, the limit of its issuer")
        try:
            return check_key(claims.get(self.owner_claim), self.owner_claim)
        except InvalidInput as error:
            raise RefusedClaims(f"the claim `{self.owner_claim}`, which names the owner, {error.message}") from None


class StoredIssuer(msgspec.Struct, frozen=True):
    id: UUID
    tenant_id: int
    issuer: Issuer
    created_at: datetime
    changed_at: datetime


def encode_issuer(issuer: Issuer) -> bytes:
    return msgspec.json.encode(issuer)


def decode_issuer(body: bytes) -> Issuer:
    return msgspec.json.decode(body, type=Issuer)


def check_issuer_url(value: str, field: str) -> str:
    """The `iss` of tokens: any printable text, usually a URL."""
    return check_key(value, field)


def check_algorithms(given: Collection[str], field: str) -> tuple[str, ...]:
    """Only algorithms with a public key. Raises `InvalidInput`."""
    for each in given:
        if each not in ALGORITHMS:
            raise InvalidInput(
                f"{each[:20]!r} is not an algorithm with a public key", field=field, remedy=", ".join(ALGORITHMS)
            )
    if not given:
        raise InvalidInput("is empty", field=field, remedy=", ".join(DEFAULT_ALGORITHMS))
    return tuple(dict.fromkeys(given))


def check_claim(value: str, field: str) -> str:
    if not value or len(value) > _MOST_NAME or not value.isprintable():
        raise InvalidInput("is not the name of a claim", field=field, remedy="such as sub")
    return value


def check_lifetime(value: timedelta, field: str) -> float:
    if not timedelta(seconds=1) <= value <= LONGEST_LIFETIME:
        raise InvalidInput("is too short or too long", field=field, remedy="from 1s to 24h")
    return value.total_seconds()


def check_role(role: Role, field: str) -> Role:
    if role not in SCOPED_ROLES:
        names = ", ".join(each.name.lower() for each in SCOPED_ROLES)
        raise InvalidInput(f"{role.name.lower()} is not a role with a scope", field=field, remedy=names)
    return role


def tenant_named_in(audience: object) -> str | None:
    """The tenant that the audience of a token names, if exactly one does."""
    listed = audience if isinstance(audience, list) else [audience]
    named = {each.removeprefix(AUDIENCE) for each in listed if isinstance(each, str) and each.startswith(AUDIENCE)}
    return named.pop() if len(named) == 1 else None
