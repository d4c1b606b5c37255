"""Requests of operators and workers: tenants, keys, sessions, the audit log, the worker protocol, health."""

from typing import Any, Unpack

from duetime.client.request import Length, Moment, Request, field, given, job_fields, path
from duetime.spec.options import TenantOptions
from duetime.wire.admin import (
    AuditPage,
    KeyCreated,
    KeyPage,
    KeyView,
    LoginLink,
    SessionPage,
    SessionView,
    TenantDefaults,
    TenantPage,
    TenantView,
)
from duetime.wire.encryption import EncryptionView
from duetime.wire.erasures import ErasurePage, ErasureView
from duetime.wire.service import Health
from duetime.wire.sso import LoginMethods
from duetime.wire.workers import (
    TOKEN_HEADER,
    AskParents,
    Beat,
    Beaten,
    Compare,
    Dealt,
    HandBack,
    HandedBack,
    Left,
    Notes,
    Parents,
    Refusals,
    Registered,
    Registration,
    Reports,
    Unaccounted,
)
from duetime.wire.workers import (
    Ask as ClaimRequest,
)

_SLACK = 10.0


# Tenants, keys and the audit log.


def list_tenants(*, page_size: int | None = None, cursor: str | None = None) -> Request[TenantPage]:
    """A page of tenants."""
    return Request("GET", "/v1/admin/tenants", TenantPage, given(page_size=page_size, cursor=cursor))


def create_tenant(name: str, **fields: Any) -> Request[TenantView]:
    """Create a tenant: `tier`, `weight`, `limits`, `encrypt_args`."""
    return Request("POST", "/v1/admin/tenants", TenantView, body=job_fields(name=name, **fields), repeatable=False)


def get_tenant(tenant: str) -> Request[TenantView]:
    """Read a tenant."""
    return Request("GET", path("/v1/admin/tenants/{}", tenant), TenantView)


def change_tenant(tenant: str, **fields: Any) -> Request[TenantView]:
    """Change the given fields: `name`, `state`, `tier`, `weight`, `limits`, `encrypt_args`."""
    return Request("PATCH", path("/v1/admin/tenants/{}", tenant), TenantView, body=job_fields(**fields))


def get_defaults() -> Request[TenantDefaults]:
    """The default options of the tenant's jobs."""
    return Request("GET", "/v1/defaults", TenantDefaults)


def set_defaults(**options: Unpack[TenantOptions]) -> Request[TenantDefaults]:
    """Replace the default options of the tenant's jobs."""
    return Request("PUT", "/v1/defaults", TenantDefaults, body=job_fields(**options))


def change_defaults(**options: Any) -> Request[TenantDefaults]:
    """Change the given default options of the tenant's jobs; None removes one."""
    body = {name: field(name, value) for name, value in options.items()}
    return Request("PATCH", "/v1/defaults", TenantDefaults, body=body)


def delete_tenant(tenant: str, *, confirm: str, grace: Length | None = None) -> Request[ErasureView]:
    """Delete a tenant and everything that it owns. `confirm` is its name once more; `grace` is for how long the
    deletion can be taken back."""
    body = job_fields(confirm=confirm, grace=grace)
    return Request("POST", path("/v1/admin/tenants/{}/delete", tenant), ErasureView, body=body, repeatable=False)


def undelete_tenant(tenant: str) -> Request[TenantView]:
    """Take back the deletion of a tenant, while it has not begun."""
    return Request("POST", path("/v1/admin/tenants/{}/undelete", tenant), TenantView, repeatable=False)


def list_erasures(
    *, name: str | None = None, page_size: int | None = None, cursor: str | None = None
) -> Request[ErasurePage]:
    """A page of the tenants that are to be erased, are being erased, or were."""
    return Request("GET", "/v1/admin/erasures", ErasurePage, given(name=name, page_size=page_size, cursor=cursor))


def get_erasure(number: int) -> Request[ErasureView]:
    """How far the erasure of a tenant is, and what was removed."""
    return Request("GET", path("/v1/admin/erasures/{}", str(number)), ErasureView)


def list_keys(*, root: bool = False, page_size: int | None = None, cursor: str | None = None) -> Request[KeyPage]:
    """A page of keys, oldest first. Their texts are not stored."""
    return Request("GET", "/v1/admin/keys", KeyPage, given(root=root or None, page_size=page_size, cursor=cursor))


def create_key(
    role: str,
    name: str,
    *,
    queues: tuple[str, ...] = (),
    owner: str | None = None,
    tag: str | None = None,
    expires_at: Moment | None = None,
    networks: tuple[str, ...] | None = None,
) -> Request[KeyCreated]:
    """Create a key. Its text is in the response, and never shown again.

    It expires at a given time, `"never"`, or after the server's `key_lifetime`. It works from `networks` only. With an
    `owner`, a `tag` or a queue, it sees and controls only jobs with them.
    """
    bounds = {"queues": list(queues) or None, "owner": owner, "tag": tag, "networks": _listed(networks)}
    body = job_fields(role=role, name=name, expires_at=expires_at, **bounds)
    return Request("POST", "/v1/admin/keys", KeyCreated, body=body, repeatable=False)


def rotate_key(
    key_id: str,
    *,
    overlap: Length | None = None,
    name: str | None = None,
    expires_at: Moment | None = None,
    networks: tuple[str, ...] | None = None,
    root: bool = False,
) -> Request[KeyCreated]:
    """Create a key that replaces another. The old key works for `overlap` longer."""
    body = job_fields(overlap=overlap, name=name, expires_at=expires_at, networks=_listed(networks))
    target = path("/v1/admin/keys/{}/rotate", key_id)
    return Request("POST", target, KeyCreated, given(root=root or None), body, repeatable=False)


