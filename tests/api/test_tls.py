"""TLS of the server itself, with real handshakes: certificates that change, clients that stall, workers that show
certificates of their own."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import uvloop
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from duetime import App, AsyncClient, Client, ClientTls, Settings
from duetime.api.table import ENDPOINTS
from duetime.cli.main import application
from duetime.client.transport import Transport
from duetime.crypto import tls
from duetime.crypto.tls import ReloadedContext, server_tls, warn_of_plain_http
from duetime.errors import AccessDenied, ServerUnavailable, SettingsError
from duetime.model.access import Action, Role
from duetime.node.assembly import make_worker
from duetime.settings import load
from duetime.wire.workers import Registration
from duetime.worker.http_source import HttpSource
from tests.support.certificates import Authority
from tests.support.served import Served, served
from tests.support.working import ended

one_store = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what happens before a store is asked for anything."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_CHECK_EVERY", 0.0)


@asynccontextmanager
async def secure(database_url: str, authority: Authority, **settings: Any) -> AsyncIterator[Served]:
    cert, key = authority.server()
    async with served(database_url, tls_cert=cert, tls_key=key, **settings) as api:
        assert api.url.startswith("https://")
        yield api


def trusting(authority: Authority, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca))
    if client is not None:
        context.load_cert_chain(*client)
    return context


async def shown_serial(api: Served, context: ssl.SSLContext) -> str:
    """The number of the certificate that a new connection is shown, once it has answered a request."""
    place = urlsplit(api.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        if not (line := await reader.readline()):
            raise ConnectionResetError("it was refused once its certificate was seen")
        assert b" 200 " in line
        serial: str = writer.get_extra_info("peercert")["serialNumber"]
        return serial
    finally:
        writer.transport.abort()


async def status(api: Served, context: ssl.SSLContext, path: str = "/livez") -> int:
    async with api.http.get(api.url + path, ssl=context) as answer:
        return answer.status


async def test_requests_over_tls(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority) as api:
        async with AsyncClient(api.url, api.root, tls=ClientTls(authority.ca)) as client:
            receipt = await client.create_job("greet", args={"to": "x" * 100_000})
            assert (await client.get_job(receipt.job_id)).task == "greet"
        async with AsyncClient(api.url, api.root, tries=1) as client:
            with pytest.raises(ServerUnavailable, match="certificate verify failed"):
                await client.list_jobs()
        context = trusting(authority)
        assert await status(api, context) == 200
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await status(api, context) == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@one_store
async def test_older_versions_are_refused(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority) as api:
        old = trusting(authority)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(api, old)
        assert await status(api, trusting(authority)) == 200


@one_store
async def test_a_new_certificate_is_used_for_new_connections(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority) as api:
        context = trusting(authority)
        before = await shown_serial(api, context)
        place = urlsplit(api.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context)
        authority.server()  # in the place of the first
        after = await shown_serial(api, context)
        assert after != before
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b" 200 " in await reader.read(), "a connection that was open stays"
        writer.close()


@one_store
async def test_broken_files_leave_the_old_certificate(
    database_url: str, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with secure(database_url, authority) as api:
        context = trusting(authority)
        before = await shown_serial(api, context)
        cert, key = api.service.settings.tls_cert, api.service.settings.tls_key
        assert cert is not None and key is not None
        whole = key.read_bytes()
        authority.server("another")
        another = cert.with_name("another.crt")
        for broken in (whole[: len(whole) // 2], b"", b"nonsense", cert.with_name("another.key").read_bytes()):
            key.write_bytes(broken)
            caplog.clear()
            assert await shown_serial(api, context) == before
            assert await shown_serial(api, context) == before
            told = [each.message for each in caplog.records if each.levelno == logging.WARNING]
            assert len(told) == 1 and "tls_cert, tls_key and tls_client_ca" in told[0], "once for each change"
        key.unlink()
        assert await shown_serial(api, context) == before
        # The other half comes: both fit again.
        cert.write_bytes(another.read_bytes())
        key.write_bytes(cert.with_name("another.key").read_bytes())
        assert await shown_serial(api, context) != before


@one_store
async def test_a_handshake_has_a_deadline(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority, header_timeout=timedelta(milliseconds=200)) as api:
        place = urlsplit(api.url)
        mute = [await asyncio.open_connection(place.hostname, place.port) for _ in range(3)]
        mute[1][1].write(b"\x16\x03\x01\x02\x00\x01")  # a hello that does not go on
        mute[2][1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")  # plain text
        for reader, writer in mute:
            async with asyncio.timeout(10):
                assert b"HTTP" not in await reader.read()
            writer.transport.abort()
        # After the handshake, the header has one too.
        reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=trusting(authority))
        writer.write(b"GET /livez HTTP/1.1\r\nHos")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.transport.abort()
        assert await status(api, trusting(authority)) == 200


@one_store
async def test_stalled_handshakes_make_room_for_others(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority, max_connections=16, max_connections_per_address=12) as api:
        place = urlsplit(api.url)
        quiet = []
        for number in range(40):
            source = (f"127.0.0.{2 + number % 4}", 0)
            quiet.append(await asyncio.open_connection(place.hostname, place.port, local_addr=source))
        for _ in range(3):
            assert await shown_serial(api, trusting(authority))
        assert await quiet[0][0].read() == b""
        async with AsyncClient(api.url, api.root, tls=ClientTls(authority.ca)) as client:
            assert b"made room for a new connection" in await client.metrics()
        for _, writer in quiet:
            writer.transport.abort()


WORKING = [endpoint for endpoint in ENDPOINTS if endpoint.may is Action.WORK]


async def test_workers_need_a_certificate_and_others_do_not(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority, tls_client_ca=authority.ca) as api:
        with_one, without = trusting(authority, authority.client()), trusting(authority)
        headers = {"Authorization": f"Bearer {api.root}", "Duetime-Worker-Token": "x"}
        for endpoint in WORKING:
            path = endpoint.path.format(worker_id="wrk_00000000000000000000000000", payload_id="x")
            seen = []
            for context in (with_one, without):
                async with api.http.request(
                    endpoint.method, api.url + path, json={}, headers=headers, ssl=context
                ) as answer:
                    seen.append((answer.status, (await answer.json()).get("code")))
            assert seen[1] == (403, "forbidden"), endpoint.name
            assert seen[0][0] in (404, 422), endpoint.name
        async with api.http.get(api.url + "/v1/jobs", headers=headers, ssl=without) as answer:
            assert answer.status == 200
        assert await status(api, without) == 200
        # The role does not matter, nor what the request claims to come with.
        key = await api.key(Role.WORKER)
        async with AsyncClient(api.url, key, tls=ClientTls(authority.ca)) as client:
            with pytest.raises(AccessDenied, match="client certificate"):
                await client.register_worker(Registration("w", ["t"]))
        async with AsyncClient(api.url, key, tls=ClientTls(authority.ca, *authority.client())) as client:
            assert (await client.register_worker(Registration("w", ["t"]))).token


@one_store
async def test_a_certificate_of_another_authority_is_refused(
    database_url: str, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    foreign, own = other.client("foreign"), authority.client("own")
    async with secure(database_url, authority, tls_client_ca=authority.ca) as api:
        with pytest.raises(aiohttp.ClientError):
            await status(api, trusting(authority, foreign))
        accepted = trusting(authority, own)
        assert await status(api, accepted) == 200
        # Another CA takes the place of the first: what that one signed is refused from then on.
        serving = trusting(authority)
        authority.ca.write_bytes(other.ca.read_bytes())
        for context in (accepted, _copy(serving, own)):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
                await shown_serial(api, context)
        assert await shown_serial(api, _copy(serving, foreign))


def _copy(context: ssl.SSLContext, client: tuple[Path, Path]) -> ssl.SSLContext:
    """A context with the same CAs, and nothing of earlier connections."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for each in context.get_ca_certs(binary_form=True):
        made.load_verify_locations(cadata=each)
    made.load_cert_chain(*client)
    return made


