"""The address of a Kafka cluster: `kafka://[user:password@]host:port[,host:port…][?option=value…]`."""

from typing import NamedTuple
from urllib.parse import unquote

from duetime.settings.addresses import split_address
from duetime.streams.address import flag_of, invalid, known_options
from duetime.streams.sizes import largest_of

_PORT = 9092
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_MOST_PARTITIONS = 1000
_LARGEST = 1_000_000
_OPTIONS = ("partitions", "largest", "tls", "ca", "mechanism", "accept_retention", "accept_replication")


class KafkaAddress(NamedTuple):
    client: dict[str, str]
    """The part of the client's configuration that concerns the connection."""
    partitions: int
    """Of a topic that is created."""
    largest: int
    """Bytes of a message."""
    accept_retention: bool
    """Whether Kafka may delete messages that no worker has taken in time."""
    accept_replication: bool
    """Whether the loss of one broker may lose messages."""


def parse(address: str) -> KafkaAddress:
    """Raises `InvalidInput`."""
    try:
        parts = split_address(address)
        login, _, hosts = parts.netloc.rpartition("@")
        servers = [_server(host) for host in hosts.split(",")]
    except ValueError:
        raise invalid("this is not an address of Kafka", "such as kafka://host1:9092,host2:9092") from None
    if parts.path not in ("", "/"):
        raise invalid("Kafka's address has no path", "such as kafka://host1:9092,host2:9092")
    options = known_options(address, _OPTIONS)
    tls = flag_of(options, "tls")
    client = {"bootstrap.servers": ",".join(servers), "security.protocol": "ssl" if tls else "plaintext"}
    if "ca" in options:
        if not tls:
            raise invalid("`ca` needs `tls`", "add tls=true")
        client["ssl.ca.location"] = options["ca"]
    mechanism = options.get("mechanism", _MECHANISMS[0] if login else None)
    if mechanism is not None:
        if mechanism not in _MECHANISMS:
            raise invalid(f"{mechanism[:40]!r} is no known mechanism", f"use {', '.join(_MECHANISMS)}")
        user, _, password = login.partition(":")
        if not user or not password:
            raise invalid("a mechanism needs a user and a password", "kafka://user:password@host:9092")
        client |= {
            "security.protocol": "sasl_ssl" if tls else "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": unquote(user),
            "sasl.password": unquote(password),
        }
    return KafkaAddress(
        client,
        _partitions(options),
        largest_of(options, _LARGEST),
        flag_of(options, "accept_retention"),
        flag_of(options, "accept_replication"),
    )


def _server(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(_PORT)
    if (
        not host
        or (host[0] == "[") != (host[-1] == "]")
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 65536
    ):
        raise ValueError
    return f"{host}:{port}"


def _partitions(options: dict[str, str]) -> int:
    given = options.get("partitions", "12")
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= _MOST_PARTITIONS:
        raise invalid(f"partitions {given[:40]!r} is not valid", f"an integer between 1 and {_MOST_PARTITIONS}")
    return int(given)
