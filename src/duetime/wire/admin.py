"""Requests and answers about tenants, keys and the audit log."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.network import MOST_NETWORKS
from duetime.spec.derived import OF_TENANTS, patch_struct, request_struct
from duetime.spec.fields import Length, Name, Request, Text
from duetime.wire.fields import PageQuery
from duetime.wire.sso import UserView

RoleName = Literal["root", "admin", "operator", "submitter", "viewer", "worker"]
TenantName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@\-]*\Z")]
Tier = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")]
Weight = Annotated[int, Meta(ge=1, le=10_000)]


Most = Annotated[int, Meta(ge=0, le=2**40)]
MostBytes = Annotated[int, Meta(ge=0, le=2**53)]


class LimitsBody(Request, frozen=True):
    """The limits of a tenant; null: no limit. An omitted limit gets its default when the tenant is created, and stays
    unchanged when the tenant is changed."""

    stored_jobs: Most | UnsetType | None = UNSET
    running_runs: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    submissions_per_second: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType | None = UNSET
    fires_per_second: Annotated[float, Meta(ge=0.001, le=1e9)] | UnsetType | None = UNSET
    """Fires of its schedules per second. Fires above the limit are delayed, in order."""
    stored_bytes: MostBytes | UnsetType | None = UNSET
    idempotency_keys: Most | UnsetType | None = UNSET
    graphs: Most | UnsetType | None = UNSET
    payloads: Most | UnsetType | None = UNSET
    payload_bytes: MostBytes | UnsetType | None = UNSET
    calendars: Most | UnsetType | None = UNSET
    queues: Most | UnsetType | None = UNSET
    subscriptions: Most | UnsetType | None = UNSET
    sources: Most | UnsetType | None = UNSET
    issuers: Most | UnsetType | None = UNSET
    bulk_actions: Most | UnsetType | None = UNSET
    alerts: Most | UnsetType | None = UNSET
    checkins: Most | UnsetType | None = UNSET
    secrets: Most | UnsetType | None = UNSET
    signing_secrets: Most | UnsetType | None = UNSET
    api_keys: Most | UnsetType | None = UNSET
    workers: Most | UnsetType | None = UNSET
    worker_tasks: Most | UnsetType | None = UNSET
    tasks: Most | UnsetType | None = UNSET
    history_days: Annotated[int, Meta(ge=1, le=36_525)] | UnsetType | None = UNSET
    """Days for which the database keeps its history; null: as the setting says."""
    archive_days: Annotated[int, Meta(ge=0, le=36_525)] | UnsetType | None = UNSET
    """Days for which the archive keeps its history; 0: it is not archived; null: as the setting says."""


class _Given(Request, frozen=True, omit_defaults=True):
    """Options that were given: what is not there is not given."""


if TYPE_CHECKING:

    class TenantDefaults(_Given, frozen=True):
        def __getattr__(self, name: str) -> Any: ...

    class DefaultsPatch(Request, frozen=True):
        def __getattr__(self, name: str) -> Any: ...
else:
    TenantDefaults = request_struct(
        *("TenantDefaults", OF_TENANTS.values(), _Given),
        doc="Options that jobs of the tenant get unless their task or their submission gives others.",
    )
    DefaultsPatch = patch_struct(
        *("DefaultsPatch", OF_TENANTS.values(), Request),
        doc="Default options to change; null removes one.",
        all_removable=True,
    )


class TenantRequest(Request, frozen=True):
    name: TenantName
    tier: Tier = "standard"
    weight: Weight = 100
    limits: LimitsBody = LimitsBody()
    encrypt_args: bool = False


class TenantPatch(Request, frozen=True):
    """What to change. An omitted limit stays unchanged."""

    name: TenantName | UnsetType = UNSET
    state: Literal["ACTIVE", "SUSPENDED"] | UnsetType = UNSET
    tier: Tier | UnsetType = UNSET
    weight: Weight | UnsetType = UNSET
    limits: LimitsBody | UnsetType = UNSET
    encrypt_args: bool | UnsetType = UNSET


class TenantView(Struct, frozen=True, kw_only=True):
    number: int
    """Never used for another tenant."""
    name: str
    state: Literal["ACTIVE", "SUSPENDED", "DELETING"]
    tier: str
    weight: int
    limits: LimitsBody
    encrypt_args: bool
    defaults: TenantDefaults
    created_at: datetime


class TenantPage(Struct, frozen=True):
    items: tuple[TenantView, ...]
    next_cursor: str | None


Expiry = Annotated[
    str,
    Meta(
        max_length=64,
        description="RFC 3339 with an offset, or `never`. Default: `key_lifetime` from now. It cannot be"
        " later than the expiry of the requesting key.",
    ),
]
Networks = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
    Meta(
        max_length=MOST_NETWORKS,
        description="The networks from which the key is accepted, such as 192.0.2.0/24 or 2001:db8::/32; an empty list:"
        " all. They must lie within those of the requesting key.",
    ),
]


class KeyRequest(Request, frozen=True):
    role: RoleName
    name: Text
    queues: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=100,
            description="The queues that a worker's key is bound to. For an operator, submitter or viewer: the queue"
            " whose jobs alone it may see and control.",
        ),
    ] = ()
    owner: Annotated[Text, Meta(description="The owner whose jobs alone the key may see and control.")] | None = None
    tag: Annotated[Name, Meta(description="The tag of the jobs that the key may see and control.")] | None = None
    expires_at: Expiry | None = None
    networks: Networks | None = None


class KeyQuery(PageQuery, frozen=True):
    root: Annotated[bool, Meta(description="List root keys instead of the tenant's. Requires a root key.")] = False


class RootQuery(Request, frozen=True):
    root: Annotated[bool, Meta(description="A root key instead of a tenant's key. Requires a root key.")] = False


class RotateRequest(Request, frozen=True):
    overlap: Annotated[Length, Meta(description="How long the old key stays valid. Default: a day.")] = 86_400.0
    name: Annotated[Text, Meta(description="Default: that of the old key.")] | None = None
    expires_at: Expiry | None = None
    networks: Annotated[Networks, Meta(description="Default: those of the old key.")] | None = None


class KeyView(Struct, frozen=True, kw_only=True):
    key_id: str
    role: RoleName
    name: str
    hint: str
    """The first and last characters of its text."""
    queues: tuple[str, ...]
    owner: str | None = None
    tag: str | None = None
    networks: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Precise to about a minute."""


