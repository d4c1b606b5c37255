"""What a target's `auth` adds to a request: a signature for AWS, or a bearer token."""

from collections.abc import Callable
from typing import NamedTuple, assert_never

import aiohttp

from duetime.model.target import AwsSignature, ClientCredentials, HttpTarget, IdentityToken
from duetime.store.protocol.store import Store
from duetime.targets.address_guard import AddressGuard
from duetime.targets.aws import AwsSigner
from duetime.targets.cloud_access import CloudAccess
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.tokens import Token, Tokens
from duetime.targets.url import Place
from duetime.targets.vault import Memory, Vault


class Authorized(NamedTuple):
    headers: dict[str, str]
    token: Token | None = None


class TenantNames:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: Memory[int, str] = Memory()

    async def name(self, tenant_id: int) -> str:
        async def fetch() -> str:
            return (await self._store.tenants.tenant_by_id(tenant_id)).name

        return await self._names.get(tenant_id, fetch)


class Authorization:
    def __init__(self, access: CloudAccess, vault: Vault, guard: AddressGuard, names: TenantNames) -> None:
        self._names = names
        self._aws = AwsSigner(access, vault)
        self._tokens = Tokens(access, vault, guard)

    async def authorize(
        self,
        target: HttpTarget,
        attempt: TargetAttempt,
        place: Place,
        headers: dict[str, str],
        body: bytes,
        session: Callable[[], aiohttp.ClientSession],
    ) -> Authorized:
        """The headers to add. Tokens are requested through `session`. Raises `InvalidInput`, `NotFound`, `SealBroken`,
        `NoCredentials`, and what the HTTP library raises."""
        tenant = await self._names.name(attempt.tenant_id)
        match target.auth:
            case None:
                return Authorized({})
            case AwsSignature() as auth:
                request = target.method, target.url, headers, body
                return Authorized(await self._aws.signed(auth, attempt, tenant, place, request))
            case IdentityToken() | ClientCredentials() as auth:
                token = await self._tokens.token(auth, attempt, tenant, target.url, place, session)
                return Authorized({"authorization": f"Bearer {token.text}"}, token)
            case _:
                assert_never(target.auth)

    def may_help_again(self, refused: Authorized) -> bool:
        """The receiver answered 401. Whether a new token may change that."""
        return refused.token is not None and self._tokens.reject(refused.token)
