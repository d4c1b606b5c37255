"""Remote workers with thousands of tasks and claims."""

from typing import Any

from duetime import App, RetryPolicy
from duetime.model.access import Role
from duetime.model.defaults import decode_defaults
from tests.support.served import Served

MANY = [f"a.module.of.the.shop.and.a.task_{index}" for index in range(5000)]


async def test_a_worker_says_all_that_it_has(api: Served) -> None:
    key = await api.key(Role.WORKER)
    session: dict[str, str] = {}

    async def say(path: str, body: dict[str, Any]) -> Any:
        answer = await api.post(path, body, key=key, headers=session)
        assert answer.status in (200, 201), answer.body
        return answer.json

    retry = {"retries": 5, "base": 1.0}
    defaults = {name: {"queue": "billing", "retry": retry, "timeout": 60} for name in MANY}
    worker = await say("/v1/workers", {"name": "large", "tasks": MANY, "slots": 100_000, "defaults": defaults})
    told = await api.store.queues.task_defaults(1)
    assert len(told) == len(MANY) and decode_defaults(told[MANY[-1]])["retry"] == retry
    session["Duetime-Worker-Token"] = worker["token"]
    path = f"/v1/workers/{worker['worker_id']}"
    assert (await say(f"{path}/claim", {"claim_no": 1, "tasks": MANY, "wait": 0}))["runs"] == []
    assert (await say(f"{path}/heartbeat", {"open_claims": list(range(1, 100_001))}))["freed"] == 0


def test_a_retry_policy_is_told_without_what_holds_anyway() -> None:
    app = App()

    @app.task(retry=RetryPolicy(retries=5))
    async def fetch() -> None: ...

    assert fetch.defaults == b'{"retry":{"retries":5}}'
