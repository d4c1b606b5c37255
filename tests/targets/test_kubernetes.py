"""Jobs of Kubernetes against a real API server. Controllers and kubelets are played by hand (`Hands`)."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime import App
from duetime.ids import parse
from duetime.targets.runner import TargetRunner
from tests.support.certificates import Authority
from tests.support.command import Command
from tests.support.kube_server import NAMESPACE, Hands, KubeServer, playing_cluster
from tests.support.targeting import Targeting, targeting
from tests.support.waiting import eventually

TARGET = {"type": "kubernetes", "image": "registry.example.com/shop/report:1", "namespace": NAMESPACE}
ENTRY = f"""
tenants = ['default']
namespaces = ['{NAMESPACE}']
service_accounts = ['reports']
images = ['registry.example.com/*']
"""


@pytest.fixture(scope="module")
def server() -> Iterator[KubeServer]:
    if (reason := KubeServer.missing()) is not None:
        pytest.skip(reason)
    with KubeServer() as found:
        yield found


@pytest.fixture
async def hands(server: KubeServer, tmp_path: Path) -> AsyncIterator[Hands]:
    async with playing_cluster(server, *Authority(tmp_path).server()) as found:
        yield found


@pytest.fixture
def access(server: KubeServer, tmp_path: Path) -> Path:
    """The operator's file."""
    config = server.kubeconfig(tmp_path / "kubeconfig")
    file = tmp_path / "cloud.toml"
    file.write_text(f"[clusters.default]\nkubeconfig = '{config}'\n[[kubernetes]]\n{ENTRY}\n")
    return file


@pytest.fixture
async def targets(quiet_url: str, access: Path) -> AsyncIterator[Targeting]:
    async with targeting(quiet_url, cloud_access=access) as found:
        yield found


def lines(run: Any) -> list[str]:
    return [line["text"] for line in run["attempts"][-1]["logs"]]


async def test_a_job_runs_to_its_end(targets: Targeting, hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"value": "hunter2-of-the-shop", "hosts": [f"{NAMESPACE}.default.kubernetes"]}
    assert (await targets.api.ask("PUT", "/v1/secrets/db", body)).status == 200
    target = {
        **TARGET,
        "command": ["report"],
        "args": ["--day=$(DAY)", "1"],
        "env": {"DAY": "1", "DSN": {"secret": "db", "prefix": "pg:"}},
        "requests": {"cpu": "500m", "memory": "256Mi"},
        "limits": {"memory": "512Mi", "nvidia.com/gpu": "1"},
        "service_account": "reports",
        "node_selector": {"disk": "fast"},
        "tolerations": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "team", "value": "shop"}, {}],
        "image_pull_secrets": ["registry"],
        "image_pull_policy": "IfNotPresent",
        "labels": {"team": "shop"},
        "working_dir": "/work",
        "restricted": True,
        "ttl": "2h",
    }
    run_id = await targets.submit(target=target, timeout="90s")
    job = await hands.job()
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, 90, 7200)
    container = pod["containers"][0]
    assert container["args"] == ["--day=$$(DAY)", "1"], "the cluster inserts nothing"
    assert container["resources"]["limits"] == {"memory": "512Mi", "nvidia.com/gpu": "1"}
    assert (pod["serviceAccountName"], pod["nodeSelector"], len(pod["tolerations"])) == ("reports", {"disk": "fast"}, 3)
    env = {each["name"]: each for each in container["env"]}
    assert env["DUETIME_RUN"]["value"] == run_id and "hunter2" not in str(job)
    name = job["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"

    async def secret() -> Any:
        status, said = await hands.ask("GET", path)
        return said if status == 200 else None

    found = await eventually(secret)
    assert found["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] and set(found["data"]) == {"DSN"}
    pod_name = await hands.pod(job, running={"startedAt": "2026-11-18T00:00:00Z"})
    hands.logs[pod_name] = "begun with pg:hunter2-of-the-shop\nrows: 7\n"
    await hands.container(pod_name, phase="Succeeded", terminated={"exitCode": 0, "message": '{"rows": 7}'})
    await hands.finish(job)
    run = await targets.until(run_id)
    assert run["status"] == "SUCCEEDED", run
    assert run["result"] == {
        "exit_code": 0,
        "job": name,
        "pod": pod_name,
        "message": '{"rows": 7}',
        "log": "begun with pg:[redacted]\nrows: 7\n",
    }
    assert lines(run)[0] == f"created the Job {name} in {NAMESPACE}" and lines(run)[-1] == "rows: 7"
    assert "tailLines=200" in hands.asked_for_logs[-1] and "hunter2" not in caplog.text + str(run)


async def test_what_goes_wrong_is_said_in_words(targets: Targeting, hands: Hands) -> None:
    """Every way to fail: the state of the pod, the reason of the Job, the class and the words."""
    for state, reason, failure, words in (
        ({"terminated": {"exitCode": 3, "reason": "Error", "message": "no such day"}}, "BackoffLimitExceeded", "error",
         "the container exited with code 3: no such day"),
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "BackoffLimitExceeded", "error",
         "it used more memory than its limit of 64Mi (OOMKilled)"),
        ({"terminated": {"exitCode": 128, "reason": "StartError", "message": "exec: no such file"}},
         "BackoffLimitExceeded", "error", "exited with code 128 (StartError): exec: no such file"),
        ({"running": {}}, "DeadlineExceeded", "timeout", "longer than its timeout"),
        ({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}}, None,
         "error", "report:1 cannot be pulled: ImagePullBackOff: Back-off pulling image: not found"),
    ):  # fmt: skip
        run_id = await targets.submit(target={**TARGET, "limits": {"memory": "64Mi"}})
        job = await hands.job()
        phase = "Pending" if "waiting" in state else "Failed" if "terminated" in state else "Running"
        await hands.pod(job, phase=phase, **state)
        if reason is not None:
            await hands.finish(job, reason=reason)
        run = await targets.until(run_id)
        assert (run["status"], run["failure"]) == ("FAILED", failure), run
        assert words in run["error"], run["error"]
        if reason is None:
            assert await hands.jobs() == [], "it would go on to pull"
        await hands.clear()