def revoke_key(key_id: str, *, root: bool = False) -> Request[KeyView]:
    """Revoke a key."""
    return Request("POST", path("/v1/admin/keys/{}/revoke", key_id), KeyView, given(root=root or None))


def list_sessions(
    *, of: str | None = None, page_size: int | None = None, cursor: str | None = None
) -> Request[SessionPage]:
    """A page of browser sessions, newest first: of this `key`, of all keys of the `tenant`, or of `all` tenants."""
    return Request("GET", "/v1/sessions", SessionPage, given(of=of, page_size=page_size, cursor=cursor))


def revoke_session(session_id: str) -> Request[SessionView]:
    """Revoke a browser session."""
    return Request("POST", path("/v1/sessions/{}/revoke", session_id), SessionView, repeatable=False)


def get_login_methods() -> Request[LoginMethods]:
    """The identity providers to log in with. No key is needed."""
    return Request("GET", "/v1/login-methods", LoginMethods)


def create_login_link() -> Request[LoginLink]:
    """Create a link that logs a browser in once, with the key of this client."""
    return Request("POST", "/v1/login-links", LoginLink, repeatable=False)


def list_audit(*, all: bool = False, page_size: int | None = None, cursor: str | None = None) -> Request[AuditPage]:
    """A page of the audit log, newest first."""
    return Request("GET", "/v1/audit", AuditPage, given(all=all or None, page_size=page_size, cursor=cursor))


def _listed(networks: tuple[str, ...] | None) -> list[str] | None:
    return None if networks is None else list(networks)


# The worker protocol.


def register_worker(registration: Registration) -> Request[Registered]:
    """Register a worker: it gets an id and a lease."""
    return Request("POST", "/v1/workers", Registered, body=registration, repeatable=False)


def claim_runs(worker_id: str, token: str, request: ClaimRequest) -> Request[Dealt]:
    """Claim runs. A repeated claim with the same number returns the same runs."""
    target = path("/v1/workers/{}/claim", worker_id)
    return Request("POST", target, Dealt, body=request, headers=_session(token), timeout=request.wait + _SLACK)


def heartbeat(worker_id: str, token: str, beat: Beat) -> Request[Beaten]:
    """Renew the lease."""
    return Request("POST", path("/v1/workers/{}/heartbeat", worker_id), Beaten, body=beat, headers=_session(token))


def complete_runs(worker_id: str, token: str, reports: Reports) -> Request[Refusals]:
    """Report how attempts ended."""
    return Request("POST", path("/v1/workers/{}/complete", worker_id), Refusals, body=reports, headers=_session(token))


def note_progress(worker_id: str, token: str, notes: Notes) -> Request[Refusals]:
    """Report the progress of running attempts."""
    return Request("POST", path("/v1/workers/{}/note", worker_id), Refusals, body=notes, headers=_session(token))


def hand_back_runs(worker_id: str, token: str, runs: HandBack) -> Request[HandedBack]:
    """Release runs as if they had not been claimed."""
    return Request("POST", path("/v1/workers/{}/hand-back", worker_id), HandedBack, body=runs, headers=_session(token))


def compare_runs(worker_id: str, token: str, held: Compare) -> Request[Unaccounted]:
    """The other runs that the server has under claims of this worker."""
    return Request("POST", path("/v1/workers/{}/compare", worker_id), Unaccounted, body=held, headers=_session(token))


def get_held_parents(worker_id: str, token: str, request: AskParents) -> Request[Parents]:
    """The parents of a run that this worker holds."""
    return Request("POST", path("/v1/workers/{}/parents", worker_id), Parents, body=request, headers=_session(token))


def delete_worker(worker_id: str, token: str) -> Request[Left]:
    """End the lease."""
    return Request("DELETE", path("/v1/workers/{}", worker_id), Left, headers=_session(token), repeatable=False)


def get_held_payload(worker_id: str, token: str, payload_ref: str) -> Request[bytes]:
    """The payload of a run that this worker holds."""
    return Request("GET", path("/v1/workers/{}/payloads/{}", worker_id, payload_ref), bytes, headers=_session(token))


def _session(token: str) -> dict[str, str]:
    """The header of every request of a worker session."""
    return {TOKEN_HEADER: token}


# The server itself.


def livez() -> Request[Health]:
    """Whether the server responds."""
    return Request("GET", "/livez", Health, repeatable=False)


def readyz() -> Request[Health]:
    """Whether the server is ready."""
    return Request("GET", "/readyz", Health, repeatable=False)


def metrics() -> Request[bytes]:
    """The metrics of the server, for Prometheus."""
    return Request("GET", "/metrics", bytes)


def openapi() -> Request[dict[str, Any]]:
    """The OpenAPI document."""
    return Request("GET", "/openapi.json", dict[str, Any])


def get_encryption() -> Request[EncryptionView]:
    """The progress of the last re-encryption, and which keys can be retired."""
    return Request("GET", "/v1/admin/encryption", EncryptionView)


def re_encrypt(*, restart: bool = False, fresh_data_key: bool = False) -> Request[EncryptionView]:
    """Re-encrypt a part of the data with the current key. Repeat until `done`."""
    body = {"restart": restart, "fresh_data_key": fresh_data_key}
    return Request("POST", "/v1/admin/encryption/re-encrypt", EncryptionView, body=body)
