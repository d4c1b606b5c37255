"""`tenants`, `keys` and `audit`: for those who run the service."""

from typing import Annotated, Any

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import Talk, Yes, limited, talks
from duetime.errors import InvalidInput

tenants = group("Tenants: list, create, change. Needs a root key.")
keys = group("API keys: list, create, rotate, revoke.")

TenantName = Annotated[str, typer.Argument(metavar="NAME")]
Tier = Annotated[str | None, typer.Option("--tier", help="What it pays for, in your own words.")]
Weight = Annotated[int | None, typer.Option("--weight", help="Its share when workers are short.")]
StoredJobs = Annotated[int | None, typer.Option("--stored-jobs", help="How many jobs it may have stored.")]
RunningRuns = Annotated[int | None, typer.Option("--running-runs", help="How many runs it may have running.")]
MoreLimits = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=NUMBER", help="Any limit by its name, such as calendars=50; none: no limit."),
]
Rate = Annotated[float | None, typer.Option("--submissions-per-second", help="How many jobs a second it may submit.")]
FireRate = Annotated[
    float | None, typer.Option("--fires-per-second", help="How many fires a second its schedules may have.")
]
EncryptArgs = Annotated[bool | None, typer.Option(help="Encrypt what its jobs hold and return.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Its id: key_…")]
ExpiresAt = Annotated[
    str | None,
    typer.Option("--expires-at", help="Until when it works (RFC 3339), or never. Default: as the server says."),
]
ExpiresIn = Annotated[str | None, typer.Option("--expires-in", help="How long it works: 30d, 12h.")]
Networks = Annotated[
    list[str] | None,
    typer.Option("--network", help="Let it work from this network only: 192.0.2.0/24; may be repeated."),
]
Root = Annotated[bool, typer.Option("--root", help="A root key, instead of one of the tenant.")]


@tenants.command("list")
@talks
def list_tenants(talk: Talk) -> None:
    """List the tenants."""
    columns = {
        "tenant": lambda tenant: tenant.name,
        "state": lambda tenant: tenant.state,
        "tier": lambda tenant: tenant.tier,
        "weight": lambda tenant: tenant.weight,
        "stored jobs": lambda tenant: tenant.limits.stored_jobs,
        "running runs": lambda tenant: tenant.limits.running_runs,
        "submissions/s": lambda tenant: tenant.limits.submissions_per_second,
        "fires/s": lambda tenant: tenant.limits.fires_per_second,
    }
    talk.table(talk.client.tenants(), columns)


@tenants.command()
@talks
def show(talk: Talk, name: TenantName) -> None:
    """Show a tenant with all its limits."""
    talk.show(talk.client.get_tenant(name))


@tenants.command()
@talks
def create(
    talk: Talk,
    name: TenantName,
    tier: Tier = None,
    weight: Weight = None,
    stored_jobs: StoredJobs = None,
    running_runs: RunningRuns = None,
    submissions_per_second: Rate = None,
    fires_per_second: FireRate = None,
    limit: MoreLimits = None,
    encrypt_args: EncryptArgs = None,
) -> None:
    """Add a tenant."""
    limits = _limits(
        limit,
        stored_jobs=stored_jobs,
        running_runs=running_runs,
        submissions_per_second=submissions_per_second,
        fires_per_second=fires_per_second,
    )
    talk.show(talk.client.create_tenant(name, tier=tier, weight=weight, limits=limits, encrypt_args=encrypt_args))


@tenants.command()
@talks
def change(
    talk: Talk,
    name: TenantName,
    state: Annotated[str | None, typer.Option("--state", help="ACTIVE or SUSPENDED.")] = None,
    tier: Tier = None,
    weight: Weight = None,
    stored_jobs: StoredJobs = None,
    running_runs: RunningRuns = None,
    submissions_per_second: Rate = None,
    fires_per_second: FireRate = None,
    limit: MoreLimits = None,
    encrypt_args: EncryptArgs = None,
) -> None:
    """Change a tenant. A limit that is not named stays as it is."""
    limits = _limits(
        limit,
        stored_jobs=stored_jobs,
        running_runs=running_runs,
        submissions_per_second=submissions_per_second,
        fires_per_second=fires_per_second,
    )
    changes = {"state": state, "tier": tier, "weight": weight, "limits": limits, "encrypt_args": encrypt_args}
    talk.show(talk.client.change_tenant(name, **changes))