async def test_a_container_that_does_not_start_in_time(targets: Targeting, hands: Hands) -> None:
    run_id = await targets.submit(target={**TARGET, "start_within": "1s"})
    job = await hands.job()
    pod = await hands.pod(job)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes available"}
    await hands._patch(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status", {"conditions": [condition]})
    run = await targets.until(run_id)
    assert run["failure"] == "timeout" and "within 1s: Unschedulable: 0/1 nodes available" in run["error"], run
    assert await hands.jobs() == []


async def test_the_cluster_refuses(targets: Targeting, hands: Hands, quiet_url: str, access: Path) -> None:
    run = await targets.ended(target={**TARGET, "requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}})
    assert run["failure"] == "target_refused" and "must be less than or equal to memory limit" in run["error"], run
    run_id = await targets.submit(target=TARGET)
    job = await hands.job()
    await hands.clear()
    run = await targets.until(run_id)
    assert run["failure"] == "target_failed" and "was deleted while it ran" in run["error"], (run, job)
    text = access.read_text().replace(
        f"namespaces = ['{NAMESPACE}']", f"namespaces = ['{NAMESPACE}', 'default', 'none']"
    )
    access.write_text(text)
    async with targeting(f"{quiet_url}-2", cloud_access=access) as wider:
        for namespace, words in (("default", "forbidden"), ("none", "forbidden")):
            run = await wider.ended(target={**TARGET, "namespace": namespace})
            assert run["failure"] == "target_failed" and words in run["error"], run


async def test_a_cancelled_run_deletes_its_job(targets: Targeting, hands: Hands) -> None:
    for timeout in (None, "2s"):
        run_id = await targets.submit(target=TARGET, **({"timeout": timeout} if timeout else {}))
        job = await hands.job()
        await hands.pod(job, running={})
        if timeout is None:
            assert (await targets.api.post(f"/v1/runs/{run_id}/cancel")).status in (200, 202)
        run = await targets.until(run_id)
        assert (run["status"], run["failure"]) == (
            ("CANCELLED", "cancelled") if timeout is None else ("FAILED", "timeout")
        )
        assert await hands.jobs() == []


async def test_a_retry_has_a_job_of_its_own(targets: Targeting, hands: Hands) -> None:
    answer = await targets.api.post("/v1/jobs", {"target": TARGET, "retry": {"retries": 1, "base": 0.1}})
    run_id = answer.json["run_id"]
    first = await hands.job()
    await hands.pod(first, phase="Failed", terminated={"exitCode": 1})
    await hands.finish(first, reason="BackoffLimitExceeded")

    async def second() -> Any:
        return next((job for job in await hands.jobs() if job["metadata"]["uid"] != first["metadata"]["uid"]), None)

    job = await eventually(second)
    assert (first["metadata"]["name"][-2:], job["metadata"]["name"][-2:]) == ("-1", "-2")
    await hands.finish(job)
    assert (await targets.until(run_id))["status"] == "SUCCEEDED"


async def test_a_worker_that_was_killed_leaves_its_job_to_the_next(tmp_path: Path, access: Path, hands: Hands) -> None:
    """`kill -9` after the Job was created: the next process finds it, and no second Job is created."""
    config = tmp_path / "duetime.toml"
    config.write_text(f'cloud_access = "{access}"\nlease = "4s"\nheartbeat = "500ms"\n')
    options = ("up", "--config", str(config), "--data-dir", str(tmp_path / "data"), "--port", "0", "--json")
    with Command(tmp_path, *options) as up:
        await asyncio.to_thread(up.until, lambda up: '"up"' in up.stdout)
        async with App(data_dir=tmp_path / "data") as app:
            receipt = await app.submit(TARGET, retries=0)
            job = await hands.job()
            os.kill(up.pid, signal.SIGKILL)
            await asyncio.to_thread(up.ended)
    with Command(tmp_path, *options) as up:
        await asyncio.to_thread(up.until, lambda up: '"up"' in up.stdout)
        async with App(data_dir=tmp_path / "data") as app:

            async def found() -> bool:
                run = await app.run(receipt.run_id)
                return "which an earlier worker created" in str(run.logs or "")

            await eventually(found)
            assert (await hands.job())["metadata"]["uid"] == job["metadata"]["uid"]
            await hands.finish(job)
            run = await app.wait(receipt, "60s")
            assert run.state.name == "SUCCEEDED" and run.lost >= 1, run
        assert await asyncio.to_thread(up.stop) == 0


async def test_a_worker_that_stops_leaves_its_job_to_the_next(quiet_url: str, access: Path, hands: Hands) -> None:
    async with targeting(quiet_url, cloud_access=access, grace=timedelta(0)) as targets:
        run_id = await targets.submit(target=TARGET)
        job = await hands.job()
    assert (await hands.job())["metadata"]["uid"] == job["metadata"]["uid"]
    async with targeting(quiet_url, cloud_access=access) as targets:
        await hands.finish(job)
        run = await targets.until(run_id)
        assert (run["status"], run["attempt"], run["lost"]) == ("SUCCEEDED", 1, 0), run


async def test_jobs_whose_run_ended_meanwhile_are_deleted(quiet_url: str, access: Path, hands: Hands) -> None:
    async with targeting(quiet_url, cloud_access=access, grace=timedelta(0)) as targets:
        ended, goes_on = await targets.submit(target=TARGET), await targets.submit(target=TARGET)
        await eventually(lambda: _count(hands, 2))
    async with targeting(quiet_url, cloud_access=access, worker=False) as targets:
        assert (await targets.api.post(f"/v1/runs/{ended}/cancel")).status in (200, 202)
        assert (await targets.until(ended))["status"] == "CANCELLED"
        runner = TargetRunner(targets.api.store, targets.api.service.settings, targets.api.service.links)
        assert await runner._kubernetes.sweep() == 1
        assert await runner._kubernetes.sweep() == 0
        await runner.close()
        (left,) = await hands.jobs()
        assert left["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == goes_on


async def _count(hands: Hands, wanted: int) -> bool:
    return len(await hands.jobs()) == wanted


async def test_a_cluster_that_is_away_for_a_while_fails_nothing(
    targets: Targeting, hands: Hands, server: KubeServer
) -> None:
    run_id = await targets.submit(target=TARGET)
    job = await hands.job()
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    assert (await targets.run(run_id))["status"] == "RUNNING"
    await hands.finish(job)
    assert (await targets.until(run_id))["status"] == "SUCCEEDED"


async def test_a_job_of_another_installation_is_left_alone(targets: Targeting, hands: Hands, quiet_url: str) -> None:
    receipt = await targets.api.post("/v1/jobs", {"target": TARGET, "run_in": "1s", "retries": 0})
    run_id = receipt.json["run_id"]
    name = f"duetime-{parse('run', run_id).hex}-1"
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}
    other = {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}
    await hands.make(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", other)
    run = await targets.until(run_id)
    assert run["failure"] == "target_refused" and "not of this installation" in run["error"], run
    assert len(await hands.jobs()) == 1
