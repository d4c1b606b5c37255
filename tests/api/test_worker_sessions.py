"""A worker's session belongs to the key that opened it, and every request of it carries its token: the whole worker
protocol × every caller that lacks one of the two."""

from datetime import timedelta
from typing import Any

import pytest

from duetime.api.table import ENDPOINTS
from duetime.api.worker_sessions import by_session
from duetime.errors import NotFound
from duetime.ids import new_id, parse
from duetime.model.access import Action, Role
from duetime.model.worker import WorkerInfo
from duetime.wire.workers import TOKEN_HEADER
from tests.support.served import Answer, Served, served

OF_A_SESSION = [endpoint for endpoint in ENDPOINTS if "worker_id" in endpoint.parameters]
REPORTS, MAIL = "reports", "mail"


class Victim:
    """A worker that holds a run with a payload, and what an attacker would send in its place."""

    def __init__(self, api: Served, key: str, worker: dict[str, Any], run: dict[str, Any], payload: str) -> None:
        self.api = api
        self.key = key
        self.id, self.token = worker["worker_id"], worker["token"]
        self.run_id, self.fence = run["run_id"], run["fence"]
        held = {"run_id": self.run_id, "fence": self.fence}
        self.payload = payload
        self.bodies: dict[str, Any] = {
            "claim_runs": {"claim_no": 2, "wait": 0},
            "heartbeat": {"open_claims": []},
            "complete_runs": {
                "completions": [{**held, "state": "SUCCEEDED", "result": "forged"}],
                "closed_claims": [1],
            },
            "note_progress": {"notes": [{**held, "progress": 0.9, "checkpoint": "forged"}]},
            "compare_runs": {"claims": [1], "runs": []},
            "hand_back_runs": {"runs": [held], "claims": [1], "not_held": [self.run_id]},
            "get_held_parents": {"run_id": self.run_id},
            "get_held_payload": None,
            "delete_worker": None,
        }

    async def ask(self, name: str, key: str, token: str | None) -> Answer:
        (endpoint,) = (each for each in OF_A_SESSION if each.name == name)
        path = endpoint.path.format(worker_id=self.id, payload_id=self.payload)
        headers = {} if token is None else {TOKEN_HEADER: token}
        return await self.api.ask(endpoint.method, path, self.bodies[name], key=key, headers=headers)

    async def is_unharmed(self) -> None:
        """It holds its run, nothing was said of it, and its lease goes on."""
        assert (await self.api.store.leases.worker(parse("wrk", self.id))).token_hash is not None
        (held,) = await self.api.store.leases.held_runs(parse("wrk", self.id), [parse("run", self.run_id)])
        assert (held.fence, held.checkpoint) == (self.fence, None)


async def a_victim(api: Served, key: str | None = None) -> Victim:
    key = key or await api.key(Role.WORKER, queues=(REPORTS,))
    payload = (await api.post("/v1/payloads", raw=b"secret")).json["payload_ref"]
    body = {"task": "report", "queue": REPORTS, "payload_ref": payload}
    assert (await api.post("/v1/jobs", body)).status == 201
    worker = (await api.post("/v1/workers", {"name": "victim", "tasks": ["report"]}, key=key)).json
    headers = {TOKEN_HEADER: worker["token"]}
    path = f"/v1/workers/{worker['worker_id']}/claim"
    (run,) = (await api.post(path, {"claim_no": 1, "wait": 5}, key=key, headers=headers)).json["runs"]
    await api.post("/v1/jobs", body)  # one more, which an attacker could claim
    return Victim(api, key, worker, run, payload)


def test_every_endpoint_of_a_session_asks_for_its_token() -> None:
    assert OF_A_SESSION
    for endpoint in OF_A_SESSION:
        assert endpoint.admit is by_session, endpoint.name
        assert endpoint.required_headers == (TOKEN_HEADER,), endpoint.name
        assert endpoint.may is Action.WORK, endpoint.name
    others = {endpoint.name for endpoint in ENDPOINTS if endpoint.may is Action.WORK} - {
        endpoint.name for endpoint in OF_A_SESSION
    }
    assert others == {"register_worker"}, "all that a worker does beside registering, it does in a session"


async def test_only_the_key_that_opened_a_session_acts_in_it_and_only_with_the_token(api: Served) -> None:
    victim = await a_victim(api)
    assert set(victim.bodies) == {endpoint.name for endpoint in OF_A_SESSION}
    elsewhere = await api.tenant("elsewhere")
    own = (await api.post("/v1/workers", {"name": "own", "tasks": ["report"]}, key=victim.key)).json
    strangers = {
        "a key of the same tenant": await api.key(Role.WORKER),
        "a key of the same queue": await api.key(Role.WORKER, queues=(REPORTS,)),
        "a key of another queue": await api.key(Role.WORKER, queues=(MAIL,)),
        "an admin": await api.key(Role.ADMIN),
        "a root key": api.root,
        "another tenant's key": await api.key(Role.WORKER, elsewhere.id),
    }
    attacks = [(name, key, token, 404) for name, key in strangers.items() for token in (victim.token, "dt_session_x")]
    attacks += [(name, key, None, 401) for name, key in strangers.items()]
    attacks += [
        ("the key without a token", victim.key, None, 401),
        ("the key with a wrong token", victim.key, victim.token[:-1] + ("a" if victim.token[-1] != "a" else "b"), 404),
        ("the key with the token of another session", victim.key, own["token"], 404),
        ("the key with the hash of the token", victim.key, await stored_hash(victim), 404),
    ]
    for name, key, token, status in attacks:
        for endpoint in OF_A_SESSION:
            answer = await victim.ask(endpoint.name, key, token)
            assert answer.status == status, (name, endpoint.name, answer.body)
            assert b"secret" not in answer.body and victim.token.encode() not in answer.body
    await victim.is_unharmed()
    assert (await victim.ask("get_held_payload", victim.key, victim.token)).body == b"secret"
    done = await victim.ask("complete_runs", victim.key, victim.token)
    assert (done.status, done.json["refused"]) == (200, [])


