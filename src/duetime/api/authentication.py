"""Authentication and permission: keys, tokens, sessions, addresses, roles, tenants.

A key is looked up by its hash and cached for a few seconds. A revoked key stops working at once on the node that
revoked it, and within that time on others. Browser sessions are cached in the same way, by the hash of their token.
Requests that create or revoke keys bypass the cache: a key that was revoked elsewhere cannot create another. Long
requests (a stream, a waiting claim) are authenticated again before each message, so they end with their key, on other
nodes within twice that time. A key of a tenant acts in that tenant only. A root key acts in the tenant that the request
names (`Duetime-Tenant`), or in `default`. Tokens of users are in `tokens.py`.

A person whom an identity provider vouches for (`sso/`), with a session or a token of the provider, has the role that
the operator's rules give in the tenant that the request names, or in the first one.

A caller with a scope may use the endpoints that are declared for it (`Endpoint.scoped`), and no others.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from duetime.api.browser_sessions import session_hash
from duetime.api.caller import ANONYMOUS, Caller, User
from duetime.api.endpoint import Endpoint
from duetime.api.guarded_fetch import GuardedFetch
from duetime.api.issuer_keys import IssuerKeys
from duetime.api.lookup_cache import Memory
from duetime.api.origin import is_own, refusal
from duetime.api.peer import Peer
from duetime.api.problems import ADDRESS, DELETING, FORBIDDEN, PROVIDER_UNAVAILABLE, SUSPENDED, UNAUTHENTICATED, Problem
from duetime.api.sso.identities import Identities
from duetime.api.sso.provider_link import ProviderDown
from duetime.api.tokens import Tokens
from duetime.clock import SystemClock
from duetime.crypto.signed_tokens import BadToken, RefusedClaims, looks_like_token, read_token
from duetime.errors import NotFound, StoreError, reason_of
from duetime.ids import show
from duetime.model.access import Action, ApiKey, Role, may
from duetime.model.identity import Identity, TenantGrant
from duetime.model.job import DEFAULT_TENANT
from duetime.model.key_text import hash_of, looks_like_key
from duetime.model.network import is_inside
from duetime.model.session import Opened
from duetime.model.tenant import Tenant, TenantState
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.store.wrappers.scoped import closed
from duetime.targets.address_guard import AddressGuard

log = logging.getLogger("duetime.api")
_clock = SystemClock()

REMEMBERED = 3.0
"""Seconds for which keys, sessions and tenants are cached."""
_WARN_EVERY = 86_400.0
_LAST_PART = 10
"""A key that is used in the last tenth of its lifetime is logged: its user is about to lose access."""
_CHALLENGE = {"www-authenticate": 'Bearer realm="duetime"'}
_WHILE_SUSPENDED = frozenset({Action.READ, Action.READ_AUDIT, Action.EXPORT, Action.WORK, Action.MANAGE_TENANTS})


class Gate:
    def __init__(self, store: Store, settings: Settings, guard: AddressGuard) -> None:
        self._store = store
        self._key_lifetime = settings.key_lifetime
        self._session_lifetime = settings.session_lifetime
        self.tokens = Tokens(store, IssuerKeys(GuardedFetch(guard)), REMEMBERED)
        self.identities = Identities(settings, REMEMBERED)
        self._keys: Memory[bytes, ApiKey | None] = Memory(REMEMBERED)
        self._sessions: Memory[bytes, Opened | None] = Memory(REMEMBERED)
        self._tenants: Memory[int | str, Tenant] = Memory(REMEMBERED)
        self._warned: Memory[UUID, bool] = Memory(_WARN_EVERY)
        self._used: set[UUID] = set()
        self._used_sessions: set[UUID] = set()
        self.changes = 0
        """How many changes of keys, sessions and tenants were made on this server."""

    async def admit(self, endpoint: Endpoint, headers: Mapping[bytes, bytes], peer: Peer) -> Caller:
        """Authenticate the caller and check its permission."""
        if endpoint.may is None:
            return ANONYMOUS
        token = bearer_of(headers)
        if looks_like_token(token):
            return await self._by_token(endpoint, token, headers, peer)
        changes = endpoint.method != "GET"
        anew = changes and endpoint.may is Action.MANAGE_KEYS
        session_id = None
        if b"authorization" not in headers and b"cookie" in headers:
            opened = await self._session(headers, peer, changes=changes, anew=anew)
            session_id = opened.session_id
            if opened.identity is not None:
                who = await self._person(endpoint, opened.identity, opened.began_at, headers, session_id)
                self._used_sessions.add(session_id)
                return who
            assert opened.key is not None
            key = opened.key
        else:
            key = await self._key(token, anew=anew)
        refuse_elsewhere(key.networks, peer)
        _check_role(endpoint, key.role)
        tenant = await self._tenant_of(key, headers)
        scope = key.scope
        _check_open(endpoint, tenant, scoped=scope is not None)
        self._used.add(key.id)
        if session_id is not None:
            self._used_sessions.add(session_id)
        about = (key.name, key.queues, key.expires_at, key.networks, session_id, scope)
        return Caller(key.id, key.role, tenant.id, *about)

    async def tenant(self, tenant_id: int) -> Tenant:
        """A tenant, at most a few seconds old."""
        found = self._tenants.get(tenant_id)
        if found is None:
            found = self._tenants.put(tenant_id, await self._store.tenants.tenant_by_id(tenant_id))
        return found

    def forget(self) -> None:
        """Drop the caches after a change on this server."""
        self.forget_sessions()
        self._keys.clear()
        self._tenants.clear()
        self.tokens.forget()

    def forget_sessions(self) -> None:
        self.changes += 1
        self._sessions.clear()

    @contextmanager
    def ending_sessions(self) -> Iterator[None]:
        """Drop the cached sessions after the block. Also when the store's answer was lost: the change may have
        happened."""
        try:
            yield
        except StoreError:
            self.forget_sessions()
            raise
        self.forget_sessions()

    def session_lifetime(self, identity: Identity | None) -> timedelta:
        """How long a session of a key, or of this person, lasts by the settings of today."""
        link = None if identity is None else self.identities.links.get(identity.provider)
        return self._session_lifetime if link is None else link.provider.session_lifetime

    def used(self) -> list[UUID]:
        """The keys that were used since the last call."""
        used, self._used = self._used, set()
        return list(used)

    def used_sessions(self) -> list[UUID]:
        """The sessions that were used since the last call."""
        used, self._used_sessions = self._used_sessions, set()
        return list(used)

    async def _key(self, text: str, *, anew: bool) -> ApiKey:
        if not text:
            raise Problem(
                UNAUTHENTICATED,
                "the request has no API key",
                field="Authorization",
                remedy="send Authorization: Bearer dt_live_…",
                headers=_CHALLENGE,
            )
        key = await self._known(hash_of(text), text, anew=anew)
        if key is None:
            raise Problem(
                UNAUTHENTICATED,
                "the key is unknown, expired or revoked",
                field="Authorization",
                remedy="ask an admin for a new one",
                headers=_CHALLENGE,
            )
        return key

    async def _by_token(self, endpoint: Endpoint, text: str, headers: Mapping[bytes, bytes], peer: Peer) -> Caller:
        """The caller of a token: a user of a tenant's issuer, or a person or service of an identity provider."""
        try:
            token = read_token(text)
            person = await self.identities.verify(token) if self.identities.concerns(token) else None
            if person is None:
                named = headers.get(b"duetime-tenant", b"").decode("latin-1")
                tenant = await self._tenant_named(self.tokens.tenant_of(token, named))
                user = await self.tokens.verify(token, tenant)
        except RefusedClaims as error:
            raise _refused_token(str(error)) from None
        except ProviderDown as error:
            log.warning("a token cannot be checked: %s", reason_of(error))
            raise Problem(
                PROVIDER_UNAVAILABLE, "the token cannot be checked now", remedy="retry", headers={"retry-after": "30"}
            ) from None
        except (BadToken, NotFound) as error:
            log.info("a token was refused: %s", reason_of(error))
            raise _refused_token("the token is not valid for this tenant") from None
        if person is not None:
            return await self._person(endpoint, person.identity, person.issued_at, headers, None)
        refuse_elsewhere(user.issuer.issuer.networks, peer)
        _check_may(endpoint, user.issuer.issuer.role, tenant, scoped=True)
        return user.caller(tenant)

    async def _person(
        self,
        endpoint: Endpoint,
        identity: Identity,
        since: datetime,
        headers: Mapping[bytes, bytes],
        session_id: UUID | None,
    ) -> Caller:
        """A person in the tenant that the request names. A tenant without a role for this person, and one that does
        not exist, get the same answer."""
        if endpoint.may is Action.WORK:
            raise Problem(
                FORBIDDEN,
                "the worker protocol does not accept logins or tokens of identity providers",
                remedy="use a key with the role worker",
            )
        grants = self.identities.grants(identity)
        named = headers.get(b"duetime-tenant", b"").decode("latin-1")
        found = await self._granted(grants, named)
        if found is None:
            raise Problem(
                FORBIDDEN,
                f"no group of this account gives access{' to this tenant' if named else ''}",
                field="Duetime-Tenant" if named else None,
                remedy="ask the operator of this service for access, then log in again",
            )
        grant, tenant = found
        _check_may(endpoint, grant.role, tenant, scoped=grant.scope is not None)
        tenants = tuple(each.tenant for each in grants if each.tenant is not None)
        is_root = any(each.tenant is None for each in grants)
        return Caller(
            None,
            grant.role,
            tenant.id,
            identity.label,
            # What a person creates (keys, issuers) must not outlive their access without end (`model/key_grants.py`).
            expires_at=since + self._key_lifetime if self._key_lifetime else None,
            session_id=session_id,
            scope=grant.scope,
            user=User(
                identity.id,
                identity.provider,
                identity.issuer,
                identity.subject,
                identity.email,
                () if is_root else tenants,
            ),
        )

    async def _granted(self, grants: Sequence[TenantGrant], named: str) -> tuple[TenantGrant, Tenant] | None:
        """The first grant that holds in the tenant of this name, or (without a name) in any that exists."""
        for grant in grants:
            if grant.tenant is None:
                return grant, await (self._tenant_named(named) if named else self.tenant(DEFAULT_TENANT))
            if grant.tenant == named or not named:
                with contextlib.suppress(NotFound):
                    return grant, await self._tenant_named(grant.tenant)
        return None

    async def _session(self, headers: Mapping[bytes, bytes], peer: Peer, *, changes: bool, anew: bool) -> Opened:
        hash = session_hash(headers, peer)
        found = None if hash is None else await self._opened(hash, anew=anew)
        if found is None:
            raise Problem(
                UNAUTHENTICATED,
                "the session has ended",
                field="Cookie",
                remedy="log in again",
                headers=_CHALLENGE,
            )
        if changes and not is_own(headers):
            raise refusal("use the dashboard of this server; a proxy must forward the Host header")
        return found

    async def _opened(self, hash: bytes, *, anew: bool) -> Opened | None:
        """The session with this hash, and its key or person."""
        if not anew and (remembered := self._sessions.look(hash)) is not None:
            return remembered[0]
        changes = self.changes
        found = await self._store.sessions.session_of(hash)
        if found is not None and found.at - found.began_at >= self.session_lifetime(found.identity):
            found = None
        return self._sessions.put(hash, found) if changes == self.changes else found

    async def _known(self, hash: bytes, text: str, *, anew: bool) -> ApiKey | None:
        """The key with this hash, from the cache or the store. A text that cannot be a key is not looked up."""
        if not anew and (remembered := self._keys.look(hash)) is not None:
            return remembered[0]
        if not looks_like_key(text):
            return None
        changes = self.changes
        key = await self._store.access.key_by_hash(hash)
        if key is not None:
            self._warn(key)
        # A value that was read before a change on this server is not cached.
        return self._keys.put(hash, key) if changes == self.changes else key

    def _warn(self, key: ApiKey) -> None:
        if key.expires_at is None or self._warned.get(key.id):
            return
        left = key.expires_at - _clock.now()
        if left * _LAST_PART < key.expires_at - key.created_at:
            self._warned.put(key.id, True)
            when = f"{key.expires_at:%Y-%m-%dT%H:%M:%SZ}"
            log.warning("the key %s is in use and expires at %s: rotate it", show("key", key.id), when)

    async def _tenant_of(self, key: ApiKey, headers: Mapping[bytes, bytes]) -> Tenant:
        named = headers.get(b"duetime-tenant", b"").decode("latin-1")
        if key.role is Role.ROOT and named:
            return await self._tenant_named(named)
        tenant = await self.tenant(DEFAULT_TENANT if key.tenant_id is None else key.tenant_id)
        if named and named != tenant.name:
            raise Problem(
                FORBIDDEN,
                "the key belongs to another tenant",
                field="Duetime-Tenant",
                remedy="omit the header",
            )
        return tenant

    async def _tenant_named(self, name: str) -> Tenant:
        found = self._tenants.get(name)
        if found is None:
            try:
                found = self._tenants.put(name, await self._store.tenants.tenant(name))
            except NotFound:
                raise NotFound("the tenant does not exist", field="Duetime-Tenant") from None
        return found


