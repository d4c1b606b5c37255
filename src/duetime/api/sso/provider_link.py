"""One identity provider as this server talks to it: what it publishes, its keys, and its token endpoint.

The provider is asked when it is needed, never at the start: a provider that is down keeps no server from starting. What
it publishes is used for an hour, and for up to a day while it does not answer.
"""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from duetime.api.guarded_fetch import FAILURES, GuardedFetch
from duetime.api.issuer_keys import IssuerKeys
from duetime.api.sso.providers import Provider
from duetime.clock import monotonic
from duetime.crypto.signed_tokens import UnreadToken, verified_claims
from duetime.errors import InvalidInput, reason_of
from duetime.model.oidc_metadata import Metadata, TokenAnswer, configuration_url, read_metadata, read_tokens

log = logging.getLogger("duetime.api")

FRESH = 3600.0
"""Seconds for which what a provider publishes is used without another look."""
RETRY = 30.0
"""Seconds between two fetches, if the first failed."""
STALE = 86_400.0
_ERROR_CODE = 60


class ProviderDown(Exception):
    """The provider cannot be used now. The text is for the server's log."""


class CodeRefused(Exception):
    """The provider does not accept a code. The text is its error code."""


class ProviderLink:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._fetch = GuardedFetch(provider.guard)
        self._keys = IssuerKeys(self._fetch)
        self._metadata: Metadata | None = None
        self._fetched_at = self._tried_at = -float("inf")
        self._renewing: asyncio.Task[None] | None = None

    async def metadata(self) -> Metadata:
        """What it publishes. Raises `ProviderDown`."""
        now = monotonic()
        if now - self._fetched_at > FRESH and now - self._tried_at > RETRY:
            if self._renewing is None:
                self._renewing = asyncio.create_task(self._renew())
            await asyncio.shield(self._renewing)
        if self._metadata is None or monotonic() - self._fetched_at > STALE:
            raise ProviderDown("its configuration cannot be fetched")
        return self._metadata

    async def verified(self, token: UnreadToken, audience: str) -> Mapping[str, Any]:
        """The claims of a token of this provider, for this audience, now. Raises `BadToken`, `ProviderDown`."""
        metadata = await self.metadata()
        keys = await self._keys.keys_at(self.provider.name, metadata.jwks_uri, token.kid)
        return verified_claims(token, keys, self.provider.algorithms, issuer=self.provider.issuer, audience=audience)

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> TokenAnswer:
        """The tokens of a code. Raises `CodeRefused`, `ProviderDown`."""
        metadata, provider = await self.metadata(), self.provider
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if provider.client_secret is None or metadata.posts_secret:
            form["client_id"] = provider.client_id
            if provider.client_secret is not None:
                form["client_secret"] = provider.client_secret
        else:
            headers["authorization"] = _basic(provider.client_id, provider.client_secret)
        try:
            answer = await self._fetch.post(metadata.token_endpoint, "token_endpoint", form, headers)
            if answer.status == 200:
                return read_tokens(answer.document)
        except FAILURES as error:
            raise self._down("its token endpoint", error) from None
        code_of_error = answer.document.get("error") if isinstance(answer.document, dict) else None
        if answer.status < 500 and isinstance(code_of_error, str):
            raise CodeRefused(code_of_error[:_ERROR_CODE])
        raise ProviderDown(f"its token endpoint answered {answer.status}")

    async def userinfo(self, access_token: str, subject: str) -> Mapping[str, Any]:
        """More claims of this person; none if the provider has none, or answers for another person. Raises
        `ProviderDown`."""
        url = (await self.metadata()).userinfo_endpoint
        if url is None:
            return {}
        try:
            found = await self._fetch.get(url, "userinfo_endpoint", {"authorization": f"Bearer {access_token}"})
        except FAILURES as error:
            raise self._down("its userinfo endpoint", error) from None
        return found if isinstance(found, dict) and found.get("sub") == subject else {}

    async def close(self) -> None:
        await self._fetch.close()

    def _down(self, what: str, error: BaseException) -> ProviderDown:
        return ProviderDown(f"{what} cannot be used: {reason_of(error)}")

    async def _renew(self) -> None:
        issuer = self.provider.issuer
        try:
            document = await self._fetch.get(configuration_url(issuer), "issuer")
            self._metadata = read_metadata(document, issuer)
            self._fetched_at = monotonic()
        except FAILURES as error:
            reason = error.message if isinstance(error, InvalidInput) else reason_of(error)
            log.warning("the provider %s cannot be used: %s", self.provider.name, reason)
        finally:
            self._tried_at = monotonic()
            self._renewing = None


def _basic(name: str, secret: str) -> str:
    """RFC 6749, 2.3.1: both are form-encoded first."""
    return "Basic " + b64encode(f"{quote_plus(name)}:{quote_plus(secret)}".encode()).decode()
