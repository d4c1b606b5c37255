"""What people are told: from something that happens to a real receiver, once, and never about itself."""

import asyncio
from datetime import timedelta
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from duetime.engine.alarm import Alarm
from duetime.engine.outbox import Outbox
from duetime.errors import InvalidInput
from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.job import DEFAULT_TENANT
from duetime.model.notification import Email, Subscription, Topic
from duetime.model.target import EmailTarget
from duetime.targets.email import _mail
from tests.support.hostile import HOSTILE, dangers
from tests.support.mailbox import mailbox
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served
from tests.support.targeting import Targeting, targeting
from tests.support.waiting import eventually

FAILING = "http://127.0.0.1:9/away"


async def subscribe(api: Served, name: str, to: dict[str, str], *topics: str, **given: Any) -> None:
    answer = await api.ask("PUT", f"/v1/subscriptions/{name}", {"to": to, "topics": topics, **given})
    assert answer.status == 200, answer.json


async def test_a_dead_run_is_told_once_and_signed(targets: Targeting, receiver: Receiver) -> None:
    secret = (await targets.api.post("/v1/signing-secrets/rotate")).json["secret"]
    await subscribe(targets.api, "ops", {"type": "webhook", "url": receiver.url}, "run.dead")
    async with receiving((500, {}, b"no")) as broken:
        run = await targets.ended(target={"type": "http", "url": broken.url}, name="nightly", tags=["night"])
    assert run["status"] == "FAILED"
    (told,) = await receiver.got(1)
    Webhook(secret).verify(told.body.decode(), dict(told.headers))
    assert told.json["type"] == "run.dead"
    assert told.json["data"]["run_id"] == run["run_id"]
    assert told.json["data"]["name"] == "nightly"
    assert "failed permanently after 1 attempts" in told.json["text"]
    await asyncio.sleep(1.5)  # whatever is told twice would be on its way by now
    assert len(receiver.requests) == 1


async def test_a_test_is_sent_on_request(targets: Targeting, receiver: Receiver) -> None:
    """Also where nothing else is sent: to a paused subscription, whatever its topics."""
    await subscribe(targets.api, "ops", {"type": "webhook", "url": receiver.url}, "run.dead", paused=True)
    sent = await targets.api.post("/v1/subscriptions/ops/test")
    assert sent.status == 202
    (told,) = await receiver.got(1)
    assert (told.json["type"], told.json["data"]) == ("test", {"subscription": "ops"})
    assert (await targets.api.get(f"/v1/runs/{sent.json['run_id']}")).json["queue"] == "duetime.notifications"
    assert (await targets.api.post("/v1/subscriptions/none/test")).status == 404


async def test_they_are_sent_whatever_queues_are_served(database_url: str, receiver: Receiver) -> None:
    async with targeting(database_url, queues=("mail",)) as targets, receiving() as fine:
        await subscribe(targets.api, "ops", {"type": "webhook", "url": receiver.url}, "run.succeeded")
        await targets.ended(target={"type": "http", "url": fine.url}, queue="mail")
        (told,) = await receiver.got(1)
    assert told.json["data"]["queue"] == "mail"


async def test_filters_and_pauses(targets: Targeting, receiver: Receiver) -> None:
    hook = {"type": "webhook", "url": receiver.url}
    await subscribe(targets.api, "paused", hook, "*", paused=True)
    await subscribe(targets.api, "other", hook, "run.succeeded", queues=["other"])
    await subscribe(targets.api, "mail", hook, "run.succeeded", queues=["mail"])
    async with receiving() as fine:
        for queue in ("default", "mail"):
            await targets.ended(target={"type": "http", "url": fine.url}, queue=queue)
    (told,) = await receiver.got(1)
    assert told.json["data"]["queue"] == "mail"
    await asyncio.sleep(1.0)
    assert len(receiver.requests) == 1


async def test_what_happens_to_notifications_is_told_to_nobody(targets: Targeting, receiver: Receiver) -> None:
    receiver.answers = [(404, {}, b"gone")]
    await subscribe(targets.api, "team", {"type": "slack", "url": receiver.url}, "*")
    async with receiving() as fine:
        await targets.ended(target={"type": "http", "url": fine.url})
    (told,) = await receiver.got(1)
    assert list(told.json) == ["text"] and "succeeded" in told.json["text"]

    async def dead() -> Any:
        found = (await targets.api.get("/v1/dead-letters?queue=duetime.notifications")).json["items"]
        return found if found else None

    (letter,) = await eventually(dead)  # type: ignore[misc]
    assert "404" in letter["error"]
    await asyncio.sleep(1.0)
    assert len(receiver.requests) == 1, "its end in a dead letter is nothing to be told"


