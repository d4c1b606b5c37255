"""Requests and answers about secrets, signing and completions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Request

SecretHost = Annotated[str, Meta(min_length=1, max_length=260)]
SecretRole = Literal["admin", "operator", "submitter"]


class SecretRequest(Request, frozen=True):
    """A secret of the tenant. It can be replaced and deleted, but never read."""

    value: Annotated[str, Meta(min_length=8, max_length=8000, description="It is never shown again.")]
    hosts: Annotated[
        tuple[SecretHost, ...],
        Meta(
            min_length=1,
            max_length=20,
            description="Where it may be sent: `api.example.com` (port 443), `api.example.com:8443`, `*.example.com`.",
        ),
    ]
    roles: Annotated[
        tuple[SecretRole, ...],
        Meta(max_length=3, description="Which roles may use it in a job; none: every role that may submit."),
    ] = ()


class SecretView(Struct, frozen=True):
    name: str
    created_at: datetime
    changed_at: datetime
    hosts: tuple[str, ...]
    roles: tuple[str, ...]


class SecretList(Struct, frozen=True):
    items: tuple[SecretView, ...]


class SecretStored(Struct, frozen=True):
    name: str
    changed_at: datetime
    hosts: tuple[str, ...]
    roles: tuple[str, ...]


class SigningView(Struct, frozen=True):
    secret_id: str
    created_at: datetime
    expires_at: datetime | None
    """When it stops signing; null for the newest."""


class SigningList(Struct, frozen=True):
    items: tuple[SigningView, ...]


class RotationRequest(Request, frozen=True):
    overlap: Annotated[Length, Meta(description="How long the old secrets stay valid.")] = "24h"


class SigningSecretMade(SigningView, frozen=True, kw_only=True):
    secret: str
    """What receivers verify signatures with. It is not shown again."""


class CompletionRequest(Request, frozen=True):
    """The result of a run that was handed over."""

    status: Literal["succeeded", "failed"] = "succeeded"
    result: Any = None
    error: Annotated[str, Meta(max_length=4000)] | None = None
    retry: Annotated[bool, Meta(description="For a failure: whether it may be retried.")] = True


class CompletionAnswer(Struct, frozen=True):
    run_id: str
    status: str
    """The state of the run now."""
