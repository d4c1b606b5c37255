"""Tokens of users: from the text of a JWT to a caller with a scope.

Until its signature is checked, a token decides only by which keys it is checked: by those of the issuer that its `iss`
names, in the tenant that the request or its audience names. Whatever is wrong up to then gets one answer, so that
tenants and issuers cannot be guessed. The reason is logged. What is wrong with the claims of a token with a good
signature is said.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec

from duetime.api.caller import Caller
from duetime.api.issuer_keys import IssuerKeys
from duetime.api.lookup_cache import Memory
from duetime.clock import SystemClock
from duetime.crypto.signed_tokens import LEEWAY, BadToken, RefusedClaims, UnreadToken, verified_claims
from duetime.model.issuer import StoredIssuer, tenant_named_in
from duetime.model.tenant import Tenant
from duetime.store.protocol.store import Store

_clock = SystemClock()
_MOST_NAME = 255


class UserToken(msgspec.Struct, frozen=True):
    """A token that was verified."""

    issuer: StoredIssuer
    owner: str
    expires_at: datetime

    def caller(self, tenant: Tenant) -> Caller:
        issuer = self.issuer.issuer
        return Caller(
            None,
            issuer.role,
            tenant.id,
            f"{issuer.name}: {self.owner}"[:_MOST_NAME],
            expires_at=min(self.expires_at, issuer.expires_at or self.expires_at),
            networks=issuer.networks,
            scope=issuer.scope(self.owner),
            issuer_id=self.issuer.id,
        )


class Tokens:
    def __init__(self, store: Store, keys: IssuerKeys, remembered: float) -> None:
        self._store = store
        self._keys = keys
        self._issuers: Memory[int, list[StoredIssuer]] = Memory(remembered)
        self._verified: Memory[tuple[int, bytes], UserToken] = Memory(remembered)
        self._changes = 0

    def forget(self) -> None:
        self._changes += 1
        self._issuers.clear()
        self._verified.clear()

    async def close(self) -> None:
        await self._keys.close()

    def tenant_of(self, token: UnreadToken, named: str) -> str:
        """The name of the tenant that a token is for. Raises `BadToken`."""
        found = named or tenant_named_in(token.claims.get("aud"))
        if not found:
            raise BadToken("neither the request nor the audience names a tenant")
        return found

    async def verify(self, token: UnreadToken, tenant: Tenant) -> UserToken:
        """Check a token. Raises `BadToken`."""
        place = tenant.id, sha256(token.text.encode()).digest()
        changes = self._changes
        listed = await self._listed(tenant.id)
        known = self._verified.get(place)
        # Only as long as its issuer is remembered: otherwise a deleted issuer would be accepted for twice that time.
        if known is not None and any(each is known.issuer for each in listed):
            if _clock.now() >= known.expires_at + timedelta(seconds=LEEWAY):
                raise RefusedClaims("the token has expired")
            _check_issuer(known.issuer)
            return known
        stored = _issuer_among(listed, token)
        issuer = stored.issuer
        claims = verified_claims(
            token,
            await self._keys.keys(stored, token.kid),
            issuer.algorithms,
            issuer=issuer.issuer,
            audience=issuer.audience,
        )
        _check_issuer(stored)
        owner = issuer.owner_in(claims)
        found = UserToken(stored, owner, datetime.fromtimestamp(claims["exp"], UTC))
        # What was verified before a change on this server is not kept.
        return self._verified.put(place, found) if changes == self._changes else found

    async def _listed(self, tenant_id: int) -> list[StoredIssuer]:
        changes = self._changes
        listed = self._issuers.get(tenant_id)
        if listed is None:
            listed = await self._store.issuers.issuers(tenant_id)
            if changes == self._changes:
                self._issuers.put(tenant_id, listed)
        return listed


def _check_issuer(stored: StoredIssuer) -> None:
    expires_at = stored.issuer.expires_at
    if expires_at is not None and _clock.now() >= expires_at:
        raise RefusedClaims("the key that registered the issuer has expired: an admin must register it again")


def _issuer_among(listed: list[StoredIssuer], token: UnreadToken) -> StoredIssuer:
    audiences = token.claims.get("aud")
    named = audiences if isinstance(audiences, list) else [audiences]
    same = [each for each in listed if each.issuer.issuer == token.claims.get("iss")]
    # An issuer may be registered several times, for several audiences: with roles or tags of their own.
    fitting = [each for each in same if each.issuer.audience in named] or same[:1]
    if not fitting:
        raise BadToken("its issuer is not registered")
    return fitting[0]
