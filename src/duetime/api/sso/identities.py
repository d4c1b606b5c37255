"""From the tokens of identity providers to people: who they are, and what the operator's rules give them.

A provider is chosen by the issuer that an unchecked token names, and then decides alone: its keys, its audiences, its
rules. A token of one provider, or for another program, is nothing to the others.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from duetime.api.lookup_cache import Memory
from duetime.api.sso.provider_link import ProviderLink
from duetime.api.sso.providers import Provider, read_providers
from duetime.clock import SystemClock
from duetime.crypto.signed_tokens import LEEWAY, BadToken, RefusedClaims, UnreadToken, read_token
from duetime.errors import InvalidInput
from duetime.model.identity import EMAIL, EMAIL_VERIFIED, Identity, TenantGrant, identity_of, values_of
from duetime.model.issuer import LONGEST_LIFETIME
from duetime.settings import Settings

_clock = SystemClock()
_MOST_ID_TOKEN = 64 * 1024
"""Characters. It comes from the provider itself, and may list hundreds of groups."""


class Verified(msgspec.Struct, frozen=True):
    """A token that was verified."""

    identity: Identity
    issued_at: datetime
    expires_at: datetime


class Identities:
    def __init__(self, settings: Settings, remembered: float) -> None:
        self.links = {each.name: ProviderLink(each) for each in read_providers(settings)}
        self._by_issuer = {each.provider.issuer: each for each in self.links.values()}
        self._verified: Memory[bytes, Verified] = Memory(remembered)

    @property
    def providers(self) -> list[Provider]:
        return [each.provider for each in self.links.values()]

    async def close(self) -> None:
        for each in self.links.values():
            await each.close()

    def grants(self, identity: Identity) -> tuple[TenantGrant, ...]:
        """What the rules of today give to a person of this provider."""
        link = self.links.get(identity.provider)
        if link is None or link.provider.issuer != identity.issuer:
            return ()
        return identity.grants(link.provider.rules)

    def concerns(self, token: UnreadToken) -> bool:
        """Whether a bearer token is for a provider to judge, and not for the issuers of a tenant."""
        return self._link_of(token) is not None

    async def verify(self, token: UnreadToken) -> Verified:
        """The person or service of a bearer token. Raises `BadToken`, `ProviderDown`."""
        place = sha256(token.text.encode()).digest()
        known = self._verified.get(place)
        if known is not None:
            if _clock.now() >= known.expires_at + timedelta(seconds=LEEWAY):
                raise RefusedClaims("the token has expired")
            return known
        found = self._link_of(token)
        if found is None:
            raise BadToken("it is not a token of a provider")
        link, audience = found
        claims = await link.verified(token, audience)
        _check_use(claims)
        _check_groups(claims, link.provider.groups_claim)
        if audience == link.provider.cli_client_id:
            _check_party(claims, audience)
        if claims["exp"] - claims["iat"] > LONGEST_LIFETIME.total_seconds():
            raise RefusedClaims(f"the token is valid for longer than {LONGEST_LIFETIME}")
        return self._verified.put(place, _read(link.provider, claims))

    async def verify_login(self, link: ProviderLink, text: str, nonce: str, access_token: str | None) -> Verified:
        """The person of the ID token of a login. Raises `BadToken`, `ProviderDown`."""
        provider = link.provider
        claims = await link.verified(read_token(text, _MOST_ID_TOKEN), provider.client_id)
        _check_use(claims)
        _check_party(claims, provider.client_id)
        given = claims.get("nonce")
        if not isinstance(given, str) or not compare_digest(given.encode(errors="replace"), nonce.encode()):
            raise RefusedClaims("the ID token belongs to another login: its `nonce` differs")
        subject = claims.get("sub")
        missing = any(not values_of(claims, each) for each in _claims_of(provider))
        if access_token is not None and isinstance(subject, str) and missing:
            # Some providers keep groups and addresses out of ID tokens.
            claims = _joined(claims, await link.userinfo(access_token, subject))
        _check_groups(claims, provider.groups_claim)
        return _read(provider, claims)

    def _link_of(self, token: UnreadToken) -> tuple[ProviderLink, str] | None:
        issuer = token.claims.get("iss")
        link = self._by_issuer.get(issuer) if isinstance(issuer, str) else None
        audience = None if link is None else link.provider.bearer_audience(token.claims.get("aud"))
        return None if link is None or audience is None else (link, audience)


def _read(provider: Provider, claims: Mapping[str, Any]) -> Verified:
    try:
        identity = identity_of(provider.name, claims, provider.rules)
    except InvalidInput as error:
        raise RefusedClaims(f"the claim `{error.field}` {error.message}") from None
    issued, expires = (datetime.fromtimestamp(claims[name], UTC) for name in ("iat", "exp"))
    return Verified(identity, issued, expires)


def _check_use(claims: Mapping[str, Any]) -> None:
    if "events" in claims:
        raise RefusedClaims("the token reports an event; it authenticates no one")
    if "cnf" in claims:
        raise RefusedClaims("the token is bound to a key of its holder, which this server cannot check")


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several audiences must have been issued to this client."""
    party = claims.get("azp")
    if party != client_id and (party is not None or (isinstance(claims["aud"], list) and len(claims["aud"]) > 1)):
        raise RefusedClaims("the token was issued to another client: its `azp` differs")


def _claims_of(provider: Provider) -> set[str]:
    named = {rule.claim for rule in provider.rules} | {rule.owner_claim for rule in provider.rules}
    return {each for each in named if each is not None}


def _joined(token: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the token says takes precedence. Whether an address is verified is said of the address beside it."""
    joined = {**more, **token}
    if token.get(EMAIL) != more.get(EMAIL):
        joined[EMAIL_VERIFIED] = (token if EMAIL in token else more).get(EMAIL_VERIFIED)
    return joined


def _check_groups(claims: Mapping[str, Any], claim: str) -> None:
    """Refuse claims that do not name the groups of a person who has some: a later rule might give more than the one of
    a group. Entra ID says so for more than 200 groups."""
    named = claims.get("_claim_names")
    if isinstance(named, dict) and claim in named and not values_of(claims, claim):
        raise RefusedClaims(
            f"the account is in too many groups for the claim `{claim}`: the provider left it out."
            " Let it send only groups that are assigned to this application, or roles"
        )
