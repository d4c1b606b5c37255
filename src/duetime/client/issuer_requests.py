"""Requests for issuers of tokens."""

from typing import Any

from duetime.client.request import Length, Request, job_fields, path
from duetime.wire.issuers import IssuerList, IssuerView
from duetime.wire.jobs import Deleted


def list_issuers() -> Request[IssuerList]:
    """The issuers of tokens for the users of the tenant."""
    return Request("GET", "/v1/issuers", IssuerList)


def get_issuer(name: str) -> Request[IssuerView]:
    """Read an issuer."""
    return Request("GET", path("/v1/issuers/{}", name), IssuerView)


def put_issuer(
    name: str,
    *,
    issuer: str,
    jwks: dict[str, Any] | None = None,
    jwks_url: str | None = None,
    public_key: str | None = None,
    audience: str | None = None,
    role: str | None = None,
    owner_claim: str | None = None,
    algorithms: tuple[str, ...] | None = None,
    max_lifetime: Length | None = None,
    tag: str | None = None,
    queue: str | None = None,
) -> Request[IssuerView]:
    """Create or replace an issuer. One of `jwks`, `jwks_url` and `public_key` (PEM) is required."""
    body = job_fields(
        issuer=issuer,
        jwks=jwks,
        jwks_url=jwks_url,
        public_key=public_key,
        audience=audience,
        role=role,
        owner_claim=owner_claim,
        algorithms=None if algorithms is None else list(algorithms),
        max_lifetime=max_lifetime,
        tag=tag,
        queue=queue,
    )
    return Request("PUT", path("/v1/issuers/{}", name), IssuerView, body=body)


def delete_issuer(name: str) -> Request[Deleted]:
    """Delete an issuer. Its tokens stop."""
    return Request("DELETE", path("/v1/issuers/{}", name), Deleted, repeatable=False)
