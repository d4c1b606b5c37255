"""The workload's side: it asks through the SDK, and writes down what it asked and what it was told.

An answer is `ok`, or `refused`, which says that nothing happened; everything else is `unknown`: it may have happened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import count, cycle
from typing import Any, Literal, TypeVar

from chaos.history import Record, Writer
from chaos.retries import answered
from duetime import App, Conflict, InvalidInput, JobReceipt, Misfire, Needs, NotFound, RetryPolicy, Run
from duetime.ids import show
from duetime.model.policy import MOST_CAUGHT_UP, MisfireMode

T = TypeVar("T")
Answer = tuple[str, Any]
Ending = Literal["success", "finished"]
"""How a parent has to end."""

RETRIES = RetryPolicy(retries=3, base=2.0, cap=10.0, lost_retries=10)
"""Singles may lose more workers than usual: some run long, and five faults within minutes may each cost an attempt.
What is submitted in bulk keeps the usual policy."""
_REFUSED = (InvalidInput, Conflict, NotFound)


class Client:
    def __init__(self, app: App, writer: Writer, now: Callable[[], float], *, name: str = "") -> None:
        """`name` tells its requests from those of other clients that write into the same logs."""
        self._app = app
        self._writer = writer
        self._now = now
        self._numbers = (f"{name}{number}" for number in count(1))
        self.jobs: dict[str, str] = {}
        """The job of each tag, as soon as it is known."""

    async def submit(
        self,
        tag: str,
        *,
        wait: float | None = None,
        at: float | None = None,
        idempotent: str | None = None,
        seconds: float = 0.0,
        fail: int = 0,
        once: bool = False,
        concurrency_key: str | None = None,
        parent: str | None = None,
        on: Ending = "success",
    ) -> Answer:
        """`once`: never start twice, whatever becomes of it. `concurrency_key`: one of this key at a time.
        `parent`: the tag of a job to wait for."""
        asked = {"op": "submit", "tag": tag, "in": wait, "at": at, "idempotent": idempotent, "once": once}
        delivery = {"delivery": "at_most_once"} if once else {"retry": RETRIES}
        options: dict[str, Any] = {**delivery}
        if idempotent is not None:
            options["idempotency_key"] = idempotent
        if concurrency_key is not None:
            asked["alone"] = options["concurrency_key"] = concurrency_key
        if parent is not None:
            asked |= {"parent": parent, "on": on}
            options["depends_on"] = Needs([self.jobs[parent]], on=on)
        if wait is not None:
            options["run_in"] = wait
        if at is not None:
            options["run_at"] = datetime.fromtimestamp(at, UTC)

        async def ask() -> JobReceipt:
            return await self._app.submit("work", {"tag": tag, "seconds": seconds, "fail": fail}, **options)

        return await self._receipt({**asked, "fail": fail, "retries": 0 if once else RETRIES.retries}, ask)

    async def submit_many(
        self, tags: Sequence[str], *, seconds: Sequence[float] = (0.0,), queue: str | None = None
    ) -> Answer:
        """`seconds`: what each takes, in turn."""

        async def ask() -> Sequence[JobReceipt]:
            work = self._app.tasks["work"]
            if queue is not None:
                work = work.options(queue=queue)
            return await self._app.submit_many(
                work.bind(tag=tag, seconds=each) for tag, each in zip(tags, cycle(seconds), strict=False)
            )

        def told(receipts: Sequence[JobReceipt]) -> Record:
            self.jobs |= {tag: receipt.job_id for tag, receipt in zip(tags, receipts, strict=True)}
            jobs, ways = [receipt.job_id for receipt in receipts], [receipt.via for receipt in receipts]
            return {"jobs": jobs, "vias": ways}

        return await self._ask({"op": "batch", "tags": list(tags)}, ask, told)

    async def schedule(self, tag: str, schedule: Record, *, misfire: MisfireMode, seconds: float = 0.0) -> Answer:
        """Schedule a job, or replace it: the tag is its key."""
        given = dict(schedule)
        start_at = given.pop("start_at", None)
        if start_at is not None:
            given["start_at"] = datetime.fromtimestamp(start_at, UTC)

        # Catching up is bounded; the longest outage or clock step here stays within this bound.
        policy = Misfire("all", most=MOST_CAUGHT_UP) if misfire == "all" else misfire

        async def ask() -> JobReceipt:
            return await self._app.schedule("work", {"tag": tag, "seconds": seconds}, key=tag, misfire=policy, **given)

        asked = {"op": "schedule", "tag": tag, "schedule": schedule, "misfire": misfire, "most": MOST_CAUGHT_UP}
        return await self._receipt(asked, ask)

    async def follow(self, tag: str, parent: str) -> Answer:
        """A run after each success of another job: the tag is its key."""
        job = self.jobs[parent]

        async def ask() -> JobReceipt:
            return await self._app.schedule("work", {"tag": tag}, key=tag, after=job)

        return await self._receipt({"op": "follow", "tag": tag, "parent": parent}, ask)

    async def unfollow(self, tag: str) -> Answer:
        job = self.jobs[tag]
        return await self._ask({"op": "unfollow", "tag": tag}, lambda: self._app.cancel(job), lambda _: {})

    async def cancel(self, tag: str, *, recurring: bool = False) -> Answer:
        job = self.jobs[tag]
        asked = {"op": "cancel", "tag": tag, "recurring": recurring}
        return await self._ask(asked, lambda: self._app.cancel(job), lambda _: {})

    async def pause(self, tag: str) -> Answer:
        return await self.steer(tag, "pause", lambda: self._app.pause(self.jobs[tag]))

    async def resume(self, tag: str) -> Answer:
        return await self.steer(tag, "resume", lambda: self._app.resume(self.jobs[tag]))

    async def steer(self, tag: str, op: str, ask: Callable[[], Awaitable[object]]) -> Answer:
        """Ask for something that stops a recurring job for a while, or lets it go on."""
        return await self._ask({"op": op, "tag": tag}, ask, lambda _: {})

    async def trigger(self, tag: str) -> Answer:
        job = self.jobs[tag]
        return await self._ask({"op": "trigger", "tag": tag}, lambda: self._app.trigger(job), lambda _: {})

    async def until_known(self, ask: Callable[[], Awaitable[Answer]], pause: float = 1.0) -> Answer:
        """Repeat a request that may be repeated, until it is known what became of it."""
        while True:
            answer = await ask()
            if answer[0] != "unknown":
                return answer
            await asyncio.sleep(pause)

    async def tell_ends(self, limit: int = 5_000) -> None:
        """Write down what became of every job, as the product tells it."""
        for tag, job in self.jobs.items():
            await self.tell_end(tag, job, limit)

    async def tell_end(self, tag: str, job: str, limit: int = 5_000) -> None:
        try:
            runs = await answered(lambda: self._app.runs(job, limit))
            if not runs:
                await answered(lambda: self._app.job(job))
        except NotFound:
            self._writer.write("ended", {"what": "job", "tag": tag, "job": job, "found": False})
            return
        self._writer.write("ended", {"what": "job", "tag": tag, "job": job, "found": True})
        for run in runs:
            self._writer.write("ended", {"what": "run", "tag": tag, "job": job, **_told(run)})

    async def _receipt(self, asked: Record, ask: Callable[[], Awaitable[JobReceipt]]) -> Answer:
        def told(receipt: JobReceipt) -> Record:
            self.jobs[asked["tag"]] = receipt.job_id
            return {"job": receipt.job_id, "created": receipt.created, "via": receipt.via}

        return await self._ask(asked, ask, told)

    async def _ask(self, asked: Record, ask: Callable[[], Awaitable[T]], told: Callable[[T], Record]) -> Answer:
        number = next(self._numbers)
        self._writer.write("asked", {"n": number, "t": self._now(), **asked})
        answer: Record
        value: T | None = None
        try:
            value = await ask()
            answer = {"outcome": "ok", **told(value)}
        except _REFUSED as error:
            answer = {"outcome": "refused", "error": type(error).__name__}
        except Exception as error:
            answer = {"outcome": "unknown", "error": f"{type(error).__name__}: {error}"}
        self._writer.write("answered", {"n": number, "t": self._now(), **answer})
        return answer["outcome"], value


def _told(run: Run) -> Record:
    return {
        "run": show("run", run.id),
        "due": run.due_at.timestamp(),
        "state": run.state.name,
        "attempt": run.attempt,
        "lost": run.lost,
        "by": run.value,
        "why": run.error,
        "finished": None if run.finished_at is None else run.finished_at.timestamp(),
        "attempts": [[attempt.state.name, attempt.fence] for attempt in run.attempts],
    }