class KeyCreated(KeyView, frozen=True, kw_only=True):
    key: str
    """The text of the key. It is not shown again."""


class KeyPage(Struct, frozen=True):
    items: tuple[KeyView, ...]
    next_cursor: str | None


SessionsOf = Literal["key", "tenant", "all"]


class SessionQuery(PageQuery, frozen=True):
    of: Annotated[
        SessionsOf,
        Meta(
            description="Sessions of this key or person, of all keys and people of the tenant (admins), or of all"
            " tenants (root keys)."
        ),
    ] = "key"


class SessionView(Struct, frozen=True, kw_only=True):
    session_id: str
    key_id: str | None
    """Null for a person."""
    key_name: str
    """The name of the key, or of the person."""
    role: RoleName | None
    """Of a person: in the tenant of the caller; for a root key, in the first one. Null if they have none any more."""
    tenant: str | None
    """Null for a root key."""
    user: UserView | None
    """The person; null for a key."""
    address: str
    """The address that it was created from."""
    user_agent: str
    """The browser's own claim about itself."""
    created_at: datetime
    last_seen_at: datetime
    """Precise to about a minute."""
    expires_at: datetime
    """When it ends unless it is used."""
    ends_at: datetime
    """When it ends at the latest."""
    current: bool
    """Whether it is the requesting session."""


class SessionPage(Struct, frozen=True):
    items: tuple[SessionView, ...]
    next_cursor: str | None


class LoginLink(Struct, frozen=True, kw_only=True):
    token: str
    path: str
    """The part after the server's URL."""
    expires_at: datetime


class AuditQuery(PageQuery, frozen=True):
    all: Annotated[bool, Meta(description="All tenants. Requires a root key.")] = False


class AuditView(Struct, frozen=True, kw_only=True):
    at: datetime
    key_id: str | None
    actor: str
    """The name of the acting key at that time, or the person: address, issuer and subject."""
    action: str
    object: str
    detail: str | None


class AuditPage(Struct, frozen=True):
    items: tuple[AuditView, ...]
    next_cursor: str | None