async def test_a_remote_worker_works_over_tls_with_a_certificate(database_url: str, authority: Authority) -> None:
    app = App(settings=Settings(database_url=database_url, poll=timedelta(milliseconds=50)))

    @app.task
    async def greet(to: str) -> str:
        return f"hello {to}"

    cert, key = authority.client()
    async with secure(database_url, authority, tls_client_ca=authority.ca) as api:
        server = Transport(api.url, await api.key(Role.WORKER), tls=ClientTls(authority.ca, cert, key))
        worker = make_worker(app, HttpSource(server), app.settings)
        running = asyncio.create_task(worker.run())
        with app._stores.using_store(api.store):
            run = await ended(app, await greet.submit(to="you"))
        worker.stop()
        await running
        await server.close()
        assert run.result == b'"hello you"'


@one_store
async def test_a_client_follows_its_certificate(database_url: str, authority: Authority) -> None:
    client_cert, client_key = authority.client()
    async with secure(database_url, authority, tls_client_ca=authority.ca) as api:
        trust = ClientTls(authority.ca, client_cert, client_key)
        transport = Transport(api.url, api.root, tls=trust)
        before = transport._ssl
        await transport.request("GET", "/livez", repeatable=True)
        authority.client()
        assert transport._ssl is not before
        await transport.request("GET", "/livez", repeatable=True)
        await transport.close()