async def stored_hash(victim: Victim) -> str:
    """All that a copy of the database has of a token."""
    found = (await victim.api.store.leases.worker(parse("wrk", victim.id))).token_hash
    assert found is not None and len(found) == 32
    return found.hex()


async def test_a_worker_that_is_not_the_sessions_answers_as_a_missing_one(api: Served) -> None:
    victim = await a_victim(api)
    other = await api.key(Role.WORKER)
    answers = []
    for worker_id in (victim.id, "wrk_00000000000000000000000000"):
        victim.id = worker_id
        answers.append((await victim.ask("heartbeat", other, "x")).json)
    assert answers[0]["detail"].partition("wrk_")[0] == answers[1]["detail"].partition("wrk_")[0]
    assert answers[0].keys() == answers[1].keys()


async def test_an_ended_session_does_nothing_though_a_server_remembers_it(api: Served) -> None:
    """Another server, or the reaper, has ended it: this one still has the worker in its memory."""
    victim = await a_victim(api)
    await api.store.leases.leave(parse("wrk", victim.id))
    claimed = await victim.ask("claim_runs", victim.key, victim.token)
    assert claimed.status in (404, 409) or claimed.json["runs"] == []
    assert (await victim.ask("get_held_payload", victim.key, victim.token)).status == 404
    assert (await victim.ask("heartbeat", victim.key, victim.token)).code == "lease_lost"
    for endpoint in OF_A_SESSION:  # the heartbeat was told, and this server has forgotten it too
        assert (await victim.ask(endpoint.name, victim.key, victim.token)).status == 404, endpoint.name


async def test_a_session_opened_at_one_server_goes_on_at_another(api: Served, database_url: str) -> None:
    victim = await a_victim(api)
    if api.store.embedded:
        api.service.gateway._workers.clear()  # as after a restart: the file has one server
        assert (await victim.ask("heartbeat", victim.key, "x")).status == 404
        assert (await victim.ask("heartbeat", victim.key, victim.token)).status == 200
        return
    async with served(database_url) as other:
        victim.api = other
        assert (await victim.ask("heartbeat", victim.key, None)).status == 401
        assert (await victim.ask("heartbeat", victim.key, "x")).status == 404
        assert (await victim.ask("heartbeat", await other.key(Role.WORKER), victim.token)).status == 404
        assert (await victim.ask("complete_runs", victim.key, victim.token)).json["refused"] == []


async def test_a_session_costs_no_question_to_the_store(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = await a_victim(api)

    async def asked(worker_id: object) -> Any:
        raise AssertionError("the worker was asked for again")

    monkeypatch.setattr(api.store.leases, "worker", asked)
    for name in ("note_progress", "heartbeat", "complete_runs"):
        assert (await victim.ask(name, victim.key, victim.token)).status == 200
    assert (await victim.ask("heartbeat", victim.key, "x")).status == 404


async def test_a_session_outlives_the_rotation_of_its_key_for_as_long_as_the_key(api: Served) -> None:
    """The key that was replaced works for a while, and so do its sessions; its successor opens sessions of its own."""
    made = (await api.post("/v1/admin/keys", {"role": "worker", "name": "one", "queues": [REPORTS]})).json
    victim = await a_victim(api, made["key"])
    rotated = (await api.post(f"/v1/admin/keys/{made['key_id']}/rotate", {"overlap": "1h"})).json
    assert (await victim.ask("heartbeat", victim.key, victim.token)).status == 200
    assert (await victim.ask("heartbeat", rotated["key"], victim.token)).status == 404
    assert (await api.post("/v1/workers", {"name": "next", "tasks": ["report"]}, key=rotated["key"])).status == 201
    await api.post(f"/v1/admin/keys/{made['key_id']}/revoke")
    for endpoint in OF_A_SESSION:
        assert (await victim.ask(endpoint.name, victim.key, victim.token)).status == 401, endpoint.name
    await victim.is_unharmed()


async def test_tokens_are_random_and_not_stored(api: Served) -> None:
    key = await api.key(Role.WORKER)
    made = [(await api.post("/v1/workers", {"name": "w", "tasks": ["t"]}, key=key)).json for _ in range(3)]
    assert len({each["token"] for each in made}) == 3
    for each in made:
        stored = await api.store.leases.worker(parse("wrk", each["worker_id"]))
        assert stored.token_hash is not None and each["token"].encode() not in stored.token_hash
    listed = await api.get("/v1/workers")
    assert listed.status == 200 and b"token" not in listed.body


async def test_a_worker_with_a_database_of_its_own_is_not_spoken_for(api: Served) -> None:
    info = WorkerInfo(new_id(), "node", ("t",), (), 1, 1)
    await api.store.leases.register(info, timedelta(minutes=1))
    for key_id in (None, new_id()):
        for token_hash in (b"", bytes(32)):
            with pytest.raises(NotFound):
                await api.service.gateway.session(1, info.id, key_id, token_hash)
