"""Targets: jobs that need no worker of the tenant. An HTTP call, a gRPC call, a message to a broker, a command that the
operator allows, or an image that Kubernetes runs.

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
KAFKA, REDIS, SQS, RABBITMQ = "duetime.kafka", "duetime.redis", "duetime.sqs", "duetime.rabbitmq"
BROKERS = (KAFKA, REDIS, SQS, RABBITMQ)
KUBERNETES = "duetime.kubernetes"
EMAIL = "duetime.email"
"""For notifications only, not for callers."""
TARGET_TASKS = (HTTP, GRPC, SHELL, *BROKERS, KUBERNETES, EMAIL)
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
UserName = Annotated[str, Meta(min_length=1, max_length=200)]
Region = Annotated[str, Meta(max_length=40, pattern=r"^[a-z0-9\-]+\Z")]
MessageKey = Annotated[str, Meta(max_length=1000)]
Wait = Annotated[str | float, Meta(description="Seconds, or a duration such as 30m.")]


class _Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    """The encoding that all targets share."""


class AwsSignature(_Target, frozen=True, tag="aws_sigv4", kw_only=True):
    """Sign the request for AWS (Signature Version 4): with an access key of the tenant, or without one as the service
    itself, where the operator allows it (`cloud_access`)."""

    service: Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[a-z0-9\-]+\Z")]
    """The service's name in signatures, such as `lambda` or `states`."""
    region: Region
    access_key_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    secret_access_key: SecretValue | None = None
    role: (
        Annotated[str, Meta(max_length=2048, pattern=r"^arn:aws[a-z\-]*:iam::[0-9]{12}:role/[\w+=,.@/\-]+\Z")] | None
    ) = None
    """The role to assume first."""
    external_id: Annotated[str, Meta(min_length=2, max_length=1224)] | None = None
    """What the role's trust policy may ask for. Only with an access key of the tenant."""


class IdentityToken(_Target, frozen=True, tag="oidc_identity", kw_only=True):
    """Send an OIDC identity token of a Google service account, as Cloud Run and similar services expect it: with a key
    of the tenant, or without one as the service itself, where the operator allows it (`cloud_access`)."""

    audience: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    """Who the token is for. Default: the scheme and host of the URL."""
    key: SecretValue | None = None
    """The JSON key of a service account."""
    token_url: Annotated[str, Meta(max_length=4096)] = "https://oauth2.googleapis.com/token"
    """Where the key is exchanged for a token."""


class ClientCredentials(_Target, frozen=True, tag="oauth2", kw_only=True):
    """Send an access token of any OAuth 2 provider, obtained with the grant `client_credentials`."""

    token_url: Annotated[str, Meta(max_length=4096)]
    client_id: Annotated[str, Meta(min_length=1, max_length=1000)]
    client_secret: SecretValue
    scope: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    audience: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    """For providers that ask for one."""
    login: Literal["basic", "post"] = "basic"
    """Where the client's id and secret go: the `Authorization` header, or the form."""


Auth = AwsSignature | IdentityToken | ClientCredentials


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
    auth: Auth | None = None
    """Credentials that are obtained for each call: a signature, or a token."""


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


_QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i|e[0-9]{1,2})?\Z"
_DNS = r"^[a-z0-9]([a-z0-9.\-]*[a-z0-9])?\Z"
_LABEL_NAME = r"^([a-z0-9]([a-z0-9.\-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.\-]{0,61}[A-Za-z0-9])?\Z"
_LABEL_TEXT = r"^([A-Za-z0-9]([A-Za-z0-9_.\-]{0,61}[A-Za-z0-9])?)?\Z"
KubeName = Annotated[str, Meta(min_length=1, max_length=253, pattern=_DNS)]
KubeLabel = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9\-]*[a-z0-9])?\Z")]
LabelName = Annotated[str, Meta(max_length=317, pattern=_LABEL_NAME)]
LabelText = Annotated[str, Meta(max_length=63, pattern=_LABEL_TEXT)]
Quantities = Annotated[
    dict[
        Annotated[str, Meta(max_length=317, pattern=_LABEL_NAME)],
        Annotated[str, Meta(max_length=40, pattern=_QUANTITY)],
    ],
    Meta(max_length=16),
]
Words = Annotated[tuple[Annotated[str, Meta(max_length=32_768)], ...], Meta(max_length=256)]
Labels = Annotated[dict[LabelName, LabelText], Meta(max_length=32)]


