"""Targets: jobs that need no worker of the tenant. An HTTP call, a gRPC call, or a command that the operator allows.

A job with a target is a job like any other: its task has a reserved name, and the target is its arguments. The name
contains the host that is called (`duetime.http/api.example.com`), so every host has its own lanes, and every decision
about a lane (who goes next, who must wait) applies to that host.
"""

import re
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duetime.errors import InvalidInput

RESERVED = "duetime."
HTTP, GRPC, SHELL = "duetime.http", "duetime.grpc", "duetime.shell"
EMAIL = "duetime.email"
"""For notifications only, not for callers."""
TARGET_TASKS = (HTTP, GRPC, SHELL, EMAIL)
_PLACE_LIMIT = 160

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
_SECRET = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z"
SecretName = Annotated[str, Meta(min_length=1, max_length=100, pattern=_SECRET)]


class SecretValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value that references a secret of the tenant; the secret is inserted when it is sent."""

    secret: SecretName
    prefix: Annotated[str, Meta(max_length=200)] = ""
    """The text before it, such as `Bearer `."""


Values = Annotated[dict[str, str | SecretValue], Meta(max_length=64)]
Wait = Annotated[str | float, Meta(description="Seconds, or a duration such as 30m.")]


class _Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    """The encoding that all targets share."""


class HttpTarget(_Target, frozen=True, tag="http", kw_only=True):
    """An HTTP request, signed as defined by Standard Webhooks."""

    url: Annotated[str, Meta(max_length=4096)]
    method: Method = "POST"
    headers: Values = {}
    body: Any | UnsetType = UNSET
    """Text is sent as it is, anything else as JSON."""
    finish_within: Wait | None = None
    """If set, an answer of 202 means that the receiver finishes the run later, within this time, through a completion
    link."""


class GrpcTarget(_Target, frozen=True, tag="grpc", kw_only=True):
    """A unary gRPC call."""

    address: Annotated[str, Meta(max_length=300)]
    """`host:port`."""
    method: Annotated[str, Meta(max_length=300)]
    """`package.Service/Method`."""
    message: dict[str, Any] = {}
    metadata: Values = {}
    tls: bool = True
    descriptors: str | None = None
    """A FileDescriptorSet in base64; without it the server is asked by reflection."""


class ShellTarget(_Target, frozen=True, tag="shell", kw_only=True):
    """A command that the operator allows, by its name."""

    command: Annotated[str, Meta(max_length=100)]
    args: Annotated[dict[str, str | bool | int | float], Meta(max_length=64)] = {}
    """The values for the command's template."""


class EmailTarget(_Target, frozen=True, tag="email", kw_only=True):
    """An email notification."""

    to: str
    subject: str
    text: str


Target = HttpTarget | GrpcTarget | ShellTarget
"""What callers may submit."""
AnyTarget = Target | EmailTarget
"""What can be executed."""
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyTarget] = msgspec.json.Decoder(AnyTarget)


def decode_target(args: bytes) -> AnyTarget:
    """The target in a job's arguments. Raises `msgspec.DecodeError` for what newer code has stored."""
    return _decoder.decode(args)


def plain_target(target: AnyTarget) -> dict[str, Any]:
    """The target as JSON."""
    found: dict[str, Any] = msgspec.to_builtins(target)
    return found


def task_for(kind: str, place: str) -> str:
    """The reserved task of a kind of target and the place that it calls. A place that is too long is truncated, with a
    hash to keep it unique."""
    if len(place) > _PLACE_LIMIT:
        place = f"{place[:_PLACE_LIMIT]}-{blake2b(place.encode(), digest_size=8).hexdigest()}"
    return f"{kind}/{place}"


def kind_of(task: str) -> str:
    """What a worker must provide to run this task: for a target its kind, otherwise the task itself."""
    return task.partition("/")[0] if task.startswith(RESERVED) else task


def is_target(task: str) -> bool:
    return kind_of(task) in TARGET_TASKS


def check_secret_name(name: str) -> str:
    if len(name) > 100 or not re.match(_SECRET, name):
        remedy = "letters, digits and _ . -, at most 100"
        raise InvalidInput(f"{name[:60]!r} is not a name for a secret", field="secret", remedy=remedy)
    return name


def check_not_reserved(task: str, field: str = "task") -> str:
    """Names that begin with `duetime.` are reserved for targets."""
    if task.startswith(RESERVED):
        raise InvalidInput(
            f"{task[:60]!r} begins with {RESERVED!r}, which is reserved", field=field, remedy="use target instead"
        )
    return task
