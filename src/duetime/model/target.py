"""Targets: jobs without a worker of one's own. An HTTP call, a gRPC call, or a command that the operator allows.

A job with a target is a job like any other: its task has a reserved name, and the target is its arguments. The name
holds the place that is called (`duetime.http/api.example.com`), so that every place has lanes of its own, and whatever
is decided about a lane (who goes next, who has to wait) is decided about that place.
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
"""Not for callers: notifications go by it."""
TARGET_TASKS = (HTTP, GRPC, SHELL, EMAIL)
_PLACE_LIMIT = 160

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
_SECRET = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z"
SecretName = Annotated[str, Meta(min_length=1, max_length=100, pattern=_SECRET)]


class SecretValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value that is a secret of the tenant: named here, and put in when it is sent."""

    secret: SecretName
    prefix: Annotated[str, Meta(max_length=200)] = ""
    """What stands before it, such as `Bearer `."""


Values = Annotated[dict[str, str | SecretValue], Meta(max_length=64)]
Wait = Annotated[str | float, Meta(description="Seconds, or a length such as 30m.")]


class _Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    """What all targets have in common: how they are written."""


class HttpTarget(_Target, frozen=True, tag="http", kw_only=True):
    """An HTTP request, signed as Standard Webhooks says."""

    url: Annotated[str, Meta(max_length=4096)]
    method: Method = "POST"
    headers: Values = {}
    body: Any | UnsetType = UNSET
    """Text is sent as it is, anything else as JSON."""
    finish_within: Wait | None = None
    """With this, an answer of 202 means that the receiver finishes it later, within this time, by a completion link."""


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
    """What the command's template asks for."""


class EmailTarget(_Target, frozen=True, tag="email", kw_only=True):
    """A mail that tells somebody something."""

    to: str
    subject: str
    text: str


Target = HttpTarget | GrpcTarget | ShellTarget
"""What callers may ask for."""
AnyTarget = Target | EmailTarget
"""What can be carried out."""
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyTarget] = msgspec.json.Decoder(AnyTarget)


def decode_target(args: bytes) -> AnyTarget:
    """The target in a job's arguments. Raises `msgspec.DecodeError` for what newer code has stored."""
    return _decoder.decode(args)


def plain_target(target: AnyTarget) -> dict[str, Any]:
    """The target as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(target)
    return found


def task_for(kind: str, place: str) -> str:
    """The reserved task of a kind of target and the place that it calls; a place that is too long is cut, and told
    from others by a hash."""
    if len(place) > _PLACE_LIMIT:
        place = f"{place[:_PLACE_LIMIT]}-{blake2b(place.encode(), digest_size=8).hexdigest()}"
    return f"{kind}/{place}"


def kind_of(task: str) -> str:
    """What a worker must have to run this task: of a target, its kind; of any other, the task itself."""
    return task.partition("/")[0] if task.startswith(RESERVED) else task


def is_target(task: str) -> bool:
    return kind_of(task) in TARGET_TASKS


def check_secret_name(name: str) -> str:
    if len(name) > 100 or not re.match(_SECRET, name):
        remedy = "letters, digits and _ . -, at most 100"
        raise InvalidInput(f"{name[:60]!r} is not a name for a secret", field="secret", remedy=remedy)
    return name


def check_not_reserved(task: str, field: str = "task") -> str:
    """Names that begin with `duetime.` are for targets."""
    if task.startswith(RESERVED):
        raise InvalidInput(
            f"{task[:60]!r} begins with {RESERVED!r}, which is for targets", field=field, remedy="give target instead"
        )
    return task