async def test_mail(database_url: str) -> None:
    async with mailbox() as box:
        given = {"smtp_url": box.url, "mail_from": "duetime@example.com"}
        async with targeting(database_url, **given) as targets, receiving() as fine:
            await subscribe(targets.api, "me", {"type": "email", "address": "ops@example.com"}, "run.succeeded")
            await targets.ended(target={"type": "http", "url": fine.url}, name="Grüße an alle")
            await eventually(lambda: box.mails)
    (mail,) = box.mails
    assert (mail["To"], mail["From"]) == ("ops@example.com", "duetime@example.com")
    assert "succeeded" in str(mail["Subject"]) or "=?utf-8?" in str(mail["Subject"])


async def test_mail_that_is_refused_says_why(database_url: str) -> None:
    async with mailbox() as box:
        box.refuse = b"550 no such user"
        given = {"smtp_url": box.url, "mail_from": "duetime@example.com"}
        async with targeting(database_url, **given) as targets, receiving() as fine:
            await subscribe(targets.api, "me", {"type": "email", "address": "nobody@example.com"}, "run.succeeded")
            await targets.ended(target={"type": "http", "url": fine.url})

            async def dead() -> Any:
                return (await targets.api.get("/v1/dead-letters")).json["items"]

            (letter,) = await eventually(dead)  # type: ignore[misc]
    assert "550" in letter["error"] and "no such user" in letter["error"]


async def test_mail_waits_for_a_server_that_can_send_it(database_url: str) -> None:
    """A server without the settings, during a rollout for instance, does not end what another one may send."""
    async with targeting(database_url) as targets, receiving() as fine:
        wanted = Subscription("me", Email("ops@example.com"), (Topic.RUN_SUCCEEDED,))
        await targets.api.store.notifications.put_subscription(DEFAULT_TENANT, wanted)
        await targets.ended(target={"type": "http", "url": fine.url})

        async def tried() -> Any:
            runs = (await targets.api.get("/v1/runs?queue=duetime.notifications")).json["items"]
            return [run for run in runs if run["attempt"] > 1]

        (run,) = await eventually(tried)  # type: ignore[misc]
        attempts = (await targets.api.get(f"/v1/runs/{run['run_id']}")).json["attempts"]
        assert "no mail server is configured; set DUETIME_SMTP_URL" in attempts[0]["error"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"to": {"type": "webhook", "url": "http://169.254.169.254/"}, "topics": ["*"]}, "to.url"),
        ({"to": {"type": "slack", "url": "ftp://example.com/"}, "topics": ["*"]}, "to.url"),
        ({"to": {"type": "webhook", "url": "https://example.com/"}, "topics": ["run.odd"]}, "topics[0]"),
        ({"to": {"type": "email", "address": "a@b@c d"}, "topics": ["*"]}, "to.address"),
        ({"to": {"type": "email", "address": "a@example.com"}, "topics": ["*"]}, "to.type"),  # without a mail server
        ({"to": {"type": "webhook", "url": "https://example.com/"}, "topics": ["*"], "job_ids": ["x"]}, "job_ids[0]"),
    ],
)
async def test_what_cannot_be_told_is_refused(targets: Targeting, body: dict[str, Any], field: str) -> None:
    answer = await targets.api.ask("PUT", "/v1/subscriptions/ops", body)
    assert (answer.status, answer.json["field"]) == (422, field)
    assert (await targets.api.get("/v1/subscriptions")).json["items"] == []


async def test_mail_can_be_paused_where_it_cannot_be_sent(targets: Targeting) -> None:
    """As when the settings of the mail server are gone: what is being tried in vain can be stopped."""
    wanted = Subscription("me", Email("ops@example.com"), (Topic.RUN_SUCCEEDED,))
    await targets.api.store.notifications.put_subscription(DEFAULT_TENANT, wanted)
    body = {"to": {"type": "email", "address": "ops@example.com"}, "topics": ["run.succeeded"]}
    answer = await targets.api.ask("PUT", "/v1/subscriptions/me", {**body, "paused": True})
    assert (answer.status, answer.json["paused"]) == (200, True)
    assert (await targets.api.ask("PUT", "/v1/subscriptions/me", body)).status == 422


async def test_an_alert_opens_and_closes(database_url: str, receiver: Receiver) -> None:
    async with targeting(database_url, worker=False) as targets:
        api, store = targets.api, targets.api.store
        await subscribe(api, "ops", {"type": "webhook", "url": receiver.url}, "queue.backlog")
        rule = {"figure": "backlog", "threshold": 2, "until": 0, "queue": "mail"}
        assert (await api.ask("PUT", "/v1/alerts/many", rule)).status == 200
        runs = [await targets.submit(callback_url=FAILING, queue="mail") for _ in range(3)]
        alarm = Alarm(store, Outbox(store), every=timedelta(0))
        await alarm.tick()
        (alert,) = (await api.get("/v1/alerts")).json["items"]
        assert (alert["open"], alert["value"], alert["topic"]) == (True, 3, "queue.backlog")
        await alarm.tick()
        for run in runs:
            await api.post(f"/v1/runs/{run}/cancel")
        await alarm.tick()
        (alert,) = (await api.get("/v1/alerts")).json["items"]
        assert (alert["open"], alert["value"]) == (False, 0)
        letters = (await api.get("/v1/jobs?queue=duetime.notifications")).json["items"]
        assert len(letters) == 2, "one for each turn"


