"""Dependencies, graphs, chains and groups of dead letters over HTTP."""

from typing import Any

from duetime.ids import new_id, show
from tests.contract.hands import Hand, hand
from tests.support.served import Served

DIAMOND: dict[str, dict[str, Any]] = {
    "a": {"task": "greet"},
    "b": {"task": "greet", "depends_on": ["a"]},
    "c": {"task": "greet", "depends_on": {"nodes": ["a"], "on": "finished"}},
    "d": {"task": "greet", "depends_on": {"nodes": ["b", "c"], "need": "any", "otherwise": "run"}},
}


async def settle(api: Served) -> None:
    while await api.store.graphs.settle(100):
        pass


async def succeed_all(api: Served, worker: Hand) -> None:
    while runs := await worker.claim():
        await worker.succeed(*runs, result=b'{"n":1}')
        await settle(api)


def states(graph: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["status"] for node in graph["nodes"]}


async def test_a_graph_over_http(api: Served) -> None:
    once = {"Idempotency-Key": "g"}
    made = await api.post("/v1/graphs", {"name": "diamond", "nodes": DIAMOND}, headers=once)
    assert (made.status, made.json["size"], made.json["status"], made.json["created"]) == (201, 4, "RUNNING", True)
    again = await api.post("/v1/graphs", {"name": "diamond", "nodes": DIAMOND}, headers=once)
    assert (again.json["graph_id"], again.json["created"]) == (made.json["graph_id"], False)
    assert again.headers["idempotency-replayed"] == "true"
    other = await api.post("/v1/graphs", {"name": "other", "nodes": DIAMOND}, headers=once)
    assert other.status == 422 or other.status == 409
    path = f"/v1/graphs/{made.json['graph_id']}"
    seen = (await api.get(path)).json
    assert states(seen) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    assert {"parent": "b", "child": "d"} in seen["edges"] and len(seen["edges"]) == 4
    assert seen["counts"] == {"PENDING": 1, "BLOCKED": 3}
    worker = await hand(api.store)
    await worker.fail(await worker.claim_one())
    await settle(api)
    assert states((await api.get(path)).json)["b"] == "CANCELLED"
    await succeed_all(api, worker)
    over = (await api.get(path)).json
    assert (over["status"], states(over)["d"]) == ("FAILED", "SUCCEEDED")
    assert all(node["duration"] is not None for node in over["nodes"] if node["name"] != "b")
    rerun = (await api.post(f"{path}/rerun")).json
    assert states(rerun) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    await succeed_all(api, worker)
    done = (await api.get(path)).json
    assert done["status"] == "SUCCEEDED"
    conflict = await api.post(f"{path}/rerun")
    assert conflict.status == 409
    last = next(node for node in done["nodes"] if node["name"] == "d")
    parents = (await api.get(f"/v1/runs/{last['run_id']}/parents")).json["items"]
    assert sorted((item["name"], item["status"], item["result"]["n"]) for item in parents) == [
        ("b", "SUCCEEDED", 1),
        ("c", "SUCCEEDED", 1),
    ]
    listed = (await api.get("/v1/graphs")).json
    assert [item["graph_id"] for item in listed["items"]] == [made.json["graph_id"]]


async def test_a_graph_is_cancelled_over_http(api: Served) -> None:
    made = (await api.post("/v1/graphs", {"nodes": DIAMOND})).json
    cancelled = (await api.post(f"/v1/graphs/{made['graph_id']}/cancel")).json
    assert set(states(cancelled).values()) == {"CANCELLED"}


