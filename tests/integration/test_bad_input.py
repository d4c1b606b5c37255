"""What cannot be accepted is refused with the name of what is wrong, and nothing is stored."""

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from duetime import App, Context, DuetimeError, InvalidInput, NotFound, RetryPolicy, testing
from duetime.spec.derived import OPTIONS
from duetime.store.protocol.store import Counts

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is tested
NESTED: Any = "x"
for _ in range(70):
    NESTED = [NESTED]

# fmt: off
# What is submitted to `send(to, subject="…")`, and how the refusal begins.
SUBMISSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an argument is missing": ({}, "args: the arguments do not match send(to, subject='hi'): missing"),
    "one too many": ({"to": 1, "cc": 2}, "args: the arguments do not match send(to, subject='hi'): got"),
    "a wrong name": ({"too": 1}, "args: the arguments do not match send"),
    "the context is not an argument": ({"to": 1, "ctx": 2}, "args: the arguments do not match send"),
    "datetime": ({"to": datetime(2026, 1, 1, tzinfo=UTC)}, "args.to: datetime is not JSON (pass text"),
    "set": ({"to": {1}}, "args.to: set is not JSON"),
    "bytes": ({"to": b"x"}, "args.to: bytes is not JSON"),
    "uuid": ({"to": uuid4()}, "args.to: UUID is not JSON"),
    "object": ({"to": object()}, "args.to: object is not JSON"),
    "NaN": ({"to": [1, {"x": float("nan")}]}, "args.to[1].x: nan cannot be represented in JSON"),
    "infinity": ({"to": float("-inf")}, "args.to: -inf cannot be represented in JSON"),
    "64 bits and more": ({"to": 2**63}, "args.to: the integer does not fit in 64 bits (pass it as text)"),
    "integer keys": ({"to": {1: "a"}}, "args.to: the key 1 is not text"),
    "half a character": ({"to": "\ud83d"}, "args.to: contains a lone surrogate (half a character)"),
    "half a character in a key": ({"to": {"\ud83d": 1}}, "args.to: contains a lone surrogate"),
    "deep nesting": ({"to": NESTED}, "args.to[0][0]"),
    "a large payload": ({"to": "x" * 300_000}, "args: 300,009 bytes of JSON exceed the limit of 262,144"),
    "a naive time": ({"to": 1, "run_at": NAIVE}, "run_at: 2026-01-01T00:00:00 has no time zone"),
    "a naive text": ({"to": 1, "run_at": "2026-01-01T00:00:00"}, "run_at: 2026-01-01T00:00:00 has no time zone"),
    "no time at all": ({"to": 1, "run_at": "tomorrow"}, "run_at: 'tomorrow' is not a time (RFC 3339"),
    "a number as time": ({"to": 1, "run_at": 1767225600}, "run_at: must be a datetime, not int"),
    "the year 9999": ({"to": 1, "run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "run_at: 9999-01-01T00:00:00+00:00 is"),
    "the year 1": ({"to": 1, "run_at": datetime(1, 1, 1, tzinfo=UTC)}, "run_at: 0001-01-01T00:00:00+00:00 is"),
    "two times": ({"to": 1, "run_at": "2026-01-01T00:00:00Z", "run_in": "1s"}, "run_in: run_at and run_in"),
    "no duration": ({"to": 1, "run_in": "soon"}, "run_in: 'soon' is not a duration: write it like"),
    "an empty duration": ({"to": 1, "run_in": ""}, "run_in: '' is not a duration"),
    "a negative duration": ({"to": 1, "run_in": -1}, "run_in: -1 is out of range"),
    "a negative text": ({"to": 1, "run_in": "-5m"}, "run_in: '-5m' is negative"),
    "a negative timedelta": ({"to": 1, "run_in": timedelta(-1)}, "run_in: -1 day, 0:00:00 is out of range"),
    "no number": ({"to": 1, "run_in": float("nan")}, "run_in: nan is not a"),
    "an endless duration": ({"to": 1, "run_in": float("inf")}, "run_in: inf is not a"),
    "true is not a second": ({"to": 1, "run_in": True}, "run_in: True is not a duration"),
    "half a month": ({"to": 1, "run_in": "P0.5M"}, "run_in: 'P0.5M' has a fraction of a calendar day or month"),
    "an absurd duration": ({"to": 1, "run_in": 1e300}, "run_in: 1e+300 is out of range"),
    "a queue with spaces": ({"to": 1, "queue": "my queue"}, "queue: 'my queue' is not a name"),
    "an empty queue": ({"to": 1, "queue": ""}, "queue: '' is not a name"),
    "a queue with NUL": ({"to": 1, "queue": "a\x00"}, "queue: 'a\\x00' is not a name"),
    "a long queue": ({"to": 1, "queue": "q" * 201}, "queue: 201 characters are too many (at most 200)"),
    "no queue": ({"to": 1, "queue": 7}, "queue: must be text, not int"),
    "a priority in lower case": ({"to": 1, "priority": "high"}, "priority: 'high' is not a valid value (one of HIGH"),
    "a number as priority": ({"to": 1, "priority": 5}, "priority: 5 is not a valid value"),
    "a list as priority": ({"to": 1, "priority": ["HIGH"]}, "priority: ['HIGH'] is not a valid value"),
    "tags as text": ({"to": 1, "tags": "eu"}, "tags: 'eu' is not a list of tags"),
    "a bad tag": ({"to": 1, "tags": ["ok", "not ok"]}, "tags: 'not ok' is not a name"),
    "a tag that is no text": ({"to": 1, "tags": [7]}, "tags: must be text, not int"),
    "an empty key": ({"to": 1, "key": ""}, "key: is not a valid key"),
    "a long key": ({"to": 1, "key": "k" * 256}, "key: is not a valid key (1 to 255 printable characters)"),
    "a key with NUL": ({"to": 1, "idempotency_key": "a\x00"}, "idempotency_key: is not a valid key"),
    "a key with half a character": ({"to": 1, "idempotency_key": "\ud83d"}, "idempotency_key: is not a valid key"),
    "a number as key": ({"to": 1, "idempotency_key": 7}, "idempotency_key: must be text, not int"),
    "a job name that is no text": ({"to": 1, "name": 7}, "name: must be text, not int"),
    "a job name with NUL": ({"to": 1, "name": "a\x00"}, "name: is not a valid"),
    "negative retries": ({"to": 1, "retries": -1}, "retries: -1 is out of range (0 to 1,000)"),
    "half a retry": ({"to": 1, "retries": 0.5}, "retries: 0.5 is not a whole number"),
    "true retries": ({"to": 1, "retries": True}, "retries: True is not a whole number"),
    "a policy that is none": ({"to": 1, "retry": 3}, "retry: must be a RetryPolicy, not int"),
    "a policy of text": ({"to": 1, "retry": RetryPolicy(retries="3")}, "retry.retries: '3' is not a number"),
    "a negative backoff": ({"to": 1, "retry": RetryPolicy(base=-1)}, "retry.base: -1 is not a number of seconds"),
    "a backoff beyond numbers": ({"to": 1, "retry": RetryPolicy(cap=10**400)}, f"retry.cap: {10**400} is not"),
    "an endless backoff": ({"to": 1, "retry": RetryPolicy(cap=float("inf"))}, "retry.cap: inf is not a number"),
    "an error as text": ({"to": 1, "retry": RetryPolicy(retry_on="KeyError")}, "retry.retry_on: 'KeyError' is not a"),
    "an error that is none": ({"to": 1, "retry": RetryPolicy(give_up_on=(int,))}, "retry.give_up_on: must be text"),
    "retries at most once": ({"to": 1, "delivery": "at_most_once", "retries": 2}, "retries: `at_most_once` does not"),
    "an unknown delivery": ({"to": 1, "delivery": "twice"}, "delivery: 'twice' is not a valid value"),
    "no timeout": ({"to": 1, "timeout": 0}, "timeout: 0 is out of range"),
    "a long timeout": ({"to": 1, "timeout": "8d"}, "timeout: 8d is out of range"),
    "a timeout of words": ({"to": 1, "timeout": "long"}, "timeout: 'long' is not a duration"),
    "cron goes with schedule": ({"to": 1, "cron": "* * * * *"}, "cron: `cron` is not an option here (it goes with"),
}
# fmt: on

# fmt: off
SCHEDULES: dict[str, tuple[dict[str, Any], str]] = {
    "no time": ({}, "cron: `cron`, `every`, `when`, `rrule` or `after` is required (or use submit)"),
    "both": ({"cron": "* * * * *", "every": "1h"}, "every: cron and every cannot be combined"),
    "too few fields": ({"cron": "* * * *"}, "cron: '* * * *' is not a cron line"),
    "an odd minute": ({"cron": "61 * * * *"}, "cron: the minute 61 is out of range (0 to 59)"),
    "words": ({"cron": "every day at noon"}, "cron: 'every day at noon' is not a cron line"),
    "an empty line": ({"cron": ""}, "cron: '' is not a cron line"),
    "a line of other letters": ({"cron": "＊ * * * *"}, "cron: is not a cron line"),
    "no line": ({"cron": 5}, "cron: must be text, not int"),
    "the 31st of February": ({"cron": "0 0 31 2 *"}, "cron: never fires: no day has day of month 31, month 2"),
    "an unknown zone": ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "tz: 'Mars/Olympus' is not a time zone"),
    "a path": ({"cron": "* * * * *", "tz": "../../etc/passwd"}, "tz: '../../etc/passwd' is not a"),
    "an absolute path": ({"cron": "* * * * *", "tz": "/etc/passwd"}, "tz: '/etc/passwd' is not a time zone"),
    "an empty zone": ({"cron": "* * * * *", "tz": ""}, "tz: '' is not a time zone (a name such as Europe/Berlin)"),
    "an offset": ({"cron": "* * * * *", "tz": "+01:00"}, "tz: '+01:00' is not a time zone"),
    "a number as zone": ({"cron": "* * * * *", "tz": 1}, "tz: '1' is not a time zone"),
    "a folder of zones": ({"cron": "* * * * *", "tz": "Europe"}, "tz: 'Europe' is not a time zone"),
    "a zone with NUL": ({"cron": "* * * * *", "tz": "UTC\x00"}, "tz: 'UTC\\x00' is not a time zone"),
    "a short interval": ({"every": "0.5s"}, "every: 0.5s is too short (at least 1s)"),
    "a bad interval": ({"every": "often"}, "every: 'often' is not a duration"),
    "a naive start": ({"every": "1h", "start_at": "2026-01-01"}, "start_at: 2026-01-01T00:00:00 has no time zone"),
    "a delay": ({"every": "1h", "run_in": "1h"}, "run_in: `run_in` is not an option here (it goes with `submit`)"),
}
# fmt: on


