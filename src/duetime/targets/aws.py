"""Signatures for AWS: botocore finds, assumes and renews credentials, and signs.

The credentials of the service belong to its operator. `cloud_access` says which tenants may use them, and for what.
Errors about them are logged, and tenants learn only that there was one: the texts name accounts and roles. botocore is
an extra (`duetime[aws]`), so it is imported on demand. It blocks, so it finds and renews credentials in threads.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

import msgspec

from duetime.errors import InvalidInput, NoCredentials, reason_of
from duetime.model.failure import bounded
from duetime.model.target import AwsSignature
from duetime.process.loading import load
from duetime.targets.cloud_access import CloudAccess
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place
from duetime.targets.vault import Vault

log = logging.getLogger("duetime.targets")

_MOST = 1000
_TIMEOUT = 5.0
"""Seconds for an answer of AWS's service of tokens."""
_SIGNED = ("content-type", "x-amz-")
"""The beginnings of the headers that are signed, beside the host. Those that a proxy may change are not."""
PASSING = frozenset(
    {
        *("ThrottlingException", "Throttling", "ThrottledException", "TooManyRequestsException"),
        *(
            "RequestThrottled",
            "RequestThrottledException",
            "RequestLimitExceeded",
            "SlowDown",
            "PriorRequestNotComplete",
        ),
        *("ServiceUnavailable", "ServiceUnavailableException", "InternalError", "InternalFailure", "RequestTimeout"),
    }
)
"""Errors that AWS reports with a status of 4xx, although a later call may succeed."""


def require_aws() -> None:
    if find_spec("botocore") is None:
        raise InvalidInput(
            "signatures for AWS need botocore", field="target.auth.type", remedy="pip install 'duetime[aws]'"
        )