def test_uvloop_serves_tls_too(tmp_path: Path, authority: Authority) -> None:
    async def attempt() -> None:
        async with secure(f"sqlite:///{tmp_path / 'duetime.db'}", authority, tls_client_ca=authority.ca) as api:
            place = urlsplit(api.url)
            stalled = await asyncio.open_connection(place.hostname, place.port)
            async with AsyncClient(api.url, api.root, tls=ClientTls(authority.ca, *authority.client())) as client:
                jobs = await asyncio.gather(*(client.create_job("t", args={"x": "y" * 50_000}) for _ in range(10)))
                assert len({job.job_id for job in jobs}) == 10
                assert (await client.register_worker(Registration("w", ["t"]))).token
            assert await status(api, trusting(authority)) == 200
            stalled[1].transport.abort()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(attempt())


@one_store
async def test_the_command_line_and_the_blocking_client(database_url: str, authority: Authority) -> None:
    async with secure(database_url, authority) as api:

        def ask() -> tuple[int, int]:
            with Client(api.url, api.root, tls=ClientTls(authority.ca)) as client:
                jobs = len(client.list_jobs().items)
            asked = ["jobs", "list", "--json", "--url", api.url, "--key", api.root]
            return jobs, CliRunner().invoke(application, [*asked, "--server-ca", str(authority.ca)]).exit_code

        assert await asyncio.to_thread(ask) == (0, 0)


# What needs no server.


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_plain_http_on_the_network_is_told(host: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_plain_http("the API", host, Settings())
    assert "tls_cert" in caplog.text and "tls_in_front" in caplog.text and host in caplog.text


@pytest.mark.parametrize(("host", "in_front"), [("127.0.0.1", "off"), ("::1", "off"), ("::", "on")])
def test_plain_http_on_loopback_is_not(host: str, in_front: Any, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_plain_http("the API", host, Settings(tls_in_front=in_front))
    assert not caplog.records


@one_store
async def test_a_server_on_the_network_tells_it(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with served(database_url, host="0.0.0.0"):
        assert "in plain HTTP" in caplog.text


def test_files_that_cannot_be_used_stop_the_start(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.server()
    _, other = authority.server("other")
    empty = tmp_path / "empty"
    empty.touch()
    for files in (
        {"tls_cert": tmp_path / "missing", "tls_key": key},
        {"tls_cert": cert, "tls_key": other},
        {"tls_cert": empty, "tls_key": key},
        {"tls_cert": cert, "tls_key": key, "tls_client_ca": empty},
        {"tls_cert": cert},
    ):
        with pytest.raises(SettingsError) as refused:
            server_tls(Settings(**files))
        assert refused.value.field == "tls_cert" and refused.value.remedy
    for ca, cert_file in ((tmp_path / "missing", None), (authority.ca, empty)):
        with pytest.raises(SettingsError):
            ClientTls(ca, cert_file).context()


def test_settings_that_need_another_one() -> None:
    for name, needed in (("TLS_KEY", "tls_cert"), ("TLS_CLIENT_CA", "tls_cert"), ("CLIENT_KEY", "client_cert")):
        with pytest.raises(SettingsError, match=needed):
            load(None, {f"DUETIME_{name}": "/a/file"}, {})


def test_a_key_with_a_password_does_not_ask_for_it(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.server()
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    with pytest.raises(SettingsError, match="password"):
        server_tls(Settings(tls_cert=cert, tls_key=key))


def test_nothing_of_the_old_files_is_left(tmp_path: Path, authority: Authority) -> None:
    cert, key = authority.server()
    found = server_tls(Settings(tls_cert=cert, tls_key=key, tls_client_ca=authority.ca))
    assert isinstance(found, ReloadedContext)
    before = found.current
    assert found.current is before, "as long as the files stay"
    authority.ca.write_bytes(Authority(tmp_path, "other").ca.read_bytes())
    assert found.current is not before
    assert [ca["subject"] for ca in found.current.get_ca_certs()] == [((("commonName", "other"),),)]