# What cannot become a task at all.
def positional_only(a: int, /, b: int) -> None: ...
def star(*args: int) -> None: ...
def late_context(a: int, ctx: Context) -> None: ...


def method(self: Any) -> None: ...
def generator() -> Any:
    yield


async def async_generator() -> Any:
    yield


def fine() -> None: ...


# fmt: off
TASKS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a positional parameter": (positional_only, {}, "task: positional_only has the positional parameter 'a' ("),
    "any number of them": (star, {}, "task: star has the positional parameter 'args'"),
    "a context that is not first": (late_context, {}, "task: the context 'ctx' is not the first parameter of late"),
    "a method": (method, {}, "task: method is a method (use a function or a static method)"),
    "a generator": (generator, {}, "task: generator is a generator: its body would never run (return instead"),
    "an async generator": (async_generator, {}, "task: async_generator is a generator"),
    "a partial": (functools.partial(fine), {}, "task: functools.partial(<function fine"),
    "a class": (dict, {}, "task: <class 'dict'> is not a function (decorate a def or an async def)"),
    "a name with spaces": (fine, {"name": "my task"}, "task: 'my task' is not a name"),
    "an empty name": (fine, {"name": ""}, "task: '' is not a name"),
    "negative retries": (fine, {"retries": -1}, "retries: -1 is out of range"),
    "a bad policy": (fine, {"retry": RetryPolicy(retries=-1)}, "retry.retries: -1 is not a number of retries"),
    "a bad timeout": (fine, {"timeout": "soon"}, "timeout: 'soon' is not a duration"),
    "no timeout": (fine, {"timeout": 0}, "timeout: 0 is out of range"),
    "a bad queue": (fine, {"queue": "my queue"}, "queue: 'my queue' is not a name"),
    "a bad priority": (fine, {"priority": "urgent"}, "priority: 'urgent' is not a valid value"),
    "a bad delivery": (fine, {"delivery": "exactly_once"}, "delivery: 'exactly_once' is not a valid value"),
    "a local process": (lambda: None, {"process": True, "name": "f"}, "process: f is defined inside another function"),
}
# fmt: on