def bearer_of(headers: Mapping[bytes, bytes]) -> str:
    """The key or token of a request; empty if it has none."""
    scheme, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _refused_token(detail: str) -> Problem:
    return Problem(
        UNAUTHENTICATED,
        detail,
        field="Authorization",
        remedy="send a token that an issuer of the tenant has signed (docs/tokens.md), or log in again (duetime login)",
        headers=_CHALLENGE,
    )


def _check_role(endpoint: Endpoint, role: Role) -> None:
    if endpoint.may is None or not may(role, endpoint.may):
        raise Problem(
            FORBIDDEN,
            f"a key with the role {role.name.lower()} may not do this",
            remedy="use a key with another role",
        )


def _check_may(endpoint: Endpoint, role: Role, tenant: Tenant, *, scoped: bool) -> None:
    """Refuse what the role may not do, and what is closed to it (`_check_open`)."""
    _check_role(endpoint, role)
    _check_open(endpoint, tenant, scoped=scoped)


def _check_open(endpoint: Endpoint, tenant: Tenant, *, scoped: bool) -> None:
    """Refuse what is closed to callers with a scope, and changes of a closed tenant."""
    if scoped and not endpoint.scoped:
        error = closed()
        raise Problem(FORBIDDEN, error.message, remedy=error.remedy)
    changes = endpoint.method != "GET" and endpoint.may not in _WHILE_SUSPENDED and not endpoint.ends_access
    if tenant.state is not TenantState.ACTIVE and changes:
        kind = SUSPENDED if tenant.state is TenantState.SUSPENDED else DELETING
        raise Problem(kind, remedy="ask the operator of this service")


def refuse_elsewhere(networks: tuple[str, ...], peer: Peer) -> None:
    """Refuse a key or token that is bound to other networks than the client's."""
    if networks and not is_inside(peer.address, networks):
        raise Problem(
            ADDRESS,
            f"the key may not be used from {peer.address or 'an unknown address'}",
            remedy="use it from one of its networks, or ask an admin for another key",
        )