class AwsSigner:
    def __init__(self, access: CloudAccess, vault: Vault) -> None:
        self._access = access
        self._vault = vault
        logging.getLogger("botocore").setLevel(logging.INFO)  # below that, it logs answers with credentials
        self._found: dict[Hashable, Any] = {}
        self._finding: dict[Hashable, asyncio.Lock] = {}

    async def signed(
        self,
        auth: AwsSignature,
        attempt: TargetAttempt,
        tenant: str,
        place: Place,
        request: tuple[str, str, Mapping[str, str], bytes],
    ) -> dict[str, str]:
        """The headers that sign a request: method, URL, headers and body. Raises `InvalidInput`, `NotFound`,
        `SealBroken` and `NoCredentials`."""
        require_aws()
        await load("botocore.auth", "botocore.awsrequest", "botocore.exceptions")
        from botocore.auth import S3SigV4Auth, SigV4Auth  # type: ignore[import-untyped]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]

        credentials = await self._credentials(auth, attempt, tenant, place)
        method, url, headers, body = request
        known = {name: value for name, value in headers.items() if name.startswith(_SIGNED)}
        made = AWSRequest(method, url, headers=known, data=body)
        # S3 takes paths as they are, and asks for the hash of the body.
        signer = S3SigV4Auth if auth.service == "s3" else SigV4Auth
        if auth.service == "s3":
            made.context["payload_signing_enabled"] = True
        signer(credentials, auth.service, auth.region).add_auth(made)
        added = {name.lower(): value for name, value in made.headers.items()}
        for secret in (credentials.access_key, credentials.token, added["authorization"].rpartition("=")[2]):
            if secret:
                attempt.redactor.learn(secret)
        return {name: value for name, value in added.items() if name not in known}

    async def _credentials(self, auth: AwsSignature, attempt: TargetAttempt, tenant: str, place: Place) -> Any:
        """Credentials that do not change while they sign."""
        key: Hashable
        if auth.access_key_id is not None and auth.secret_access_key is not None:
            secret = await self._vault.value(attempt.tenant_id, auth.secret_access_key.secret, place)
            attempt.redactor.learn(secret)
            digest = blake2b(secret.encode()).digest()
            key = (attempt.tenant_id, auth.access_key_id, digest, auth.role, auth.external_id, auth.region)
            make = partial(_with_key, auth.access_key_id, secret, auth.role, auth.external_id, auth.region, tenant)
            return await self._frozen(key, make, attempt)
        entry, role = self._access.aws(tenant, auth, place)
        key = (None, entry.profile, role, entry.external_id, auth.region, tenant if role else None)
        make = partial(_of_service, entry.profile, role, entry.external_id, auth.region, tenant)
        return await self._frozen(key, make, None)

    async def _frozen(self, key: Hashable, make: Callable[[], Any], of_tenant: TargetAttempt | None) -> Any:
        """`of_tenant`: the credentials are the tenant's own, so it may learn what is wrong with them."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        lock = self._finding.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if key not in self._found:
                    made = await asyncio.to_thread(make)
                    if len(self._found) >= _MOST:
                        self._found.clear()
                        self._finding.clear()
                    self._found[key] = made
                found = self._found[key]
                if getattr(found, "refresh_needed", bool)():
                    return await asyncio.to_thread(found.get_frozen_credentials)
                return found.get_frozen_credentials()
        except (BotoCoreError, ClientError, OSError) as error:
            if of_tenant is not None:
                refusal = NoCredentials(
                    bounded(of_tenant.redactor.text(f"no AWS credentials: {reason_of(error)}"), 500)
                )
                refusal.may_retry = _may_retry(error)
                raise refusal from None
            log.warning("AWS gives the service no credentials: %s", reason_of(error))
            raise NoCredentials("AWS gives the service no credentials; its log says why") from None


def aws_failure(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Why a call has failed, although its status says something else: a function of Lambda raised an error (200), or
    AWS asks to call later (4xx)."""
    if 200 <= status < 300:
        raised = headers.get("x-amz-function-error")
        return None if raised is None else f"the function failed: {raised}"
    if not 400 <= status < 500:
        return None
    code = headers.get("x-amzn-errortype", "").partition(":")[0]
    if not code:
        try:
            code = str(msgspec.json.decode(body, type=dict[str, Any]).get("__type", "")).rpartition("#")[2]
        except (msgspec.DecodeError, msgspec.ValidationError):
            return None
    return code if code in PASSING else None


def _with_key(key: str, secret: str, role: str | None, external_id: str | None, region: str, tenant: str) -> Any:
    from botocore.credentials import Credentials  # type: ignore[import-untyped]

    own = Credentials(key, secret)
    return own if role is None else _assuming(_session(None), own, role, external_id, region, tenant)


def _of_service(profile: str | None, role: str | None, external_id: str | None, region: str, tenant: str) -> Any:
    from botocore.exceptions import NoCredentialsError

    session = _session(profile)
    found = session.get_credentials()
    if found is None:
        raise NoCredentialsError
    return found if role is None else _assuming(session, found, role, external_id, region, tenant)


def _session(profile: str | None) -> Any:
    from botocore.session import Session  # type: ignore[import-untyped]

    return Session(profile=profile)


def _assuming(session: Any, source: Any, role: str, external_id: str | None, region: str, tenant: str) -> Any:
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    config = Config(connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT, retries={"total_max_attempts": 2})
    more = {"RoleSessionName": re.sub(r"[^A-Za-z0-9+=,.@-]", "_", f"duetime-{tenant}")[:64]}
    if external_id is not None:
        more["ExternalId"] = external_id
    fetcher = AssumeRoleCredentialFetcher(
        partial(session.create_client, region_name=region, config=config), source, role, extra_args=more
    )
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


def _may_retry(error: Exception) -> bool:
    """Whether AWS may give credentials later. It refuses a call with 4xx."""
    answer = getattr(error, "response", {})
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return status >= 500 or answer.get("Error", {}).get("Code") in PASSING