async def test_what_is_no_graph_is_refused(api: Served) -> None:
    circle = {"a": {"task": "t", "depends_on": ["c"]}, "b": {"task": "t", "depends_on": ["a"]}}
    circle["c"] = {"task": "t", "depends_on": ["b"]}
    refused = {
        "a → c → b → a": circle,
        "which is not a node": {"a": {"task": "t", "depends_on": ["nobody"]}},
        "recurring schedule": {"a": {"task": "t", "cron": "* * * * *"}},
        "cannot have its own key": {"a": {"task": "t", "key": "k"}},
        "cycle: a → a": {"a": {"task": "t", "depends_on": ["a"]}},
    }
    for words, nodes in refused.items():
        answer = await api.post("/v1/graphs", {"nodes": nodes})
        assert answer.status == 422 and words in answer.json["detail"], answer.json
        assert answer.json["field"].startswith("nodes.")
    assert (await api.post("/v1/graphs", {"nodes": {}})).status == 422
    assert (await api.get("/v1/graphs")).json["items"] == []


async def test_a_job_that_depends_on_others(api: Served) -> None:
    parent = (await api.post("/v1/jobs", {"task": "greet"})).json["job_id"]
    made = await api.post("/v1/jobs", {"task": "greet", "depends_on": [parent]})
    assert (made.status, made.json["status"], made.json["next_run"]) == (201, "BLOCKED", None)
    finished = {"jobs": [parent], "on": "finished"}
    other = (await api.post("/v1/jobs", {"task": "greet", "depends_on": finished})).json
    batch = await api.post("/v1/jobs/batch", [{"task": "greet", "depends_on": [parent]}])
    assert batch.json["stored"] == 1
    worker = await hand(api.store)
    await worker.fail(await worker.claim_one())
    await settle(api)
    status = (await api.get(f"/v1/jobs/{made.json['job_id']}/status")).json
    assert status["status"] == "CANCELLED" and parent in status["failure_reason"]
    assert (await api.get(f"/v1/jobs/{other['job_id']}")).json["status"] == "PENDING"
    unknown = await api.post("/v1/jobs", {"task": "greet", "depends_on": [show("job", new_id())]})
    assert (unknown.status, unknown.json["field"]) == (422, "depends_on")
    recurring = {"task": "greet", "every": "1h", "depends_on": [parent]}
    assert (await api.post("/v1/jobs", recurring)).json["field"] == "depends_on"


async def test_a_chain_over_http(api: Served) -> None:
    parent = (await api.post("/v1/jobs", {"task": "greet", "every": "1h"})).json["job_id"]
    after = {"job": parent, "on": "any"}
    made = await api.post("/v1/jobs", {"task": "count", "after": after})
    assert (made.status, made.json["status"]) == (201, "ACTIVE")
    job = (await api.get(f"/v1/jobs/{made.json['job_id']}")).json
    assert (job["schedule"]["kind"], job["schedule"]["exact"]) == ("after", f"after {parent} on any")
    await api.post(f"/v1/jobs/{parent}/trigger")
    worker = await hand(api.store)
    await succeed_all(api, worker)
    runs = (await api.get(f"/v1/jobs/{made.json['job_id']}/runs")).json["items"]
    assert [run["status"] for run in runs] == ["SUCCEEDED"]
    refused = await api.post("/v1/jobs", {"task": "count", "after": after, "cron": "* * * * *"})
    assert (refused.status, refused.json["field"]) == (422, "cron")


async def test_dead_letters_are_grouped(api: Served) -> None:
    worker = await hand(api.store)
    for task in ("greet", "greet", "count"):
        await api.post("/v1/jobs", {"task": task})
    for run in await worker.claim():
        await worker.fail(run)
    (group,) = (await api.get("/v1/dead-letters/groups")).json["groups"]
    assert (group["count"], group["tasks"], group["error"]) == (3, ["count", "greet"], "ValueError: no")
    kind = group["fingerprint"]
    assert len((await api.get(f"/v1/dead-letters?fingerprint={kind}")).json["items"]) == 3
    assert (await api.get("/v1/dead-letters?fingerprint=0123456789abcdef")).json["items"] == []
    replayed = await api.post("/v1/dead-letters/replay", {"fingerprint": kind, "limit": 2, "rate": 1, "delay": 60})
    assert (len(replayed.json["runs"]), replayed.json["more"]) == (2, True)
    discarded = await api.post("/v1/dead-letters/discard", {"fingerprint": kind})
    assert discarded.json == {"discarded": 1}
