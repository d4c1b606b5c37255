"""Where a request comes from, behind proxies and without."""

from typing import Any

import pytest

from duetime.api.peer import Front, Peer
from duetime.errors import InvalidInput
from duetime.model.network import are_within, check_networks, is_inside
from duetime.settings import Settings

FRONT = Front(Settings(trusted_proxies=("10.0.0.0/8", "fd00::/8")))


def address(client: str | None, *lines: str, front: Front = FRONT) -> str:
    headers = [(b"x-forwarded-for", line.encode()) for line in lines]
    scope: dict[str, Any] = {"client": None if client is None else (client, 1), "headers": headers}
    return str(Peer(scope, front).address)


@pytest.mark.parametrize(
    ("client", "lines", "found"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # no proxy of ours
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1", "10.0.0.2"], "198.51.100.1"),  # each proxy adds a line
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),  # the first line is the client's
        ("10.0.0.1", ["198.51.100.1, unknown"], "None"),
        ("10.0.0.1", ["1" * 100_000], "None"),
        ("10.0.0.1", [" , ,"], "10.0.0.1"),
        ("fe80::1%eth0", [], "fe80::1"),
        (None, ["198.51.100.1"], "None"),
        ("testclient", ["198.51.100.1"], "None"),
    ],
)
def test_the_address_of_the_client(client: str | None, lines: list[str], found: str) -> None:
    assert address(client, *lines) == found


def test_without_trusted_proxies_no_header_counts() -> None:
    assert address("10.0.0.1", "198.51.100.1", front=Front(Settings())) == "10.0.0.1"


def test_networks_within_networks() -> None:
    assert are_within((), ()) and are_within(("10.0.0.0/8",), ())
    assert are_within(("10.1.0.0/16", "::1/128"), ("::/0", "10.0.0.0/8"))
    assert not are_within((), ("10.0.0.0/8",)), "no networks are all addresses"
    assert not are_within(("10.0.0.0/7",), ("10.0.0.0/8",))
    assert not are_within(("::/0",), ("0.0.0.0/0",))
    assert not is_inside(None, ("0.0.0.0/0", "::/0"))


def test_too_many_networks() -> None:
    with pytest.raises(InvalidInput, match="101 networks"):
        check_networks([f"10.0.{number}.0/24" for number in range(101)], "networks")
