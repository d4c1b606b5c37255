"""Which brokers duetime may connect to on behalf of a tenant, and what may be published there.

Redis, RabbitMQ and SQS follow the address guard, like any call. A Kafka cluster names the hosts that its clients have
to connect to, which the guard cannot check: the operator lists the clusters that may be used.
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple, assert_never

from duetime.errors import InvalidInput
from duetime.model.target import (
    KAFKA,
    RABBITMQ,
    REDIS,
    SQS,
    AtBroker,
    AtKafka,
    AtRabbit,
    AtRedis,
    AtSqs,
    BrokerTarget,
    RedisTarget,
    SecretValue,
    SqsTarget,
)
from duetime.streams.address import adapter
from duetime.streams.external.protocol import OWN_FIELDS
from duetime.targets.address_guard import AddressGuard
from duetime.targets.url import Place, check_address, check_url
from duetime.targets.values import check_values, encoded_body

_MOST_SERVERS = 20
_REGION = re.compile(r"(?:sqs(?:-fips)?\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?")
_NOT_IN_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class BrokerKind(NamedTuple):
    task: str
    extra: str
    library: str
    module: str


_KINDS: dict[type, BrokerKind] = {
    AtKafka: BrokerKind(KAFKA, "kafka", "confluent_kafka", "duetime.streams.external.kafka"),
    AtRedis: BrokerKind(REDIS, "redis", "redis", "duetime.streams.external.redis"),
    AtSqs: BrokerKind(SQS, "sqs", "botocore", "duetime.streams.external.sqs"),
    AtRabbit: BrokerKind(RABBITMQ, "rabbitmq", "aiormq", "duetime.streams.external.rabbitmq"),
}
BROKER_KINDS = tuple(_KINDS.values())


def kind_of_broker(at: AtBroker) -> BrokerKind:
    return next(kind for base, kind in _KINDS.items() if isinstance(at, base))


async def adapter_of(at: AtBroker) -> Any:
    """The module that speaks to this broker. Raises `InvalidInput` if its client library is not installed."""
    kind = kind_of_broker(at)
    return await adapter(kind.module, kind.extra, "target.type")


class BrokerRules:
    def __init__(self, guard: AddressGuard, clusters: Collection[str]) -> None:
        self.guard = guard
        self._clusters = frozenset(clusters)

    def places(self, at: AtBroker, field: str = "target") -> tuple[Place, ...]:
        """The servers of a broker, after all checks that need no network. Raises `InvalidInput`."""
        match at:
            case AtKafka():
                _check_login(at, field)
                return self._cluster(at, f"{field}.address")
            case AtRedis() | AtRabbit():
                _check_login(at, field)
                return (check_address(at.address, self.guard, f"{field}.address", tls=at.tls),)
            case AtSqs():
                _check_secret(at.secret_access_key, f"{field}.secret_access_key")
                place = check_url(at.queue_url, self.guard, f"{field}.queue_url")
                region_of(at, place, field)
                return (place,)
            case _:
                assert_never(at)

    def check_message(self, target: BrokerTarget) -> None:
        """Raises `InvalidInput` for a message that its broker cannot take."""
        check_values(target.headers, "target.headers")
        if isinstance(target, RedisTarget):
            for name in target.headers:
                if name.lower() in OWN_FIELDS:
                    raise InvalidInput(
                        "is the name of a field that duetime itself writes into the entry",
                        field=f"target.headers.{name}",
                        remedy=f"use target.{name.lower()}",
                    )
        if isinstance(target, SqsTarget):
            text = (encoded_body(target.body) or b"").decode()
            if not text or _NOT_IN_SQS.search(text):
                raise InvalidInput(
                    "is empty, or has characters that SQS does not take", field="target.body", remedy="encode it"
                )
            if target.queue_url.endswith(".fifo") and not target.key:
                raise InvalidInput("a FIFO queue needs a message group", field="target.key", remedy="set key")

    def _cluster(self, at: AtKafka, field: str) -> tuple[Place, ...]:
        servers = at.address.split(",")
        if len(servers) > _MOST_SERVERS:
            raise InvalidInput(f"{len(servers)} servers are too many", field=field, remedy=f"at most {_MOST_SERVERS}")
        found = tuple(check_address(server.strip(), _ANY, field, tls=at.tls) for server in servers)
        for place in found:
            if place.address not in self._clusters:
                raise InvalidInput(
                    f"{place.address} is no Kafka cluster that the operator allows",
                    field=field,
                    remedy="the operator adds it to kafka_clusters (DUETIME_KAFKA_CLUSTERS)",
                )
        return found


_ANY = AddressGuard(("0.0.0.0/0", "::/0"))
"""The operator's list decides."""


def region_of(at: AtSqs, place: Place, field: str = "target") -> str:
    """Raises `InvalidInput` if it is not known."""
    if at.region is not None:
        return at.region
    named = _REGION.fullmatch(place.host)
    if named is None:
        raise InvalidInput("is required", field=f"{field}.region", remedy="its URL does not name one")
    return named[1] or named[2]


def _check_login(at: AtKafka | AtRedis | AtRabbit, field: str) -> None:
    if isinstance(at, AtKafka) and (at.username is None) != (at.password is None):
        missing = "username" if at.username is None else "password"
        raise InvalidInput(
            "`username` and `password` must be given together", field=f"{field}.{missing}", remedy=f"set {missing}"
        )
    if isinstance(at, AtRedis) and at.username is not None and at.password is None:
        raise InvalidInput("a user needs a password", field=f"{field}.password", remedy="set it, or omit username")
    if at.password is not None:
        _check_secret(at.password, f"{field}.password")


def _check_secret(value: SecretValue, field: str) -> None:
    if value.prefix:
        raise InvalidInput("`prefix` is not allowed in a password or key", field=f"{field}.prefix", remedy="remove it")
