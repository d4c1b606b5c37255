"""`tenants`, `keys` and `audit`: for operators of the service."""

from collections.abc import Mapping
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer
from rich.progress import Progress

from duetime.cli import completion
from duetime.cli.groups import group
from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, Yes, limited, list_command, server_command
from duetime.errors import InvalidInput
from duetime.spec.derived import OF_TENANTS
from duetime.spec.options import TenantOptions

if TYPE_CHECKING:
    from duetime.wire.erasures import ErasureView

_POLL = 0.5

tenants = group("Tenants: list, create, change, delete; their default options. Needs a root key.")
keys = group("API keys: list, create, rotate, revoke.")

TenantName = Annotated[str, typer.Argument(metavar="NAME")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id: key_…")]
ExpiresAt = Annotated[
    str | None,
    typer.Option("--expires-at", help="When the key expires (RFC 3339), or never. Default: the server's key_lifetime."),
]
ExpiresIn = Annotated[str | None, typer.Option("--expires-in", help="After how long the key expires: 30d, 12h.")]
Networks = Annotated[
    list[str] | None,
    typer.Option("--network", help="Accept the key only from this network: 192.0.2.0/24. May be repeated."),
]
Root = Annotated[bool, typer.Option("--root", help="A root key instead of a tenant's key.")]


class Limits(TypedDict):
    """The limits of a tenant that have a flag."""

    stored_jobs: Annotated[int | None, typer.Option("--stored-jobs", help="Maximum number of stored jobs.")]
    running_runs: Annotated[int | None, typer.Option("--running-runs", help="Maximum number of running runs.")]
    submissions_per_second: Annotated[
        float | None, typer.Option("--submissions-per-second", help="Maximum submissions per second.")
    ]
    fires_per_second: Annotated[
        float | None, typer.Option("--fires-per-second", help="Maximum fires per second of its schedules.")
    ]


class TenantFields(Limits):
    """What can be set when a tenant is created, and changed later."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=NUMBER", help="Any limit by name, such as calendars=50 or calendars=none."
        ),
    ]
    tier: Annotated[str | None, typer.Option("--tier", help="A label of yours for its plan.")]
    weight: Annotated[int | None, typer.Option("--weight", help="Its share when slots are scarce.")]
    encrypt_args: Annotated[bool | None, typer.Option(help="Encrypt the arguments and results of its jobs.")]


@tenants.command("list")
@list_command
def list_tenants(command: ServerCommand) -> None:
    """List the tenants."""
    command.table(
        command.client.tenants(),
        "tenant=name state tier weight stored_jobs=limits.stored_jobs running_runs=limits.running_runs"
        " submissions/s=limits.submissions_per_second fires/s=limits.fires_per_second",
        "no tenants. Create one: duetime tenants create NAME",
    )


@tenants.command()
@server_command
def show(command: ServerCommand, name: TenantName) -> None:
    """Show a tenant with all its limits."""
    command.show(command.client.get_tenant(name))


@tenants.command()
@server_command
def create(command: ServerCommand, name: TenantName, **fields: Unpack[TenantFields]) -> None:
    """Create a tenant."""
    command.show(command.client.create_tenant(name, **_with_limits(fields)))


@tenants.command()
@server_command
def change(
    command: ServerCommand,
    name: TenantName,
    state: Annotated[str | None, typer.Option("--state", help="ACTIVE or SUSPENDED.")] = None,
    **fields: Unpack[TenantFields],
) -> None:
    """Change a tenant. Limits that are not given stay unchanged."""
    command.show(command.client.change_tenant(name, state=state, **_with_limits(fields)))


@tenants.command()
@server_command
def defaults(
    command: ServerCommand,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help="Remove the default of an option: timeout. May be repeated."),
    ] = None,
    **options: Unpack[TenantOptions],
) -> None:
    """Show the options that the tenant's jobs get by default, or change those that are given.

    Needs an admin's key, or a root key and --tenant. Stored jobs keep their options.
    """
    changes: dict[str, Any] = {**options, **_removed(without, options)}
    command.show(command.client.change_defaults(**changes) if changes else command.client.get_defaults())


def _removed(names: list[str] | None, given: Mapping[str, Any]) -> dict[str, None]:
    by_flag = {each.flag.removeprefix("--"): each.name for each in OF_TENANTS.values()}
    found: dict[str, None] = {}
    for name in names or ():
        option = by_flag.get(name, name)
        if option not in OF_TENANTS or option in given:
            problem = "is also given" if option in given else "is not an option with a default"
            raise InvalidInput(f"{name!r} {problem}", field="without", remedy=f"one of {', '.join(by_flag)}")
        found[option] = None
    return found


@tenants.command()
@server_command
def delete(
    command: ServerCommand,
    name: TenantName,
    grace: Annotated[
        str | None,
        typer.Option("--grace", help="For how long the deletion can be taken back: 7d. Default: 0."),
    ] = None,
    confirm: Annotated[
        str | None, typer.Option("--confirm", metavar="NAME", help="The name once more, instead of being asked for it.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is erased.")] = False,
) -> None:
    """Delete a tenant: all its jobs, runs, logs, keys, secrets, archived files and audit entries.

    Running runs are cancelled first. What is left is the tenant's number and how much was removed.
    """
    if confirm is None:
        confirm = typer.prompt(f"Everything of the tenant {name} will be erased. Its name, to confirm", err=True)
    found = command.client.delete_tenant(name, confirm=confirm, grace=grace)
    if wait:
        found = _erased(command, found)
    command.show(found)


@tenants.command()
@server_command
def undelete(command: ServerCommand, name: TenantName) -> None:
    """Take back the deletion of a tenant, while it has not begun."""
    command.show(command.client.undelete_tenant(name))


@tenants.command()
@list_command
def erasures(
    command: ServerCommand,
    name: Annotated[str | None, typer.Option("--name", help="Only tenants that had this name.")] = None,
) -> None:
    """List the tenants that are to be erased, are being erased, or were."""
    command.table(
        command.client.erasures(name=name),
        "number tenant status requested=requested_at by=requested_by erase_at finished=finished_at removed problem",
        "no tenant was deleted",
        removed=lambda each: sum(each.removed.values()),
    )


@tenants.command()
@server_command
def erasure(command: ServerCommand, number: Annotated[int, typer.Argument(help="The tenant's number.")]) -> None:
    """Show how far the erasure of a tenant is, and what was removed."""
    command.show(command.client.get_erasure(number))


def _erased(command: ServerCommand, found: "ErasureView") -> "ErasureView":
    with Progress(console=err, transient=True, disable=command.json) as progress:
        under_way = progress.add_task("erasing", total=None)
        while found.status != "DONE":
            progress.update(under_way, completed=sum(found.removed.values()))
            sleep(_POLL)
            found = command.client.get_erasure(found.number)
    return found


@keys.command("list")
@list_command
def list_keys(command: ServerCommand, root: Root = False) -> None:
    """List the keys of the tenant. The text of a key is shown once, when it is created."""
    command.table(
        command.client.keys(root=root),
        "key_id name role key=hint owner tag queues networks last_used=last_used_at expires=expires_at"
        " revoked=revoked_at",
        "no keys. Create one: duetime keys create ROLE NAME",
    )


@keys.command("create")
@server_command
def create_key(
    command: ServerCommand,
    role: Annotated[
        str, typer.Argument(help="admin, operator, submitter, viewer, worker or root.", autocompletion=completion.role)
    ],
    name: Annotated[str, typer.Argument(help="A name for the key, such as its owner.")],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Bind the key to a queue; a worker key to several.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only jobs of this owner.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")] = None,
    expires_at: ExpiresAt = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
) -> None:
    """Create a key. Its text is shown once."""
    expiry = _expiry(command, expires_at, expires_in)
    bounds: dict[str, Any] = {"queues": tuple(queue or ()), "owner": owner, "tag": tag, "networks": _networks(network)}
    command.show(command.client.create_key(role, name, expires_at=expiry, **bounds))


@keys.command()
@server_command
def rotate(
    command: ServerCommand,
    key_id: KeyId,
    overlap: Annotated[str | None, typer.Option("--overlap", help="How long the old key stays valid.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for the new key.")] = None,
    expires_at: ExpiresAt = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
    root: Root = False,
) -> None:
    """Create a key that replaces another one."""
    expiry = _expiry(command, expires_at, expires_in)
    command.show(
        command.client.rotate_key(
            key_id, overlap=overlap, name=name, expires_at=expiry, networks=_networks(network), root=root
        )
    )


@keys.command()
@server_command
def revoke(command: ServerCommand, key_id: KeyId, root: Root = False, yes: Yes = False) -> None:
    """Revoke a key. It is refused from then on."""
    if command.must_confirm(yes=yes):
        names = [key.name for key in command.client.keys(root=root) if key.key_id == key_id]
        whose = f" of {names[0]!r}" if names else ""
        command.confirm(f"Revoke {key_id}{whose}? Its requests are refused from then on.")
    command.show(command.client.revoke_key(key_id, root=root))


@list_command
def audit(
    command: ServerCommand,
    all: Annotated[bool, typer.Option("--all", help="Show all tenants; requires a root key.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of entries.")] = 50,
) -> None:
    """List who did what to which object, newest first."""
    command.table(
        limited(command.client.audit(all=all, page_size=min(limit, 200)), limit),
        "at who=actor did=action to=object detail key_id",
        "nothing was changed yet",
    )


def _expiry(command: ServerCommand, at: str | None, length: str | None) -> str | None:
    if at is not None and length is not None:
        raise typer.BadParameter("give --expires-at or --expires-in, not both", param_hint="--expires-at")
    if length is None:
        return at
    from duetime.spec.kinds import read_duration

    # The server's clock decides when the key expires.
    return (command.client.get_me().now + read_duration(length, "--expires-in")).isoformat()


def _networks(given: list[str] | None) -> tuple[str, ...] | None:
    return tuple(given) if given else None


def _with_limits(fields: TenantFields) -> dict[str, Any]:
    """The fields of a request: all limits are one of them."""
    rest: dict[str, Any] = {**fields}
    more = rest.pop("limit")
    limits = {name: value for name in Limits.__annotations__ if (value := rest.pop(name)) is not None}
    for text in more or ():
        name, _, value = text.partition("=")
        try:
            limits[name] = None if value == "none" else float(value) if "." in value else int(value)
        except ValueError:
            raise InvalidInput(
                f"{text!r} is not a limit", field="--limit", remedy="such as calendars=50 or calendars=none"
            ) from None
    return rest | {"limits": limits or None}
