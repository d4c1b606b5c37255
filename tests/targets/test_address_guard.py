"""No one gets in through a URL: not by an address, however it is spelled, nor by DNS, nor by a redirect.

Every test has a real server on the loopback address, and what counts is that nothing arrives there.
"""

import socket
from collections import Counter
from ipaddress import ip_address

import pytest
from yarl import URL

from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.targets.address_guard import AddressGuard, AddressRefused, without_addresses
from duetime.targets.url import check_url, same_host
from duetime.targets.validation import TargetRules
from tests.support.receiver import Receiver, receiving
from tests.support.targeting import Targeting, targeting

# Addresses and spellings that must not be called. `{port}` is where a real server listens.
REFUSED_URLS = [
    # loopback, plainly and oddly spelled
    "http://127.0.0.1:{port}/",
    "http://127.0.0.2:{port}/",
    "http://127.255.255.254:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST:{port}/",
    "http://localhost.:{port}/",
    "http://foo.localhost:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://127.0.0.01:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://０:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://１２７.０.０.１:{port}/",
    "http://127。0。0。1:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    # IPv4 in IPv6
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b::a9fe:a9fe]/latest/meta-data",
    "http://[64:ff9b:1::1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[2606:4700::5efe:127.0.0.1]:{port}/",
    "http://[2606:4700::200:5efe:10.0.0.1]:{port}/",
    # private, shared, link-local, multicast, reserved
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://224.0.0.1/",
    "http://[ff02::1]/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    # metadata
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    # other schemes, credentials, tricks of parsers
    "ftp://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/",
    "javascript:alert(1)",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}",
    "http:127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http://user:password@example.com/",
    "http://example.com@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@example.com/",
    "http://example.com#@127.0.0.1:{port}/",
    "http://127.0.0.1%2eexample.com/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://exa\nmple.com/",
    "http://exam\x00ple.com/",
    "http://[::1/",
    "http://[127.0.0.1]:{port}/",
    "http://example.com:0/",
    "http://example.com:99999/",
    "http://example.com:80a/",
    "http://-example.com/",
    "http://exa mple.com/",
    "http://.example.com/",
    "http://exa..mple.com/",
    "",
    " http://127.0.0.1:{port}/",
]


def test_there_are_enough() -> None:
    assert len(set(REFUSED_URLS)) == len(REFUSED_URLS) >= 40


