"""Requests and answers about issuers of tokens."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Name, Request, Text

ScopedRoleName = Literal["operator", "submitter", "viewer"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "EdDSA")
Claim = Annotated[str, Meta(min_length=1, max_length=100)]


class IssuerRequest(Request, frozen=True):
    """Who signs tokens for the users of the tenant. One of `jwks`, `jwks_url` and `public_key` is required."""

    issuer: Annotated[Text, Meta(description="The claim `iss` of the tokens, such as https://app.example.com.")]
    audience: (
        Annotated[Text, Meta(description="The claim `aud` of the tokens. Default: `duetime:` and the tenant.")] | None
    ) = None
    role: Annotated[ScopedRoleName, Meta(description="What the users may do with their own jobs.")] = "viewer"
    owner_claim: Annotated[Claim, Meta(description="The claim that names the owner of the jobs.")] = "sub"
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1, max_length=10)] = _ALGORITHMS
    max_lifetime: Annotated[Length, Meta(description="The longest time from `iat` to `exp`: at most 24h.")] = 3600.0
    jwks: Annotated[dict[str, Any], Meta(description="Public keys: a key set of RFC 7517.")] | None = None
    jwks_url: Annotated[str, Meta(min_length=1, max_length=2000, description="Where the key set is.")] | None = None
    public_key: Annotated[str, Meta(min_length=1, max_length=20_000, description="A key in PEM.")] | None = None
    tag: Annotated[Name, Meta(description="Only jobs with this tag.")] | None = None
    queue: Annotated[Name, Meta(description="Only jobs in this queue.")] | None = None


class IssuerView(Struct, frozen=True, kw_only=True):
    name: str
    issuer: str
    audience: str
    role: ScopedRoleName
    owner_claim: str
    algorithms: tuple[str, ...]
    max_lifetime: float
    """Seconds."""
    jwks: dict[str, Any] | None
    jwks_url: str | None
    tag: str | None
    queue: str | None
    expires_at: datetime | None
    """When its tokens end: with the key that registered it. Null: never."""
    networks: tuple[str, ...]
    """From where its tokens are accepted: as the key that registered it. Empty: from anywhere."""
    created_at: datetime
    changed_at: datetime


class IssuerList(Struct, frozen=True):
    items: tuple[IssuerView, ...]