async def test_an_alert_shows_what_was_given_and_the_value_at_which_it_closes(targets: Targeting) -> None:
    rule = {"figure": "backlog", "threshold": 100}
    view = (await targets.api.ask("PUT", "/v1/alerts/many", rule)).json
    assert (view["until"], view["closes_at"]) == (None, 90)
    view = (await targets.api.ask("PUT", "/v1/alerts/many", {**rule, "until": view["until"], "threshold": 50})).json
    assert (view["until"], view["closes_at"]) == (None, 45)
    view = (await targets.api.ask("PUT", "/v1/alerts/many", {**rule, "until": 10})).json
    assert (view["until"], view["closes_at"]) == (10, 10)


async def test_a_run_that_takes_longer_than_usual(targets: Targeting, receiver: Receiver) -> None:
    await subscribe(targets.api, "ops", {"type": "webhook", "url": receiver.url}, "run.slow")
    async with receiving() as slow:
        slow.handler = _never
        run_id = await targets.submit(callback_url=slow.url, name="slow one", warn_after=1)
        (told,) = await receiver.got(1)
        await targets.api.post(f"/v1/runs/{run_id}/cancel")
    assert (told.json["type"], told.json["data"]["run_id"]) == ("run.slow", run_id)


async def test_a_breaker_that_opens(targets: Targeting, receiver: Receiver) -> None:
    await subscribe(targets.api, "ops", {"type": "webhook", "url": receiver.url}, "breaker.opened")
    tally = Tally(DEFAULT_TENANT, "duetime.http/away.example.com", tried=30, failed=30)
    await targets.api.store.breakers.report_attempts([tally], BreakerPolicy(pause=timedelta(minutes=1)))
    (told,) = await receiver.got(1)
    assert told.json["data"]["target"] == "duetime.http/away.example.com"


async def _never(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


def test_the_page_names_every_topic() -> None:
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    assert all(f"`{topic}`" in page for topic in Topic)


async def test_people_are_told_in_plain_text(database_url: str, receiver: Receiver) -> None:
    """A receiver writes what it likes into its status line: no mail, chat or text of a webhook obeys it."""

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = "HTTP/1.1 500 no\x1b[2J\u202e\x9b <!channel> & so on\r\n"
        writer.write(line.encode() + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    bad = await asyncio.start_server(broken, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{bad.sockets[0].getsockname()[1]}"
    async with mailbox() as box, receiving() as slack, bad:
        given = {"smtp_url": box.url, "mail_from": "duetime@example.com"}
        async with targeting(database_url, **given) as targets:
            await subscribe(targets.api, "me", {"type": "email", "address": "ops@example.com"}, "run.dead")
            await subscribe(targets.api, "team", {"type": "slack", "url": slack.url}, "run.dead")
            await subscribe(targets.api, "hook", {"type": "webhook", "url": receiver.url}, "run.dead")
            run = await targets.ended(target={"type": "http", "url": url})
            assert dangers(run["error"]), "it is kept as it was"
            await eventually(lambda: box.mails and slack.requests and receiver.requests)
    (mail,) = box.mails
    subject = str(make_header(decode_header(str(mail["Subject"]).replace("\r\n", ""))))
    text = mail.get_payload(decode=True).decode().replace("\r\n", "\n")  # type: ignore[union-attr]
    chat, hook = slack.requests[0].json["text"], receiver.requests[0].json["text"]
    for told in (subject, text, chat, hook):
        assert "x1b[2J" in told and not dangers(told)
    assert "<" not in chat and "&lt;!channel&gt; &amp; so on" in chat
    assert list(mail.keys()) == [*dict.fromkeys(mail.keys())] and "Bcc" not in mail


def test_no_header_comes_from_a_text() -> None:
    target = EmailTarget(to="ops@example.com", subject=f"a\r\nBcc: x@example.com\n\n{HOSTILE}", text=HOSTILE + "\ud800")
    mail = _mail(target, "duetime@example.com", "id")
    assert "Bcc" not in mail and not dangers(mail["Subject"])
    raw = mail.as_bytes()
    head = raw.partition(b"\n\n")[0]
    assert b"\nBcc" not in head and mail.get_content().startswith("a\\x1b[2J")
    for address in ("ops@example.com\nBcc: x@example.com", "ops@example.com\r", "a@b.c\x85"):
        with pytest.raises(InvalidInput):
            _mail(EmailTarget(to=address, subject="s", text="t"), "duetime@example.com", "id")