async def test_what_can_be_seen_in_a_url_is_refused_at_submission_and_nothing_arrives(quiet_url: str) -> None:
    async with receiving() as receiver, targeting(quiet_url, allowed_networks=()) as targets:
        for url in REFUSED_URLS:
            for job in ({"target": {"type": "http", "url": url.format(port=receiver.port)}},):
                answer = await targets.api.post("/v1/jobs", job)
                assert (answer.status, answer.json["field"]) == (422, "target.url"), (url, answer.json)
                assert answer.json["remedy"], url
        callback = {"callback_url": f"http://127.0.0.1:{receiver.port}/"}
        answer = await targets.api.post("/v1/jobs", callback)
        assert (answer.status, answer.json["field"]) == (422, "callback_url")
        batch = await targets.api.post("/v1/jobs/batch", [callback])
        assert batch.status == 422
        assert (await targets.api.get("/v1/jobs")).json["items"] == []
        assert receiver.requests == []


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com/hook", "http://example.com:8080/a?b=c%20d", "https://xn--bcher-kva.example/"),
        *("https://93.184.215.14/", "https://[2606:4700:0::1111]/", "http://a_b.example.com/", "https://EXAMPLE.com./"),
    ],
)
def test_honest_urls_are_taken_and_read_alike_by_both_parsers(url: str) -> None:
    place = check_url(url, AddressGuard())
    read = URL(url, encoded=True)
    assert (same_host(read.raw_host or ""), read.port) == (place.host, place.port)


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["fd00:ec2::254"],
        ["fe80::1%2"],
        ["93.184.215.14", "127.0.0.1"],
        ["127.0.0.1", "93.184.215.14"],
        ["64:ff9b::7f00:1"],
        ["0.0.0.0"],
        ["100.100.100.200"],
    ],
)
async def test_what_only_dns_reveals_fails_the_attempt(
    quiet_url: str, answers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The tenant is told that it is not called; what the name resolves to is for the operator's log."""

    async def lookup(host: str, port: int) -> list[tuple[int, str]]:
        return [(socket.AF_INET6 if ":" in text else socket.AF_INET, text) for text in answers]

    async with receiving() as receiver, targeting(quiet_url, allowed_networks=(), lookup=lookup) as targets:
        run = await targets.ended(callback_url=f"http://innocent.example:{receiver.port}/")
        assert (run["status"], run["failure"]) == ("FAILED", "network")
        assert "innocent.example has a non-public address" in run["error"]
        refused = [text for text in answers if text != "93.184.215.14"]
        assert not [text for text in answers if text in run["error"]]
        (told,) = [each.getMessage() for each in caplog.records if each.name == "duetime.targets"]
        assert f"innocent.example is not called: {refused[0]} is " in told
        assert receiver.requests == []


async def test_a_resolver_that_lies_the_second_time_gains_nothing(quiet_url: str) -> None:
    """DNS rebinding: a name that is fine when it is looked at, and loopback when it is connected to."""
    asked: Counter[str] = Counter()

    async def lookup(host: str, port: int) -> list[tuple[int, str]]:
        asked[host] += 1
        # Nothing answers at the first one, which stands for a public address: it is for documentation, and allowed.
        return [(socket.AF_INET, "192.0.2.1" if asked[host] == 1 else "127.0.0.1")]

    allowed = ("192.0.2.0/24",)
    async with receiving() as receiver, targeting(quiet_url, allowed_networks=allowed, lookup=lookup) as targets:
        url = f"http://rebinding.example:{receiver.port}/"
        for timeout in ("300ms", "3s", "15s"):  # the first may be over before the resolver was asked
            assert (await targets.ended(callback_url=url, timeout=timeout))["status"] == "FAILED"
            if asked:
                break
        assert asked == {"rebinding.example": 1}, "the checked address is the one connected to: no second lookup"
        grpc = {"type": "grpc", "address": f"also.example:{receiver.port}", "method": "a.B/C", "tls": False}
        assert (await targets.ended(target=grpc, timeout="300ms"))["status"] == "FAILED"
        assert asked["also.example"] == 1
        assert receiver.requests == []


async def test_the_last_word_is_about_the_very_address_that_is_connected_to(receiver: Receiver) -> None:
    """Even if every check before it were wrong."""
    guard = AddressGuard()
    with pytest.raises(AddressRefused):
        guard.check("127.0.0.1")
    from tests.support.bare_caller import call_without_looking

    assert "has a non-public address" in await call_without_looking(receiver.url)
    assert receiver.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_metadata_is_not_followed(quiet_url: str, status: int) -> None:
    async with receiving() as inner, receiving((status, {"location": inner.url}, b"")) as outer:
        async with targeting(quiet_url) as targets:
            run = await targets.ended(callback_url=outer.url)
            assert (run["status"], run["failure"]) == ("FAILED", "target_refused")
            assert "redirects are not followed" in run["error"]
        assert (len(outer.requests), inner.requests) == (1, [])


async def test_proxies_of_the_environment_are_not_asked(quiet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with targeting(quiet_url) as targets:
            assert (await targets.ended(callback_url=receiver.url))["status"] == "SUCCEEDED"
        assert (len(receiver.requests), proxy.requests) == (1, [])


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"X-A": "b\r\nX-Injected: 1"}, "target.headers.X-A"),
        ({"X-A": "b\nc"}, "target.headers.X-A"),
        ({"X-A\r\nX-Injected": "1"}, "target.headers"),
        ({"X A": "1"}, "target.headers"),
        ({"": "1"}, "target.headers"),
        ({"Host": "internal"}, "target.headers.Host"),
        ({"Content-Length": "0"}, "target.headers.Content-Length"),
        ({"transfer-encoding": "chunked"}, "target.headers.transfer-encoding"),
        ({"Webhook-Signature": "v1,x"}, "target.headers.Webhook-Signature"),
        ({"Duetime-Attempt": "1"}, "target.headers.Duetime-Attempt"),
        ({"X-A": "1", "x-a": "2"}, "target.headers.x-a"),
        ({"X-A": "\u2603"}, "target.headers.X-A"),
        ({"X-A": "x" * 9000}, "target.headers.X-A"),
    ],
)
def test_headers_that_are_refused(headers: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TargetRules(Settings()).make({"type": "http", "url": "https://example.com/", "headers": headers})
    assert refused.value.field == field and refused.value.remedy


@pytest.mark.parametrize(
    "address", ["localhost:50051", "127.0.0.1:50051", "2130706433:1", "[::1]:50051", "10.0.0.1:443", "example.com"]
)
def test_grpc_addresses_have_the_same_guard(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TargetRules(Settings()).make({"type": "grpc", "address": address, "method": "a.B/C"})
    assert refused.value.field == "target.address"


def test_an_allowed_network_opens_nothing_else() -> None:
    guard = AddressGuard(["10.1.0.0/16"])
    assert guard.why_refused(ip_address("10.1.2.3")) is None
    assert guard.why_refused(ip_address("::ffff:10.1.2.3")) is None, "it is the same host"
    for text in ("10.2.0.1", "127.0.0.1", "::1", "169.254.169.254", "::ffff:10.2.0.1"):
        assert guard.why_refused(ip_address(text)), text


async def test_what_was_stored_under_other_settings_is_checked_again(quiet_url: str) -> None:
    async with receiving() as receiver:
        async with targeting(quiet_url, worker=False) as targets:
            run_id = await targets.submit(callback_url=receiver.url)
        async with targeting(quiet_url, allowed_networks=()) as targets:
            run = await targets.until(run_id)
        assert (run["status"], run["failure"]) == ("FAILED", "target_refused")
        assert receiver.requests == []


async def test_targets_are_reached_by_their_own_task_only(targets: Targeting) -> None:
    answer = await targets.api.post("/v1/jobs", {"task": "duetime.http/example.com"})
    assert (answer.status, answer.json["field"]) == (422, "task")


def test_what_libraries_say_is_told_without_addresses() -> None:
    for text, told in {
        "Cannot connect to host a.example:80 ssl:default [Connect call failed ('10.0.0.5', 80)]": "a.example:80",
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.5:50051: refused": "refused",
        "ipv6:%5Bfd00::5%5D:50051: Failed to connect to remote host": "remote host",
        "Connect call failed ('fd00::5', 80, 0, 0)": "Connect call failed",
        "[Errno 111] Connect call failed ('::1', 9, 0, 0)": "[Errno 111]",
    }.items():
        shown = without_addresses(text)
        assert told in shown and not [part for part in ("10.0", "fd00", "::1") if part in shown], shown
    for kept in ("HTTP/1.1 500", "took 1.5 s at 12:30:05", "version 3.14.1", "a: b", "dead:beef"):
        assert without_addresses(kept) == kept


async def test_an_allowed_name_that_cannot_be_reached_keeps_its_address(quiet_url: str) -> None:
    async def lookup(host: str, port: int) -> list[tuple[int, str]]:
        return [(socket.AF_INET, "127.0.0.1")]

    async with targeting(quiet_url, lookup=lookup) as targets:
        run = await targets.ended(callback_url="http://inner.example:9/")
        assert run["failure"] == "network" and "inner.example" in run["error"] and "127.0" not in run["error"]
        grpc = {"type": "grpc", "address": "inner.example:9", "method": "a.B/C", "tls": False}
        assert "127.0" not in (await targets.ended(target=grpc, timeout="5s"))["error"]
