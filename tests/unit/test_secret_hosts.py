"""Which hosts a secret may be sent to."""

from typing import Any

import pytest

from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.targets.secret_hosts import check_hosts, check_receives, may_receive
from duetime.targets.url import Place
from duetime.targets.validation import TargetRules, as_target


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM.", "api.example.com"),
        ("api.example.com:443", "api.example.com"),
        ("api.example.com:80", "api.example.com:80"),
        ("*.example.com", "*.example.com"),
        ("*.example.com:8443", "*.example.com:8443"),
        ("192.0.2.1:8080", "192.0.2.1:8080"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("[2001:DB8:0::1]:8443", "[2001:db8::1]:8443"),
    ],
)
def test_hosts_in_one_spelling(given: str, kept: str) -> None:
    assert check_hosts([given]) == (kept,)
    assert check_hosts([kept]) == (kept,)


@pytest.mark.parametrize(
    "given",
    [
        *("", "*", "*.", "*.com", "*.2.0.192", "*.192.0.2.1", "*.[2001:db8::1]", "a.*.example.com", "*example.com"),
        *("https://api.example.com", "api.example.com/path", "user@api.example.com", "api.example.com:0"),
        *("api.example.com:65536", "api.example.com:x", "api.example.com:", "api example.com", "[2001:db8::1"),
        *("2130706433", "0x7f000001", "m\u00fcller.example", "api.example.com,evil.example", "a..b.example"),
    ],
)
def test_what_is_no_host_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_hosts(["api.example.com", given])
    assert refused.value.field == "hosts[1]"


def test_a_secret_without_hosts_is_refused() -> None:
    with pytest.raises(InvalidInput):
        check_hosts([])


@pytest.mark.parametrize(
    ("host", "place", "may"),
    [
        ("api.example.com", Place("api.example.com", 443), True),
        ("api.example.com", Place("api.example.com", 80), False),
        ("api.example.com", Place("api.example.com", 8443), False),
        ("api.example.com:8443", Place("api.example.com", 8443), True),
        ("api.example.com", Place("evil.api.example.com", 443), False),
        ("api.example.com", Place("api.example.com.evil.example", 443), False),
        ("*.example.com", Place("a.example.com", 443), True),
        ("*.example.com", Place("a.b.example.com", 443), True),
        ("*.example.com", Place("example.com", 443), False),
        ("*.example.com", Place("evilexample.com", 443), False),
        ("*.example.com", Place("a.example.com", 8443), False),
        ("[2001:db8::1]:8443", Place("2001:db8::1", 8443), True),
        ("api.example.com", Place("api.example.com", 443, tls=False), False),
        ("*.example.com", Place("a.example.com", 443, tls=False), False),
        ("api.example.com:80", Place("api.example.com", 80, tls=False), True),
    ],
)
def test_where_it_may_be_sent(host: str, place: Place, may: bool) -> None:
    assert may_receive(check_hosts([host]), place) is may


@pytest.mark.parametrize(
    "target",
    [
        {"type": "http", "url": "http://api.example.com:443/", "headers": {"key": {"secret": "crm"}}},
        {"type": "grpc", "address": "api.example.com:443", "method": "a.B/C", "tls": False},
        {"type": "redis", "address": "api.example.com:443", "stream": "s", "tls": False, "password": {"secret": "crm"}},
    ],
)
def test_nothing_goes_to_the_port_of_tls_without_it(target: dict[str, Any]) -> None:
    """A secret for a host could be read on its way there otherwise."""
    rules = TargetRules(Settings())
    (place,) = rules.places(as_target(target))
    assert not may_receive(["api.example.com"], place)
    with pytest.raises(InvalidInput, match="without TLS"):
        check_receives("crm", ["api.example.com"], place)
