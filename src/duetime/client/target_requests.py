"""Requests for secrets, signing secrets and completions."""

from collections.abc import Sequence
from typing import Any

from duetime.client.request import Length, Request, given, job_fields, path
from duetime.wire.jobs import Deleted
from duetime.wire.targets import CompletionAnswer, SecretList, SecretStored, SigningList, SigningSecretMade


def list_secrets() -> Request[SecretList]:
    """The names of the tenant's secrets. Their values are never returned."""
    return Request("GET", "/v1/secrets", SecretList)


def put_secret(secret: str, value: str, *, hosts: Sequence[str], roles: Sequence[str] = ()) -> Request[SecretStored]:
    """Create or replace a secret that headers of targets can name. It is sent to these hosts only, for jobs of keys
    with these roles; none: of every role that may submit."""
    body = {"value": value, "hosts": list(hosts), "roles": list(roles)}
    return Request("PUT", path("/v1/secrets/{}", secret), SecretStored, body=body)


def delete_secret(secret: str) -> Request[Deleted]:
    """Delete a secret."""
    return Request("DELETE", path("/v1/secrets/{}", secret), Deleted, repeatable=False)


def list_signing_secrets() -> Request[SigningList]:
    """The signing secrets of requests to targets, newest first."""
    return Request("GET", "/v1/signing-secrets", SigningList)


def rotate_signing_secret(*, overlap: Length | None = None) -> Request[SigningSecretMade]:
    """Create a signing secret. Its text is in the response, and never shown again. The old ones stay in use for
    `overlap`."""
    body = job_fields(overlap=overlap)
    return Request("POST", "/v1/signing-secrets/rotate", SigningSecretMade, body=body, repeatable=False)


def complete_run(
    token: str, *, status: str | None = None, result: Any = None, error: str | None = None, retry: bool | None = None
) -> Request[CompletionAnswer]:
    """Report the outcome of an attempt, by the last part of its completion link."""
    body = given(status=status, result=result, error=error, retry=retry)
    return Request("POST", path("/v1/completions/{}", token), CompletionAnswer, body=body)
