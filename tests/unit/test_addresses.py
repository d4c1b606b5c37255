"""Addresses of several hosts, in every version of Python."""

from urllib.parse import urlsplit

import pytest

from duetime.settings.addresses import split_address
from duetime.settings.database_hosts import hosts_of, without_hosts


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:pass@one:5432/database?sslmode=require#part",
        "postgresql://one",
        "postgresql:///database?host=one,two",
        "kafka://one,two:9093?tls=true",
        "http://[::1]:80/path",
        "sqlite:///folder/file.db",
        "mailto:someone",
        "",
    ],
)
def test_an_address_is_split_as_by_the_standard_library(address: str) -> None:
    assert split_address(address) == urlsplit(address)


def test_a_host_in_brackets_may_be_one_of_several() -> None:
    parts = split_address("postgresql://user:p%40ss@one,[::1]:5433,[fe80::2]/jobs?target_session_attrs=primary")
    assert (parts.netloc, parts.path, parts.query) == (
        "user:p%40ss@one,[::1]:5433,[fe80::2]",
        "/jobs",
        "target_session_attrs=primary",
    )
    assert str(hosts_of(parts.geturl())) == "one:5432,[::1]:5433,[fe80::2]:5432/jobs"


@pytest.mark.parametrize(
    ("address", "left"),
    [
        (
            "postgresql://user:p%40ss@one,[::1]:5433/jobs?sslmode=require",
            "postgresql://user:p%40ss@/jobs?sslmode=require",
        ),
        ("postgresql://one,two/jobs", "postgresql:///jobs"),
        ("postgresql:///jobs?host=one,two&port=1,2", "postgresql:///jobs?host=one,two&port=1,2"),
    ],
)
def test_the_driver_gets_a_host_and_the_rest_of_the_address(address: str, left: str) -> None:
    assert without_hosts(address) == left