class Toleration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A taint of nodes that a pod tolerates."""

    key: LabelName | None = None
    """None: every taint."""
    value: LabelText | None = None
    """None: whatever its value is."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class KubernetesTarget(_Target, frozen=True, tag="kubernetes", kw_only=True):
    """An image that runs as a Job of Kubernetes, in a namespace that the operator allows (`cloud_access`)."""

    image: Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-/:@]*\Z")]
    namespace: KubeLabel
    cluster: KubeLabel = "default"
    """The name of the cluster in the operator's file."""
    command: Words = ()
    """Replaces the image's entry point."""
    args: Words = ()
    env: Annotated[dict[Annotated[str, Meta(max_length=200)], str | SecretValue], Meta(max_length=256)] = {}
    working_dir: Annotated[str, Meta(max_length=1000, pattern=r"^/")] | None = None
    requests: Quantities = {}
    """Resources that the container gets: `{"cpu": "500m", "memory": "1Gi"}`."""
    limits: Quantities = {}
    """Resources that the container may not exceed."""
    service_account: KubeName | None = None
    """Without one, the pod gets no token of the cluster."""
    node_selector: Labels = {}
    tolerations: Annotated[tuple[Toleration, ...], Meta(max_length=32)] = ()
    priority_class: KubeName | None = None
    image_pull_secrets: Annotated[tuple[KubeName, ...], Meta(max_length=16)] = ()
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    labels: Labels = {}
    """Labels of the Job and its pod."""
    restricted: bool = False
    """Run as the `restricted` policy of Kubernetes asks: not as root, without capabilities."""
    start_within: Wait = "10m"
    """How long the container may take to start: a node, the image."""
    ttl: Wait = "1h"
    """How long the cluster keeps the Job after its end."""


class AtKafka(_Target, frozen=True, kw_only=True):
    """A Kafka cluster, and one of its topics."""

    address: Annotated[str, Meta(max_length=2000)]
    """`host:port`, or several with commas between them. The operator must have listed them (`kafka_clusters`)."""
    topic: Annotated[str, Meta(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._\-]+\Z")]
    tls: bool = True
    username: UserName | None = None
    password: SecretValue | None = None
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"


class AtRedis(_Target, frozen=True, kw_only=True):
    """A Redis server, and one of its streams."""

    address: Annotated[str, Meta(max_length=300)]
    """`host:port`."""
    stream: Annotated[str, Meta(min_length=1, max_length=1000)]
    database: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    tls: bool = True
    username: UserName | None = None
    password: SecretValue | None = None


class AtSqs(_Target, frozen=True, kw_only=True):
    """A queue of SQS."""

    queue_url: Annotated[str, Meta(max_length=1000)]
    region: Region | None = None
    """If the URL does not name it."""
    access_key_id: Annotated[str, Meta(min_length=1, max_length=200)]
    secret_access_key: SecretValue


class AtRabbit(_Target, frozen=True, kw_only=True):
    """A RabbitMQ server, and one of its virtual hosts."""

    address: Annotated[str, Meta(max_length=300)]
    """`host:port`."""
    vhost: Annotated[str, Meta(max_length=200)] = "/"
    tls: bool = True
    username: UserName = "guest"
    password: SecretValue | None = None


AtBroker = AtKafka | AtRedis | AtSqs | AtRabbit
"""What a message goes to, or comes from."""


class KafkaTarget(AtKafka, frozen=True, tag="kafka", kw_only=True):
    """A message to a topic of Kafka."""

    key: MessageKey | None = None
    """Messages with the same key go to the same partition."""
    headers: Values = {}
    body: Any | UnsetType = UNSET
    """Text is sent as it is, anything else as JSON; without one, the message is a tombstone."""


class RedisTarget(AtRedis, frozen=True, tag="redis", kw_only=True):
    """An entry of a Redis stream. Its fields are the headers, `key` and `body`."""

    key: MessageKey | None = None
    headers: Values = {}
    body: Any | UnsetType = UNSET
    """Text is sent as it is, anything else as JSON."""
    max_length: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """If set, Redis removes the oldest entries beyond about so many."""


class SqsTarget(AtSqs, frozen=True, tag="sqs", kw_only=True):
    """A message to a queue of SQS."""

    key: MessageKey | None = None
    """The message group. A FIFO queue needs one, and takes a run's message once within five minutes."""
    headers: Annotated[dict[str, str | SecretValue], Meta(max_length=5)] = {}
    """Sent as message attributes. SQS allows ten, of which duetime needs five."""
    body: Any
    """Text is sent as it is, anything else as JSON."""


class RabbitTarget(AtRabbit, frozen=True, tag="rabbitmq", kw_only=True):
    """A message to an exchange of RabbitMQ."""

    exchange: Annotated[str, Meta(max_length=200)] = ""
    """Without one, the routing key names a queue."""
    routing_key: Annotated[str, Meta(max_length=255)]
    headers: Values = {}
    body: Any | UnsetType = UNSET
    """Text is sent as it is, anything else as JSON."""


class EmailTarget(_Target, frozen=True, tag="email", kw_only=True):
    """An email notification."""

    to: str
    subject: str
    text: str


BrokerTarget = KafkaTarget | RedisTarget | SqsTarget | RabbitTarget
Target = HttpTarget | GrpcTarget | ShellTarget | BrokerTarget | KubernetesTarget
"""What callers may submit."""
AnyTarget = Target | EmailTarget
"""What can be executed."""
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
