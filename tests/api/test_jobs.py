"""Jobs over HTTP: from the request to the run and back."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from duetime.api.routes.batches import MOST
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.worker import WorkerInfo
from duetime.sdk.app import App
from tests.support.served import Answer, Served
from tests.support.waiting import eventually
from tests.support.working import quick_settings, working


async def ended(api: Served, job_id: str) -> dict[str, Any]:
    async def over() -> Any:
        status = (await api.get(f"/v1/jobs/{job_id}/status")).json
        return status if status["status"] in ("SUCCEEDED", "FAILED", "CANCELLED") else None

    return await eventually(over)


async def test_the_whole_road(api: Served, database_url: str) -> None:
    """A key, a job through HTTP that runs, and its result."""
    app = App(settings=quick_settings(database_url))

    @app.task(name="add")
    async def add(ctx: Any, a: int, b: int) -> int:
        ctx.logger.info("adding")
        return a + b

    submitter, viewer = await api.key(Role.SUBMITTER), await api.key(Role.VIEWER)
    with app.using_store(api.store):
        async with working(app):
            await eventually(lambda: api.store.queues.tasks(1))
            made = await api.post("/v1/jobs", {"task": "add", "args": {"a": 1, "b": 2}, "owner": "ann"}, key=submitter)
            assert (made.status, made.json["status"], made.json["created"]) == (201, "PENDING", True)
            assert made.json["warnings"] == []
            status = await ended(api, made.json["job_id"])
    assert (status["status"], status["attempts"], status["failure_reason"]) == ("SUCCEEDED", 1, None)
    run = (await api.get(f"/v1/runs/{status['last_run']['run_id']}", key=viewer)).json
    assert (run["result"], run["args"], run["status"]) == (3, {"a": 1, "b": 2}, "SUCCEEDED")
    assert run["attempts"][0]["logs"][0]["text"] == "adding"
    job = (await api.get(f"/v1/jobs/{made.json['job_id']}", key=viewer)).json
    assert (job["status"], job["owner"], job["priority"]) == ("SUCCEEDED", "ann", "MEDIUM")


async def test_what_a_task_logs_is_shown_while_it_runs(api: Served, database_url: str) -> None:
    app = App(settings=quick_settings(database_url))
    let_go = asyncio.Event()

    @app.task(name="talk")
    async def talk(ctx: Any) -> None:
        ctx.logger.info("beginning")
        await let_go.wait()

    viewer = await api.key(Role.VIEWER)

    async def lines() -> list[str]:
        runs = (await api.get("/v1/runs?status=RUNNING", key=viewer)).json["items"]
        shown = [(await api.get(f"/v1/runs/{run['run_id']}", key=viewer)).json for run in runs]
        return [line["text"] for run in shown for line in run["logs"]]

    with app.using_store(api.store):
        async with working(app):
            await talk.submit()
            assert await eventually(lines) == ["beginning"]
            let_go.set()


async def test_a_job_says_all_that_was_asked(api: Served) -> None:
    asked = {
        "task": "report",
        "name": "weekly",
        "owner": "ann",
        "args": {"to": ["a@b.c"]},
        "payload_ref": "s3://bucket/object",
        "cron": "0 9 * * MON",
        "tz": "Europe/Berlin",
        "queue": "mail",
        "priority": "HIGH",
        "retries": 7,
        "timeout": "90s",
        "misfire": "skip",
        "overlap": "queue",
        "jitter": "10s",
        "max_runs": 5,
        "key": "weekly-report",
        "tags": ["a", "b"],
    }
    made = (await api.post("/v1/jobs", asked)).json
    job = (await api.get(f"/v1/jobs/{made['job_id']}")).json
    for name in (
        "task",
        "name",
        "owner",
        "args",
        "payload_ref",
        "queue",
        "priority",
        "overlap",
        "max_runs",
        "key",
        "tags",
    ):
        assert job[name] == asked[name], name
    assert (job["timeout"], job["retry"]["retries"], job["misfire"]["mode"], job["jitter"]) == (90.0, 7, "skip", 10.0)
    assert (
        job["schedule"]
        == {
            "kind": "cron",
            "exact": "cron 0 9 * * MON",
            "sentence": "Every Monday at 09:00, Europe/Berlin",
            "tz": "Europe/Berlin",
        }
        or job["schedule"]["exact"] == "cron 0 9 * * MON"
    )
    assert (job["status"], job["version"], job["next_run"]) == ("ACTIVE", 1, made["next_run"])


async def test_times(api: Served) -> None:
    for given in (
        {"run_in": "1h"},
        {"run_in": 3600},
        {"run_in": "P1D", "tz": "Europe/Berlin"},
        {"run_at": "2080-01-01T00:00:00+01:00"},
        {"every": "15m"},
        {"when": "every weekday at 9am", "tz": "Asia/Tokyo"},
        {"when": "in 3 hours"},
        {"when": "0 9 * * *"},
    ):
        made = await api.post("/v1/jobs", {"task": "t"} | given)
        assert made.status == 201 and made.json["next_run"] is not None, (given, made.body)


async def test_a_time_in_the_past_runs_now_and_says_so(api: Served) -> None:
    made = (await api.post("/v1/jobs", {"task": "t", "run_at": "2020-01-01T00:00:00Z"})).json
    assert any("past" in warning for warning in made["warnings"])


async def test_a_task_that_nobody_has(api: Served) -> None:
    waits = (await api.post("/v1/jobs", {"task": "t"})).json
    assert "no worker provides the task" in waits["warnings"][0]
    why = (await api.get(f"/v1/jobs/{waits['job_id']}/why")).json
    assert (why["run_id"], [each["code"] for each in why["reasons"]]) == (waits["run_id"], ["no_worker"])
    later = (await api.post("/v1/jobs", {"task": "t", "run_in": "1h"})).json
    why = (await api.get(f"/v1/jobs/{later['job_id']}/why")).json
    assert [each["code"] for each in why["reasons"]] == ["not_due"]


async def test_a_task_whose_name_is_nearly_right(api: Served) -> None:
    tasks = ("reports.send_report", "reports.pay")
    await api.store.leases.register(WorkerInfo(new_id(), "a", tasks, (), 1), timedelta(minutes=1))
    for given in ("send_report", "report.send_report", "reports.sendreport"):
        [warning] = (await api.post("/v1/jobs", {"task": given})).json["warnings"]
        assert warning.endswith("did you mean 'reports.send_report'?"), given
    [warning] = (await api.post("/v1/jobs", {"task": "mail"})).json["warnings"]
    assert warning.endswith("the job waits until one does")


async def test_steering(api: Served) -> None:
    job_id = (await api.post("/v1/jobs", {"task": "t", "every": "1h"})).json["job_id"]

    async def act(what: str, **body: Any) -> Answer:
        return await api.post(f"/v1/jobs/{job_id}/{what}", body or None)

    assert (await act("pause")).json == {"job_id": job_id, "status": "PAUSED"}
    assert (await act("resume")).json == {"job_id": job_id, "status": "ACTIVE"}
    run = await act("trigger")
    assert (run.status, run.json["status"], run.json["job_id"]) == (201, "PENDING", job_id)
    filled = await act("backfill", start="2026-01-01T00:00:00Z", end="2026-01-01T00:00:01Z")
    assert (filled.status, filled.json) == (202, {"job_id": job_id, "runs": 0})
    assert (await api.post(f"/v1/runs/{run.json['run_id']}/cancel")).json["status"] == "CANCELLED"
    again = await api.post(f"/v1/runs/{run.json['run_id']}/retry")
    assert (again.status, again.json["replays"]) == (200, run.json["run_id"])
    assert (await act("cancel")).json == {"job_id": job_id, "status": "CANCELLED"}
    answer = await act("pause")
    assert (answer.status, answer.code) == (409, "conflict")
    assert (await api.ask("DELETE", f"/v1/jobs/{job_id}")).json == {"deleted": True}
    assert (await api.get(f"/v1/jobs/{job_id}")).status == 404
    assert (await api.ask("DELETE", f"/v1/jobs/{job_id}")).status == 404


async def test_lists_are_paged_and_filtered(api: Served) -> None:
    for index in range(5):
        await api.post(
            "/v1/jobs",
            {"task": f"t{index % 2}", "owner": "ann", "tags": ["x"], "run_in": "1h", "args": {"secret": index}},
        )
    assert b"secret" not in (await api.get("/v1/jobs")).body
    seen: list[str] = []
    path = "/v1/jobs?owner=ann&page_size=2"
    cursor: str | None = ""
    while cursor is not None:
        page = (await api.get(path + (f"&cursor={cursor}" if cursor else ""))).json
        seen += [item["job_id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 5 and seen == sorted(seen, reverse=True)
    for query, count in (("task=t1", 2), ("tag=x", 5), ("owner=bob", 0), ("status=PENDING", 5), ("queue=other", 0)):
        items = (await api.get(f"/v1/jobs?{query}")).json["items"]
        assert len(items) == count, query


async def test_batches(api: Served) -> None:
    items = [{"task": "t", "args": {"n": n}} for n in range(3)]
    whole = (await api.post("/v1/jobs/batch", items)).json
    assert (whole["stored"], whole["refused"]) == (3, 0)
    assert [item["index"] for item in whole["items"]] == [0, 1, 2]
    part = (await api.post("/v1/jobs/batch?partial=true", [*items, {"task": "t", "cron": "x"}])).json
    assert (part["stored"], part["refused"]) == (3, 1)
    assert part["items"][3]["problem"]["field"] == "cron"
    lines = b"\n".join(json.dumps(item).encode() for item in items) + b"\n"
    ndjson = {"Content-Type": "application/x-ndjson"}
    assert (await api.ask("POST", "/v1/jobs/batch", raw=lines, headers=ndjson)).json["stored"] == 3
    assert (await api.store.reads.counts()).runs == 9


async def test_the_largest_batch(api: Served) -> None:
    answer = await api.post("/v1/jobs/batch", [{"task": "t"}] * MOST)
    assert (answer.status, answer.json["stored"]) == (200, MOST)
    assert (await api.store.reads.counts()).runs == MOST


async def test_single_submissions_share_transactions(api: Served) -> None:
    answers = await asyncio.gather(*(api.post("/v1/jobs", {"task": "t", "args": {"n": n}}) for n in range(100)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["job_id"] for answer in answers}) == 100
    assert (await api.store.reads.counts()).runs == 100


async def test_one_conflict_among_many_is_its_own(api: Served) -> None:
    await api.post("/v1/jobs", {"task": "t", "idempotency_key": "k"})
    answers = await asyncio.gather(
        *(
            api.post("/v1/jobs", {"task": "other" if n == 5 else "t", "idempotency_key": "k" if n == 5 else None})
            for n in range(20)
        )
    )
    assert [answer.status for answer in answers].count(422) == 1 and answers[5].code == "idempotency_key_reused"
    assert (await api.store.reads.counts()).runs == 20


async def test_preview(api: Served) -> None:
    answer = await api.post(
        "/v1/schedules/preview",
        {"schedule": "every day at 2:30", "tz": "Europe/Berlin", "start": "2026-03-28T12:00:00Z", "count": 2},
    )
    first = answer.json["fires"][0]
    assert (first["change"], first["utc"]) == ("moved", "2026-03-29T01:00:00Z")
    assert answer.json["schedule"]["kind"] == "cron"
    assert (await api.post("/v1/schedules/preview", {})).status == 422


async def test_the_sentence_and_the_fires_of_a_preview_go_by_one_clock(api: Served) -> None:
    start = {"start": "2026-03-27T10:00:00Z"}
    for when, zone, sentence, local in (
        ("tomorrow at 8", "Europe/Berlin", "Once, at 2026-03-28 08:00, Europe/Berlin", "2026-03-28T08:00:00+01:00"),
        ("tomorrow at 8", None, "Once, at 2026-03-28 08:00, UTC", "2026-03-28T08:00:00Z"),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", None, "At 09:00, Asia/Tokyo", "2026-03-28T09:00:00+09:00"),
    ):
        given = {"when": when, **start} | ({} if zone is None else {"tz": zone})
        shown = (await api.post("/v1/schedules/preview", given)).json
        assert (shown["schedule"]["sentence"], shown["fires"][0]["local"]) == (sentence, local)


async def test_a_one_off_that_a_clock_change_moves_says_so(api: Served) -> None:
    note = "02:30 does not exist: right after the gap"
    for given in ({"when": "the day after tomorrow at 2:30"}, {"run_in": "P2D"}):
        body = {**given, "tz": "Europe/Berlin", "start": "2026-03-27T01:30:00Z"}
        shown = (await api.post("/v1/schedules/preview", body)).json
        assert [(fire["utc"], fire["change"], fire["note"]) for fire in shown["fires"]] == [
            ("2026-03-29T01:00:00Z", "moved", note)
        ], given
        assert shown["schedule"]["sentence"] == f"Once, at 2026-03-29 03:00 ({note}), Europe/Berlin"
    twice = {"when": "tomorrow at 2:30", "tz": "Europe/Berlin", "start": "2026-10-24T10:00:00Z"}
    assert (await api.post("/v1/schedules/preview", twice)).json["fires"][0]["change"] == "first"


async def test_a_preview_without_fires_says_why(api: Served) -> None:
    start = {"start": "2026-03-27T10:00:00Z"}
    for given, reason in (
        ({"cron": "0 9 * * SUN", "exclude": {"weekdays": ["SUN"]}}, "falls on an excluded day"),
        ({"every": "P1W", "start_at": "2026-03-29T09:00:00Z", "exclude": {"weekdays": ["SUN"]}}, "an excluded day"),
        ({"cron": "0 9 * * *", "end_at": "2026-03-01T00:00:00Z"}, "end_at is before its next time"),
        ({"cron": "0 0 9 * * MON 2020"}, "the last was 2020-12-28 09:00:00+00:00"),
        ({"rrule": "DTSTART:20200101T090000 RRULE:FREQ=DAILY;COUNT=3"}, "the last was 2020-01-03 09:00:00+00:00"),
        ({"run_at": "2020-01-01T00:00:00Z"}, "that time has passed"),
    ):
        shown = (await api.post("/v1/schedules/preview", given | start)).json
        assert shown["fires"] == [] and reason in shown["reason"], given
    assert (await api.post("/v1/schedules/preview", {"cron": "0 9 * * *"})).json["reason"] is None


async def test_the_kinds_of_schedules_over_http(api: Served) -> None:
    for given, kind, exact in (
        ({"rrule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"}, "rrule", "rrule RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0"),
        ({"cron": "0 9 13 * FRI", "day_match": "both"}, "cron", "cron 0 9 13 * +FRI"),
        ({"cron": "rate(5 minutes)"}, "every", "every PT5M"),
    ):
        stored = await api.post("/v1/jobs", {"task": "t", **given})
        assert stored.status == 201, stored.json
        path = f"/v1/jobs/{stored.json['job_id']}"
        shown = (await api.get(path)).json["schedule"]
        assert (shown["kind"], shown["exact"]) == (kind, exact)
        changed = await api.ask("PATCH", path, {"rrule": "FREQ=DAILY;BYHOUR=10;BYMINUTE=0"})
        assert changed.json["schedule"]["sentence"] == "Every day, at 10:00, UTC"
    for given, field in (
        ({"rrule": "FREQ=DAILY;INTERVAL=0"}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "cron": "0 9 * * *"}, "rrule"),
        ({"cron": "CRON_TZ=Asia/Tokyo 0 9 * * *", "tz": "Europe/Berlin"}, "tz"),
        ({"every": "1h", "day_match": "both"}, "day_match"),
        ({"when": "every weekday at 9am", "day_match": "both"}, "day_match"),
        ({"cron": "0 9 * * *", "day_match": "neither"}, "day_match"),
    ):
        refused = await api.post("/v1/jobs", {"task": "t", **given})
        assert (refused.status, refused.json["field"]) == (422, field), given


async def test_a_preview_leaves_out_the_days_of_calendars(api: Served) -> None:
    await api.ask("PUT", "/v1/calendars/holidays", {"dates": ["2030-12-25"]})
    exclude = {"calendars": ["holidays"], "weekdays": ["SAT"]}
    bounds = {"exclude": exclude, "start": "2030-12-24T00:00:00Z", "end_at": "2030-12-30T00:00:00Z", "count": 9}
    for told in ({"schedule": "every day at 9:00"}, {"when": "every day at 9:00"}, {"cron": "0 9 * * *", "tz": "UTC"}):
        shown = (await api.post("/v1/schedules/preview", told | bounds)).json
        assert [fire["utc"][8:10] for fire in shown["fires"]] == ["24", "26", "27", "29"], told
        assert shown["schedule"]["exclude"]["calendars"] == ["holidays"]
    for given, field in (
        ({"cron": "0 9 * * *", "exclude": {"calendars": ["nowhere"]}}, "exclude.calendars"),
        ({"schedule": "tomorrow at 9", "exclude": exclude}, "exclude"),
        ({"schedule": "hourly", "cron": "0 9 * * *"}, "cron"),
        ({"schedule": "once in a blue moon"}, "schedule"),
        ({"when": "once in a blue moon"}, "when"),
        ({"when": "hourly", "tz": "Nowhere/Land"}, "tz"),
    ):
        refused = await api.post("/v1/schedules/preview", given)
        assert (refused.status, refused.json["field"]) == (422, field), given
