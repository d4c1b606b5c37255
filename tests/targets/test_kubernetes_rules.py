"""What a Kubernetes target may say, who may use one, and how the service logs in to a cluster."""

import asyncio
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from duetime.errors import InvalidInput, NoCredentials, SettingsError
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.attempt import Claimed
from duetime.model.target import KubernetesTarget
from duetime.settings import Settings
from duetime.targets.cloud_access import Cluster, read_cloud_access
from duetime.targets.kube_config import KubeLogin
from duetime.targets.kube_job import job_manifest, secret_manifest
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.validation import TargetRules, as_target
from tests.deploy.test_manifests import schemas
from tests.support.certificates import Authority
from tests.support.targeting import targeting

TARGET = {"type": "kubernetes", "image": "registry.example.com/shop/report:1", "namespace": "shop-jobs"}
ENTRY = """[[kubernetes]]
tenants = ["default"]
namespaces = ["shop-jobs"]
service_accounts = ["reports"]
images = ["registry.example.com/shop/*"]
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": "a b"}, "image"),
        ({"image": "-x"}, "image"),
        ({"namespace": "Shop"}, "namespace"),
        ({"namespace": "../x"}, "namespace"),
        ({"cluster": "a/b"}, "cluster"),
        ({"env": {"1X": "a"}}, "target.env.1X"),
        ({"env": {"DUETIME_RUN": "a"}}, "target.env.DUETIME_RUN"),
        ({"env": {"A": "\x00"}}, "target.env.A"),
        ({"env": {"A": "x" * 200_000}}, "target.env"),
        ({"requests": {"cpu": "many"}}, "requests"),
        ({"limits": {"memory": "-1Gi"}}, "limits"),
        ({"labels": {"duetime.io/run": "x"}}, "target.labels.duetime.io/run"),
        ({"labels": {"batch.kubernetes.io/job-name": "x"}}, "reserved label"),
        ({"labels": {"a": "b c"}}, "labels"),
        ({"node_selector": {"a/b/c": "x"}}, "node_selector"),
        ({"tolerations": [{"effect": "Never"}]}, "tolerations"),
        ({"start_within": "0s"}, "target.start_within"),
        ({"ttl": "1s"}, "target.ttl"),
        ({"ttl": "soon"}, "target.ttl"),
        ({"privileged": True}, "privileged"),
        ({"working_dir": "relative"}, "working_dir"),
        ({"priority_class": "system-node-critical"}, "target.priority_class"),
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TargetRules(Settings()).make({**TARGET, **change})
    assert words in str(refused.value)


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_the_manifests_are_what_kubernetes_takes(version: str) -> None:
    """Every field, against the published schemas, which refuse unknown ones."""
    given = {
        **TARGET,
        "command": ["a"],
        "args": ["b"],
        "env": {"A": "1", "B": {"secret": "db"}},
        "working_dir": "/work",
        "requests": {"cpu": "500m"},
        "limits": {"memory": "1Gi"},
        "service_account": "reports",
        "node_selector": {"disk": "fast"},
        "tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {}],
        "priority_class": "high",
        "image_pull_secrets": ["registry"],
        "image_pull_policy": "Always",
        "labels": {"team": "shop"},
        "restricted": True,
        "start_within": "5m",
        "ttl": "2h",
    }
    target = as_target(given)
    assert isinstance(target, KubernetesTarget) and set(given) == {"type", *target.__struct_fields__} - {"cluster"}
    claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, b"", None, 90_500, None)
    attempt = TargetAttempt(1, claimed, "run_1", 90.5)
    job = job_manifest(target, attempt, "0123456789abcdef")
    assert job["spec"]["activeDeadlineSeconds"] == 91
    made = {**job, "metadata": {**job["metadata"], "uid": "u"}}
    for thing in (job, secret_manifest(made, {"B": "x"})):
        jsonschema_rs.validator_for(schemas(version)[thing["apiVersion"], thing["kind"]]).validate(thing)


def test_the_namespace_is_the_place() -> None:
    assert TargetRules(Settings()).make(TARGET).task == "duetime.kubernetes/shop-jobs.default"


async def test_a_tenant_needs_an_entry_and_a_secret_its_namespace(quiet_url: str, tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text(ENTRY)
    async with targeting(quiet_url, worker=False) as targets:
        answer = await targets.api.post("/v1/jobs", {"target": TARGET})
        assert (answer.status, answer.json["field"]) == (422, "target.namespace"), answer.json
    async with targeting(quiet_url, worker=False, cloud_access=file) as targets:
        for change, words in (
            ({"namespace": "kube-system"}, "in the namespace kube-system"),
            ({"cluster": "other"}, "in the cluster other"),
            ({"service_account": "admin"}, "as admin"),
            ({"image": "evil.example.com/shop/x"}, "with the image evil.example.com/shop/x"),
        ):
            answer = await targets.api.post("/v1/jobs", {"target": {**TARGET, **change}})
            assert answer.status == 422 and words in answer.json["detail"], answer.json
        key = await targets.api.key(Role.ADMIN, (await targets.api.tenant("other")).id)
        assert (await targets.api.post("/v1/jobs", {"target": TARGET}, key=key)).status == 422
        target = {**TARGET, "service_account": "reports", "env": {"DSN": {"secret": "db"}}}
        for host, status in (("api.example.com", 422), ("shop-jobs.default.kubernetes", 201)):
            body = {"value": "hunter2-of-the-shop", "hosts": [host]}
            assert (await targets.api.ask("PUT", "/v1/secrets/db", body)).status == 200
            answer = await targets.api.post("/v1/jobs", {"target": target, "every": "1h"})
            assert answer.status == status, answer.json
        job = (await targets.api.get(f"/v1/jobs/{answer.json['job_id']}")).json
        assert job["target"] == target and job["task"] == "duetime.kubernetes/shop-jobs.default"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[kubernetes]]\ntenants = ['a']", "namespaces"),
        ("[[kubernetes]]\ntenants = ['a']\nnamespaces = ['b']\nclusters = ['c']", r"\[clusters.c\]"),
        ("[clusters.x]\nserver = 'a'", "server"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "cloud.toml").write_text(text)
    with pytest.raises(SettingsError, match=words):
        read_cloud_access(tmp_path / "cloud.toml")


class EndedJob:
    """As much of a cluster as one Job needs that has ended already."""

    def __init__(self, message: str, log: str | None, *, failed: bool) -> None:
        self._message = message
        self._log = log
        self._condition = {"type": "Failed" if failed else "Complete", "status": "True"}

    server: TestServer

    async def answer(self, request: web.Request) -> web.StreamResponse:
        kind, headers = request.path.rpartition("/")[2], {}
        if request.method == "POST":
            return web.json_response(_with_uid(await request.json()), status=201)
        if kind == "log":
            return web.Response(text=self._log)
        if kind == "pods":
            if self._log is None:  # from here on, the cluster is away
                await self.server.runner.sites.copy().pop().stop()
                headers = {"Connection": "close"}
            ended = {"exitCode": 1, "reason": "Error", "message": self._message}
            status = {"containerStatuses": [{"name": "job", "state": {"terminated": ended}}]}
            return web.json_response({"items": [{"metadata": {"name": "pod"}, "status": status}]}, headers=headers)
        return web.json_response({"metadata": {"name": kind, "uid": "1"}, "status": {"conditions": [self._condition]}})


def _with_uid(thing: dict[str, Any]) -> dict[str, Any]:
    return {**thing, "metadata": {**thing["metadata"], "uid": "1"}}


@pytest.mark.parametrize("failed", [True, False])
async def test_no_part_of_a_secret_is_in_what_is_left_of_a_message(
    quiet_url: str, tmp_path: Path, failed: bool
) -> None:
    """Of a message or log that was cut off in the middle of one, by the cluster or here."""
    secret = "-".join(f"part{number}of-the-secret" for number in range(10))
    log = f"{secret[30:]}\n" + "end\n" * 199
    for said in (f"{secret[30:]} {'x' * 2048}", f"{secret} {'x' * 990}"):
        run = await _ended_with(quiet_url, tmp_path, EndedJob(said, log, failed=failed), secret)
        assert run["status"] == ("FAILED" if failed else "SUCCEEDED"), run
        assert "of-the-secret" not in str(run), run["error"]


async def test_the_address_of_a_cluster_is_not_told(
    quiet_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = await _ended_with(quiet_url, tmp_path, EndedJob("", None, failed=False), "hunter2-of-the-shop")
    (line,) = (line["text"] for line in run["attempts"][-1]["logs"] if "the log of the container" in line["text"])
    assert line == "the log of the container cannot be read"
    assert "127.0.0.1" not in str(run) and "Cannot connect to host 127.0.0.1" in caplog.text


async def _ended_with(quiet_url: str, tmp_path: Path, cluster: EndedJob, secret: str) -> Any:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.answer)
    async with TestServer(app) as server:
        cluster.server = server
        config = kubeconfig(tmp_path / "config", {"token": "t"}, server=str(server.make_url(""))).kubeconfig
        file = tmp_path / "cloud.toml"
        file.write_text(f"[clusters.default]\nkubeconfig = '{config}'\n{ENTRY}")
        async with targeting(quiet_url, cloud_access=file) as targets:
            body = {"value": secret, "hosts": ["shop-jobs.default.kubernetes"]}
            assert (await targets.api.ask("PUT", "/v1/secrets/db", body)).status == 200
            return await targets.ended(target={**TARGET, "env": {"DSN": {"secret": "db"}}})


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Cluster:
    config = {
        "current-context": "one",
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("one", "two")],
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example.com:6443/", **cluster}}
            for name in ("one", "two")
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return Cluster(str(path))


async def test_the_ways_to_log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.client()
    trusted = {"certificate-authority-data": b64encode(authority.ca.read_bytes()).decode()}
    path = tmp_path / "config"
    login = KubeLogin(kubeconfig(path, {"token": "fixed"}, **trusted))
    assert (await login.address()).url == "https://one.example.com:6443"
    assert await login.headers() == {"authorization": "Bearer fixed"}
    assert (await KubeLogin(Cluster(str(path), "two")).address()).url == "https://two.example.com:6443"
    (tmp_path / "token").write_text("first\n")
    login = KubeLogin(kubeconfig(path, {"tokenFile": "token"}, **trusted))
    assert await login.headers() == {"authorization": "Bearer first"}
    (tmp_path / "token").write_text("second\n")
    login.forget()
    assert await login.headers() == {"authorization": "Bearer second"}
    data = {
        "client-certificate-data": b64encode(certificate.read_bytes()).decode(),
        "client-key-data": b64encode(key.read_bytes()).decode(),
    }
    assert await KubeLogin(kubeconfig(path, data, **trusted)).headers() == {}
    said = "import os,json;e=json.loads(os.environ['KUBERNETES_EXEC_INFO']);assert e['kind']=='ExecCredential';"
    said += "print(json.dumps({'status':{'token':os.environ['T'],'expirationTimestamp':'2999-01-01T00:00:00Z'}}))"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-S", "-c", said]}
    env = [{"name": "T", "value": "of the plugin"}]
    login = KubeLogin(kubeconfig(path, {"exec": {**plugin, "env": env}}))
    assert await asyncio.gather(login.headers(), login.headers()) == [{"authorization": "Bearer of the plugin"}] * 2
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
    login = KubeLogin(Cluster(), tmp_path)
    assert ((await login.address()).url, await login.headers()) == (
        "https://10.0.0.1:443",
        {"authorization": "Bearer second"},
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    for wrong in (
        Cluster(),
        Cluster(str(tmp_path / "missing")),
        Cluster(str(path), "three"),
        kubeconfig(path, {"exec": {**plugin, "args": ["-c", "raise SystemExit('no')"]}}),
    ):
        with pytest.raises(NoCredentials):
            await KubeLogin(wrong).headers()