@pytest.fixture
def app() -> App:
    app = App()

    @app.task(name="send")
    async def send(ctx, to, subject="hi"): ...  # without annotations, so that the messages above stay short

    return app


async def refused(app: App, act: Callable[[], Any], message: str, kind: type[DuetimeError] = InvalidInput) -> None:
    """The act is refused in these words, and leaves nothing behind."""
    async with testing.harness(app) as harness:
        with pytest.raises(kind, match=f"^{re.escape(message)}"):
            await act()
        assert harness.submitted == []
        assert await (await app.store()).reads.counts() == Counts(0, 0, 0, 0)


def submitted(app: App, given: dict[str, Any]) -> Any:
    """A submission of `send` with these options and arguments."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    return app.submit("send", {name: value for name, value in given.items() if name not in OPTIONS}, **options)


@pytest.mark.parametrize(("given", "message"), SUBMISSIONS.values(), ids=SUBMISSIONS)
async def test_a_submission(app: App, given: dict[str, Any], message: str) -> None:
    await refused(app, lambda: submitted(app, given), message)


@pytest.mark.parametrize(("given", "message"), SCHEDULES.values(), ids=SCHEDULES)
async def test_a_schedule(app: App, given: dict[str, Any], message: str) -> None:
    await refused(app, lambda: app.schedule("send", {"to": 1}, **given), message)


@pytest.mark.parametrize(("function", "options", "message"), TASKS.values(), ids=TASKS)
def test_a_task(app: App, function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        app.task(**options)(function)
    assert list(app.tasks) == ["send"]


async def test_a_task_that_is_not_there(app: App) -> None:
    message = "task: there is no task 'sned' in this app (it has: send)"
    await refused(app, lambda: app.submit("sned", {"to": 1}), message, NotFound)
    await refused(app, lambda: app.submit("send", ["a"]), "args: ['a'] is not a dict of arguments")
    await refused(app, lambda: app.submit("send", {1: 2}), "args: {1: 2} is not a dict")
    await refused(app, lambda: app.submit(fine), "task: <function fine")
    other = App()
    task = other.task(name="send")(fine)
    await refused(app, lambda: app.submit(task), "task: the task 'send' belongs to another app", NotFound)


def test_a_start_hook(app: App) -> None:
    with pytest.raises(
        InvalidInput, match=r"^on_start: <function fine .* is not an async function \(write async def\)"
    ):
        app.on_start(fine)


def test_one_name_is_one_task(app: App) -> None:
    with pytest.raises(InvalidInput, match=r"^task: the task 'send' already exists \(give it a name=\)"):
        app.task(name="send")(fine)


async def test_a_batch(app: App) -> None:
    send = app.tasks["send"]
    await refused(
        app,
        lambda: app.submit_many([send.bind(to=1), {"to": 2}]),  # type: ignore[list-item]
        "calls[1].task: {'to': 2} is not a task",
    )
    await refused(app, lambda: app.submit_many([send.bind(to=1), send.bind(to={2})]), "calls[1].args.to: set is not")
    await refused(app, lambda: app.submit_many([send.bind(to=1)], to=2), "to: is not an option (one of")
    await refused(
        app,
        lambda: app.submit_many([send.bind(to=1), send.bind(to=2)], key="one"),
        "jobs[1].key: 'one' appears twice in this batch",
    )


IDS = ["", "job_", "run_01k00000000000000000000000", "job_01k0000000000000000000000u", 7, None]


@pytest.mark.parametrize("job_id", IDS)
async def test_an_id(app: App, job_id: Any) -> None:
    await refused(app, lambda: app.job(job_id), f"job_id: {job_id!r} is not a job id (looks like job_01k…)")


async def test_the_names_of_options_that_tasks_may_use(app: App) -> None:
    """What is not an option may be a parameter, whatever duetime's own methods call theirs."""

    @app.task(name="odd")
    async def odd(task: str, self: str, batch: int, name: str) -> str:
        return f"{task} {self} {batch} {name}"

    async with testing.harness(app) as harness:
        await odd.submit(task="t", self="s", batch=1, name="n")
        await app.submit("odd", {"task": "t", "self": "s", "batch": 1, "name": "n"})
        harness.assert_submitted(odd.bind(task="t", self="s", batch=1, name="n"))
        assert [run.value for run in await harness.run_due()] == ["t s 1 n"] * 2
