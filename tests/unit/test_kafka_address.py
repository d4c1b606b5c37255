"""Addresses of Kafka clusters."""

import pytest

from duetime.errors import InvalidInput
from duetime.streams.kafka_address import parse


def test_the_parts_of_an_address() -> None:
    plain = parse("kafka://one,two:9093,[::1]:9094")
    assert plain.client == {"bootstrap.servers": "one:9092,two:9093,[::1]:9094", "security.protocol": "plaintext"}
    assert (plain.partitions, plain.accept_retention, plain.accept_replication) == (12, False, False)
    secured = parse("kafka://me:p%40ss@host/?tls=true&ca=/etc/ca.pem&partitions=3&accept_retention=true")
    assert secured.client == {
        "bootstrap.servers": "host:9092",
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": "/etc/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "p@ss",
    }
    assert (secured.partitions, secured.accept_retention, secured.accept_replication) == (3, True, False)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kafka://", "not an address"),
        ("kafka://host:port", "not an address"),
        ("kafka://host:0", "not an address"),
        ("kafka://one,,two", "not an address"),
        ("kafka://[::1", "not an address"),
        ("kafka://host/topic", "no path"),
        ("kafka://host?partition=3", "'partition'"),
        ("kafka://host?partitions=0", "partitions '0'"),
        ("kafka://host?partitions=x", "partitions 'x'"),
        ("kafka://host?largest=12", "largest '12'"),
        ("kafka://host?tls=yes", "tls 'yes'"),
        ("kafka://host?ca=/ca.pem", "`ca` needs `tls`"),
        ("kafka://host?mechanism=PLAIN", "user and a password"),
        ("kafka://me:secret-word@host?mechanism=MD5", "'MD5'"),
        ("kafka://me@host", "user and a password"),
    ],
)
def test_what_is_not_an_address_is_refused_with_its_remedy(address: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        parse(address)
    assert refused.value.field == "stream"
    assert refused.value.remedy
    assert "secret-word" not in str(refused.value)