@keys.command("list")
@talks
def list_keys(talk: Talk, root: Root = False) -> None:
    """List the keys of the tenant. Their text is shown once, when they are made."""
    columns = {
        "key id": lambda key: key.key_id,
        "name": lambda key: key.name,
        "role": lambda key: key.role,
        "key": lambda key: key.hint,
        "queues": lambda key: key.queues,
        "networks": lambda key: key.networks,
        "last used": lambda key: key.last_used_at,
        "expires": lambda key: key.expires_at,
        "revoked": lambda key: key.revoked_at,
    }
    talk.table(talk.client.keys(root=root), columns)


@keys.command("create")
@talks
def create_key(
    talk: Talk,
    role: Annotated[str, typer.Argument(help="admin, operator, submitter, viewer, worker or root.")],
    name: Annotated[str, typer.Argument(help="Whose it is, for people.")],
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Bind a worker key to a queue.")] = None,
    expires_at: ExpiresAt = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
) -> None:
    """Make a key. Its text is shown once."""
    expiry = _expiry(talk, expires_at, expires_in)
    talk.show(
        talk.client.create_key(role, name, queues=tuple(queue or ()), expires_at=expiry, networks=_networks(network))
    )


@keys.command()
@talks
def rotate(
    talk: Talk,
    key_id: KeyId,
    overlap: Annotated[str | None, typer.Option("--overlap", help="How long the old one works on.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for the new one.")] = None,
    expires_at: ExpiresAt = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
    root: Root = False,
) -> None:
    """Make a key that takes the place of another."""
    expiry = _expiry(talk, expires_at, expires_in)
    talk.show(
        talk.client.rotate_key(
            key_id, overlap=overlap, name=name, expires_at=expiry, networks=_networks(network), root=root
        )
    )


@keys.command()
@talks
def revoke(talk: Talk, key_id: KeyId, root: Root = False, yes: Yes = False) -> None:
    """It cannot be used any more."""
    if talk.asks(yes=yes):
        names = [key.name for key in talk.client.keys(root=root) if key.key_id == key_id]
        whose = f" of {names[0]!r}" if names else ""
        talk.agree(f"Revoke {key_id}{whose}? Whoever uses it is refused from then on.")
    talk.show(talk.client.revoke_key(key_id, root=root))


@talks
def audit(
    talk: Talk,
    all: Annotated[bool, typer.Option("--all", help="Of all tenants, with a root key.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to show at most.")] = 50,
) -> None:
    """List who did what to which object, newest first."""
    columns = {
        "at": lambda entry: entry.at,
        "who": lambda entry: entry.actor,
        "did": lambda entry: entry.action,
        "to": lambda entry: entry.object,
        "detail": lambda entry: entry.detail,
        "key id": lambda entry: entry.key_id,
    }
    talk.table(limited(talk.client.audit(all=all, page_size=min(limit, 200)), limit), columns)


def _expiry(talk: Talk, at: str | None, length: str | None) -> str | None:
    if at is not None and length is not None:
        raise typer.BadParameter("give it, or --expires-in", param_hint="--expires-at")
    if length is None:
        return at
    from duetime.spec.kinds import read_duration

    # By the server's clock, which is the one that ends the key.
    return (talk.client.get_me().now + read_duration(length, "--expires-in")).isoformat()


def _networks(given: list[str] | None) -> tuple[str, ...] | None:
    return tuple(given) if given else None


def _limits(more: list[str] | None, **limits: float | None) -> dict[str, Any] | None:
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    for text in more or ():
        name, _, value = text.partition("=")
        try:
            given[name] = None if value == "none" else float(value) if "." in value else int(value)
        except ValueError:
            raise InvalidInput(
                f"{text!r} is not a limit", field="--limit", remedy="such as calendars=50 or calendars=none"
            ) from None
    return given or None
