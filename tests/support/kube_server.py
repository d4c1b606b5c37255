"""A real API server of Kubernetes with its etcd. Nothing else of a cluster runs: tests play its controllers and
kubelets, and change Jobs and pods through the API as these do."""

import shutil
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from os import environ
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.broker_server import BrokerServer
from tests.support.postgres import free_port
from tests.support.waiting import eventually

ADMIN, DUETIME = "token-of-the-tests", "token-of-duetime"
NAMESPACE = "shop-jobs"
_CACHE = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
_CACHED = Path(environ.get("DUETIME_TEST_CACHE") or f"{_CACHE}/duetime-tests") / "kube-apiserver"
RULES: list[dict[str, Any]] = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
]
"""What docs/targets.md says that the service needs in a namespace."""


class KubeServer(BrokerServer):
    kind = "kubernetes"
    seconds_to_start = 120.0

    def __init__(self) -> None:
        super().__init__()
        self._etcd = free_port()
        key = rsa.generate_private_key(65537, 2048)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (self.folder / "accounts.pem").write_bytes(key.private_bytes(*form))
        (self.folder / "tokens.csv").write_text(f"{ADMIN},tests,1,system:masters\n{DUETIME},duetime,2,\n")

    @classmethod
    def missing(cls) -> str | None:
        if _program() is None:
            return "Kubernetes: no `kube-apiserver`; scripts/kube-apiserver builds it with Go"
        return None if shutil.which("etcd") else "Kubernetes: no `etcd`; install Debian's etcd-server"

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        etcd = f"http://127.0.0.1:{self._etcd}"
        options = {
            "etcd-servers": etcd,
            "secure-port": str(self.port),
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "cert-dir": "certs",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": "accounts.pem",
            "service-account-signing-key-file": "accounts.pem",
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": "tokens.csv",
            "disable-admission-plugins": "ServiceAccount",
            "endpoint-reconciler-type": "none",
            "kubelet-preferred-address-types": "InternalIP",
        }
        server = " ".join([str(_program()), *(f"--{name}={value}" for name, value in options.items())])
        store = f"etcd --data-dir etcd --listen-client-urls {etcd} --advertise-client-urls {etcd}"
        store += f" --listen-peer-urls http://127.0.0.1:{free_port()}"
        return ["sh", "-c", f"{store} & exec {server}"]

    def is_ready(self) -> bool:
        if not super().is_ready() or not (self.folder / "certs" / "apiserver.crt").exists():
            return False
        import urllib.request

        request = urllib.request.Request(f"{self.address}/readyz", headers={"authorization": f"Bearer {ADMIN}"})
        try:
            with urllib.request.urlopen(request, context=self.tls(), timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "certs" / "apiserver.crt"))

    def kubeconfig(self, path: Path, token: str = DUETIME) -> Path:
        authority = str(self.folder / "certs" / "apiserver.crt")
        cluster = {"name": "c", "cluster": {"server": self.address, "certificate-authority": authority}}
        user = {"name": "u", "user": {"token": token}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        config = {"current-context": "x", "clusters": [cluster], "users": [user], "contexts": [context]}
        path.write_text(yaml.safe_dump(config))
        return path


def _program() -> Path | None:
    named = environ.get("DUETIME_TEST_KUBE_APISERVER") or shutil.which("kube-apiserver")
    found = Path(named) if named else _CACHED
    return found if found.exists() else None


class Hands:
    """What the controllers and kubelets of a cluster do, by hand."""

    def __init__(self, server: KubeServer, http: aiohttp.ClientSession) -> None:
        self._server = server
        self._http = http
        self.logs: dict[str, str] = {}
        self.asked_for_logs: list[str] = []

    async def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": kind}
        async with self._http.request(method, f"{self._server.address}{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def make(self, path: str, thing: Any) -> Any:
        status, said = await self.ask("POST", path, thing)
        assert status in (201, 409), said
        return said

    async def jobs(self) -> list[Any]:
        found = (await self.ask("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"))[1]["items"]
        return [job for job in found if not job["metadata"].get("deletionTimestamp")]

    async def job(self) -> Any:
        """The only Job, once it exists."""

        async def one() -> Any:
            found = await self.jobs()
            assert len(found) < 2, found
            return found and found[0]

        return await eventually(one)

    async def clear(self) -> None:
        for job in await self.jobs():
            await self.ask("DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job['metadata']['name']}")
        await self.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods")
        self.logs.clear()

    async def pod(self, job: Any, **status: Any) -> str:
        """Create the pod of a Job, as its controller does, and set its state."""
        name = f"{job['metadata']['name']}-abcde"
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
        }
        template = job["spec"]["template"]
        metadata = {"name": name, "labels": template["metadata"]["labels"]}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        spec = {**template["spec"], "nodeName": "node-1"}
        await self.make(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": metadata, "spec": spec})
        if status:
            await self.container(name, **status)
        return name

    async def container(self, pod: str, phase: str = "Running", **state: Any) -> None:
        """Set the state of a container: `waiting`, `running` or `terminated`."""
        status = {"name": "job", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        await self._patch(
            f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status", {"phase": phase, "containerStatuses": [status]}
        )

    async def finish(self, job: Any, *, reason: str | None = None) -> None:
        """End a Job: as complete, or as failed for a reason."""
        now = "2026-11-18T00:00:00Z"
        status: dict[str, Any] = {"startTime": now, "active": 0}
        kinds = ("SuccessCriteriaMet", "Complete") if reason is None else ("FailureTarget", "Failed")
        status["conditions"] = [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now,
                "lastProbeTime": now,
                "reason": reason or "Done",
            }
            for kind in kinds
        ]
        status |= {"succeeded": 1, "completionTime": now} if reason is None else {"failed": 1}
        await self._patch(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job['metadata']['name']}/status", status)

    async def _patch(self, path: str, status: Any) -> None:
        code, said = await self.ask("PATCH", path, {"status": status}, "application/merge-patch+json")
        assert code == 200, said


@asynccontextmanager
async def playing_cluster(server: KubeServer, certificate: Path, key: Path) -> AsyncIterator[Hands]:
    """A namespace with the rights of docs/targets.md for duetime, and a node whose kubelet has logs."""
    connector = aiohttp.TCPConnector(ssl=server.tls())
    async with aiohttp.ClientSession(connector=connector) as http:
        hands = Hands(server, http)

        async def kubelet(request: web.BaseRequest) -> web.Response:
            hands.asked_for_logs.append(request.path_qs)
            pod = request.path.split("/")[3]
            return web.Response(text=hands.logs.get(pod, ""))

        runner = web.ServerRunner(web.Server(kubelet))
        await runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        await hands.make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
        await hands.make(f"{roles}/roles", {"metadata": {"name": "duetime"}, "rules": RULES})
        subject = {"kind": "User", "name": "duetime", "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "Role", "name": "duetime", "apiGroup": "rbac.authorization.k8s.io"}
        await hands.make(f"{roles}/rolebindings", {"metadata": {"name": "d"}, "subjects": [subject], "roleRef": role})
        await hands.make("/api/v1/nodes", {"metadata": {"name": "node-1"}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await hands._patch("/api/v1/nodes/node-1/status", status)
        await hands.clear()
        try:
            yield hands
        finally:
            await hands.clear()
            await runner.cleanup()
