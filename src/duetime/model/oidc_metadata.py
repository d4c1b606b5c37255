"""What an identity provider publishes about itself (OpenID Connect Discovery), for server and command line."""

from typing import Any

import msgspec

from duetime.errors import InvalidInput

WELL_KNOWN = "/.well-known/openid-configuration"
MOST_BYTES = 256 * 1024
"""Of any answer of a provider."""


class Metadata(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    end_session_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False

    @property
    def posts_secret(self) -> bool:
        """Whether the secret of a client goes into the body: only where the header is not supported."""
        methods = self.token_endpoint_auth_methods_supported
        return "client_secret_basic" not in methods and "client_secret_post" in methods


class TokenAnswer(msgspec.Struct, frozen=True):
    """The answer of a token endpoint."""

    access_token: str | None = None
    id_token: str | None = None
    refresh_token: str | None = None


def configuration_url(issuer: str) -> str:
    return issuer.rstrip("/") + WELL_KNOWN


def read_metadata(document: Any, issuer: str) -> Metadata:
    """The metadata of this issuer. Raises `InvalidInput`: also for a document of another issuer, whose tokens and
    codes must not be mixed up with those of this one."""
    try:
        found = msgspec.convert(document, Metadata)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"its configuration is not that of an OpenID provider: {error}") from None
    if found.issuer != issuer:
        raise InvalidInput(
            f"its configuration names the issuer {found.issuer[:200]!r}", remedy=f"the setting says {issuer!r}"
        )
    supported = found.code_challenge_methods_supported
    if supported is not None and "S256" not in supported:
        raise InvalidInput("it does not support PKCE with S256")
    return found


def read_tokens(document: Any) -> TokenAnswer:
    """Raises `InvalidInput`."""
    try:
        return msgspec.convert(document, TokenAnswer)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"its answer has no tokens: {error}") from None
