"""An app behind a server sends options as they were given, asks once to see how a run stands, and goes by the server's
clock."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duetime import App, HttpTarget, InvalidInput, Misfire, Needs, RetryPolicy
from duetime.client.request import Request
from duetime.ids import parse
from duetime.model.lists import JobStatus
from duetime.sdk.order import Order
from duetime.sdk.remote_jobs import RemoteJobs
from duetime.wire.jobs import Receipt, ScheduleView
from duetime.wire.runs import JobStatusAnswer
from duetime.wire.service import Fire, Preview

JOB = "job_01k00000000000000000000000"
NOW = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


class Server:
    """Writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request[Any]] = []
        self.jobs = RemoteJobs("http://127.0.0.1:9", None)
        self.jobs._client.send = self.send  # type: ignore[method-assign]

    async def send(self, request: Request[Any]) -> Any:
        self.asked.append(request)
        if request.answer is Receipt:
            return Receipt(JOB, JobStatus.PENDING, None, None, True)
        if request.answer is Preview:
            return Preview(ScheduleView("once", "in 1s", "in a second", "UTC"), (Fire(NOW, NOW, None, None),))
        assert request.answer is JobStatusAnswer
        return JobStatusAnswer(
            job_id=JOB,
            status=JobStatus.PENDING,
            last_run=None,
            next_run=None,
            retry_count=0,
            attempts=0,
            failure_reason=None,
        )

    @property
    def body(self) -> Any:
        """The last body, as it goes over the wire."""
        return msgspec.json.decode(msgspec.json.encode(self.asked[-1].body))


@pytest.fixture
def app() -> App:
    return App(database_url="postgresql://nowhere.invalid/none")


async def test_options_are_sent_as_they_were_given(app: App) -> None:
    @app.task(name="send", retry=RetryPolicy(retries=5, give_up_on=(KeyError,)), queue="mail")
    async def send(to: str) -> None: ...

    server = Server()
    call = send.options(run_in="P1M", tz="Europe/Berlin").bind(to="x")
    options = {"timeout": timedelta(minutes=1), "depends_on": Needs([JOB], on="finished"), "idempotency_key": "i"}
    await server.jobs.submit([Order(call, call.encoded(), options)])
    body = server.body
    assert body.pop("retry")["give_up_on"] == ["KeyError"]
    assert body == {
        "task": "send",
        "args": {"to": "x"},
        "queue": "mail",
        "run_in": "P1M",
        "tz": "Europe/Berlin",
        "timeout": 60.0,
        "depends_on": {"jobs": [JOB], "need": "all", "on": "finished", "otherwise": "cancel"},
    }
    assert server.asked[0].headers["Idempotency-Key"] == "i"


async def test_a_schedule_and_a_target_are_sent_as_they_were_given() -> None:
    server = Server()
    options = {
        "cron": "0 9 * * *",
        "start_at": NOW,
        "exclude": {"dates": [date(2031, 12, 25)]},
        "misfire": Misfire("all", most=5),
        "after": None,
    }
    await server.jobs.submit([Order(HttpTarget(url="https://example.com"), b"", options, once=False)])
    body = server.body
    assert body.pop("misfire") == {"mode": "all", "after": 60.0, "most": 5, "age": 86_400.0}
    assert body == {
        "target": {"type": "http", "url": "https://example.com"},
        "cron": "0 9 * * *",
        "start_at": NOW.isoformat(),
        "exclude": {"dates": ["2031-12-25"]},
    }


async def test_the_server_is_told_what_must_run_once(app: App) -> None:
    @app.task
    async def send() -> None: ...

    server = Server()
    for once in (True, False):
        await server.jobs.submit([Order(send.bind(), b"{}", {"when": "tomorrow at 9"}, once=once)])
        assert server.body.get("once", False) is once
    await server.jobs.submit([Order(send.bind(), b"{}", {"run_in": 1})])
    assert "once" not in server.body, "only `when` may recur"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"run_in": float("nan")}, "run_in"),
        ({"key": object()}, "key"),
        ({"depends_on": ["nonsense"]}, "job_id"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_it_is(app: App, options: dict[str, Any], field: str) -> None:
    @app.task
    async def send() -> None: ...

    server = Server()
    with pytest.raises(InvalidInput) as refused:
        await server.jobs.submit([Order(send.bind(), b"{}", options)])
    assert refused.value.field == field
    assert not server.asked


async def test_an_empty_batch_sends_nothing() -> None:
    server = Server()
    assert await server.jobs.submit([]) == []
    assert not server.asked


async def test_one_request_tells_how_a_run_stands() -> None:
    server = Server()
    look = await server.jobs.look(parse("job", JOB))
    assert (look.run, look.status) == (None, "not due yet")
    assert [request.path for request in server.asked] == [f"/v1/jobs/{JOB}/status"]


async def test_the_clock_is_the_servers() -> None:
    server = Server()
    assert await server.jobs.now() == NOW - timedelta(seconds=1)
