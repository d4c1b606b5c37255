"""Where a cluster's API is, and how to log in there: as the pod of this process, or by a kubeconfig.

Tokens in files and those of exec plugins are read again before they expire. The operator chooses the cluster, so its
address needs no guard.
"""

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from duetime.clock import SystemClock, monotonic
from duetime.errors import NoCredentials, reason_of
from duetime.targets.cloud_access import Cluster

_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REMEMBERED = 60.0
"""Seconds until a token is read from its file again, and before its end in which a plugin's is not used."""
_PLUGIN_LIMIT = 30.0


class Address(NamedTuple):
    url: str
    tls: ssl.SSLContext
    server_name: str | None


class KubeLogin:
    """The address of a cluster, and the token for its next request."""

    def __init__(self, cluster: Cluster, folder: Path = _POD) -> None:
        self._cluster = cluster
        self._folder = folder
        self._address: Address | None = None
        self._user: Mapping[str, Any] = {}
        self._token: str | None = None
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def address(self) -> Address:
        """Raises `NoCredentials`."""
        if self._address is None:
            try:
                self._address = await asyncio.to_thread(self._read)
            except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
                raise NoCredentials(f"the login for the cluster cannot be read: {reason_of(error)}") from None
        return self._address

    def forget(self) -> None:
        """The cluster refused the token."""
        self._until, self._address = 0.0, None

    async def headers(self) -> dict[str, str]:
        """Raises `NoCredentials`."""
        await self.address()
        async with self._lock:
            if self._until <= monotonic():
                try:
                    self._token, self._until = await self._find_token()
                except (OSError, ValueError, KeyError, TypeError, TimeoutError, msgspec.MsgspecError) as error:
                    raise NoCredentials(f"the token for the cluster cannot be read: {reason_of(error)}") from None
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}

    async def _find_token(self) -> tuple[str | None, float]:
        soon = monotonic() + _REMEMBERED
        if (file := self._user.get("tokenFile")) is not None:
            return (await asyncio.to_thread(Path(file).read_text)).strip(), soon
        if (plugin := self._user.get("exec")) is not None:
            return await _from_plugin(plugin)
        return self._user.get("token"), soon

    def _read(self) -> Address:
        if self._cluster.kubeconfig is None:
            host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
            self._user = {"tokenFile": str(self._folder / "token")}
            tls = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
            return Address(f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, None)
        if find_spec("yaml") is None:
            raise ValueError("reading a kubeconfig needs PyYAML: pip install 'duetime[kubernetes]'")
        import yaml

        path = Path(self._cluster.kubeconfig).expanduser()
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", "context", self._cluster.context or config["current-context"])
        cluster = _named(config, "clusters", "cluster", context["cluster"])
        user = dict(_named(config, "users", "user", context["user"]))
        if user.get("tokenFile"):
            user["tokenFile"] = path.parent / user["tokenFile"]
        self._user = user
        return Address(cluster["server"].rstrip("/"), _tls(cluster, user, path.parent), cluster.get("tls-server-name"))


def _named(config: Mapping[str, Any], kind: str, inner: str, name: str) -> Mapping[str, Any]:
    for each in config.get(kind) or ():
        if each["name"] == name:
            found: Mapping[str, Any] = each[inner] or {}
            return found
    raise ValueError(f"{kind} has no {name!r}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", folder)
    tls = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = _data(user, "client-certificate", folder), _data(user, "client-key", folder)
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as file:  # readable by this user only
            file.write(certificate + b"\n" + (key or b""))
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _data(part: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    if part.get(f"{name}-data"):
        return base64.b64decode(part[f"{name}-data"])
    return (folder / part[name]).read_bytes() if part.get(name) else None


async def _from_plugin(plugin: Mapping[str, Any]) -> tuple[str | None, float]:
    """The token of a credential plugin, as kubectl runs it."""
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    given = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        plugin["command"],
        *(plugin.get("args") or ()),
        env={**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PLUGIN_LIMIT):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ValueError(
            f"{plugin['command']} exited with code {process.returncode}: {err[-500:].decode(errors='replace')}"
        )
    status = msgspec.json.decode(out)["status"]
    left = _REMEMBERED * 10
    if status.get("expirationTimestamp"):
        end = datetime.fromisoformat(status["expirationTimestamp"].replace("Z", "+00:00"))
        left = (end - SystemClock().now()).total_seconds() - _REMEMBERED
    return status["token"], monotonic() + left
