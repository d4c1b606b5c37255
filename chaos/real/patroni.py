"""A Patroni cluster: three PostgreSQL servers, each on a host of its own (a network namespace), and one etcd.

The namespaces are ports of one bridge, on which this machine has an address too. A host that is cut off is a port that
passes nothing: no packet arrives, no packet is refused. etcd is on this machine and stands for a quorum that lives.
"""

import atexit
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import psycopg

from tests.support.postgres import DEBIAN

T = TypeVar("T")

TTL = 20
"""Seconds after which a leader that does not renew its key is none any more: the least that Patroni recommends."""
_LOOP_WAIT, _RETRY = 2, 3
_PORT, _API = 5432, 8008
_PROGRAMS = ("patroni", "etcd", "ip", "bridge", "runuser")
_TIMEOUT = 180.0
_TIMELINE = "select pg_is_in_recovery()"


def missing() -> str | None:
    """Why there can be no such cluster here."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent or not list(DEBIAN.glob("*/bin/postgres")):
        return (
            f"this needs PostgreSQL, Patroni, etcd and iproute2 ({', '.join(absent)} not found):"
            " apt-get install postgresql patroni etcd-server iproute2"
        )
    if os.geteuid() != 0:
        return "this needs root, for network namespaces"
    probe = subprocess.run(["ip", "netns", "exec", "none", "true"], capture_output=True, check=False, text=True)
    return "this machine allows no network namespaces" if "Operation not permitted" in probe.stderr else None


class Host(NamedTuple):
    number: int
    address: str
    space: str
    """Its network namespace."""
    port: str
    """Its end of the cable at the bridge."""
    folder: Path

    @property
    def name(self) -> str:
        return f"host{self.number}"

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{self.address}:{_PORT}/{database}"


class Patroni:
    def __init__(self, folder: Path, *, synchronous: bool, hosts: int = 3) -> None:
        self.folder = folder
        self.synchronous = synchronous
        mark = f"{random.randrange(1 << 20):05x}"
        self._net = f"10.{random.randrange(64, 250)}.{random.randrange(1, 250)}"
        self._bridge = f"dt{mark}"
        self.hosts = [
            Host(
                number,
                f"{self._net}.{10 + number}",
                f"dt{mark}-{number}",
                f"dt{mark}p{number}",
                folder / f"host{number}",
            )
            for number in range(1, hosts + 1)
        ]
        self._etcd: subprocess.Popen[bytes] | None = None
        self._logs: list[Any] = []
        atexit.register(self.close)

    def dsn(self, database: str = "postgres") -> str:
        """The address with all hosts."""
        places = ",".join(f"{host.address}:{_PORT}" for host in self.hosts)
        return f"postgresql://postgres@{places}/{database}?target_session_attrs=read-write"

    def start(self) -> None:
        self._lay_cables()
        self._start_etcd()
        for host in self.hosts:
            host.folder.mkdir()
            shutil.chown(host.folder, "postgres", "postgres")
            (host.folder / "patroni.json").write_text(json.dumps(self._settings(host), indent=1))
            self.revive(host)
            if host.number == 1:
                _insist(lambda: self.leader() is not None or None)  # one initializes, the others copy
        self.all_follow()

    def create_database(self, name: str) -> str:
        with psycopg.connect(self.dsn(), autocommit=True, connect_timeout=5) as connection:
            connection.execute(f'create database "{name}"'.encode())
        return self.dsn(name)

    def leader(self) -> Host | None:
        """The host that accepts writes now."""
        for host in self.hosts:
            with contextlib.suppress(psycopg.Error), psycopg.connect(host.dsn(), connect_timeout=2) as connection:
                if connection.execute(_TIMELINE).fetchone() == (False,):
                    return host
        return None

    def all_follow(self) -> None:
        """Wait until all other hosts follow the leader, and one of them synchronously where that is asked for.

        Patroni is asked, not PostgreSQL: for a loop, commits wait for a standby that etcd does not name yet, and
        without a leader in that time no host may be elected.
        """

        def follow() -> bool | None:
            leader = self.leader()
            if leader is None:
                return None
            with urllib.request.urlopen(f"http://{leader.address}:{_API}/cluster", timeout=5) as answer:
                members = json.load(answer)["members"]
            roles = [member["role"] for member in members if member["state"] in ("running", "streaming")]
            complete = len(roles) == len(self.hosts) and "leader" in roles
            return (complete and ("sync_standby" in roles or not self.synchronous)) or None

        _insist(follow)

    def said(self, lines: int = 15) -> str:
        """The last that Patroni logged on each host."""
        ends = []
        for host in self.hosts:
            logged = (host.folder.parent / f"{host.name}.log").read_text(errors="replace").splitlines()
            ends.append("\n  ".join([f"{host.name}:", *logged[-lines:]]))
        return "\n".join(ends)

    def kill(self, host: Host) -> None:
        """As if its power failed: Patroni and PostgreSQL are gone, and no other process is told."""
        for pid in _pids(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def revive(self, host: Host) -> None:
        log = (host.folder.parent / f"{host.name}.log").open("ab")
        self._logs.append(log)
        command = ("ip", "netns", "exec", host.space, "runuser", "-u", "postgres", "--", "patroni")
        subprocess.Popen(
            [*command, str(host.folder / "patroni.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )

    def cut_off(self, host: Host) -> None:
        """From the other hosts, from etcd and from all clients."""
        _run("bridge", "link", "set", "dev", host.port, "state", "0")

    def connect_again(self, host: Host) -> None:
        _run("bridge", "link", "set", "dev", host.port, "state", "3")

    def switch_over(self) -> None:
        """Ask for another leader, as an operator does for maintenance. Which one, Patroni decides."""
        leader = self.leader()
        assert leader is not None

        def ask() -> bool:
            request = urllib.request.Request(
                f"http://{leader.address}:{_API}/switchover",
                data=json.dumps({"leader": leader.name}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bool(answer.status == 200)

        _insist(ask)

    def close(self) -> None:
        atexit.unregister(self.close)
        for host in self.hosts:
            self.kill(host)
            _run("ip", "netns", "delete", host.space, check=False)
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
            self._etcd = None
        _run("ip", "link", "delete", self._bridge, check=False)
        for log in self._logs:
            log.close()
        self._logs.clear()

    def _lay_cables(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge", "stp_state", "0")
        _run("ip", "address", "add", f"{self._net}.1/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for host in self.hosts:
            _run("ip", "netns", "add", host.space)
            _run("ip", "link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", host.space)
            _run("ip", "link", "set", host.port, "master", self._bridge)
            _run("ip", "link", "set", host.port, "up")
            inside = ("ip", "-n", host.space)
            _run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
            _run(*inside, "link", "set", "lo", "up")
            _run(*inside, "link", "set", "eth0", "up")
            # Without this, a host that is cut off is soon refused as unreachable instead of being silent.
            found = json.loads(_run(*inside, "-json", "link", "show", "eth0"))
            _run(
                *("ip", "neighbor", "replace", host.address, "lladdr", found[0]["address"]),
                *("nud", "permanent", "dev", self._bridge),
            )

    def _start_etcd(self) -> None:
        log = (self.folder / "etcd.log").open("ab")
        self._logs.append(log)
        self._etcd = subprocess.Popen(
            [
                *("etcd", "--name", "one", "--data-dir", str(self.folder / "etcd")),
                *("--listen-client-urls", f"http://{self._net}.1:2379"),
                *("--advertise-client-urls", f"http://{self._net}.1:2379"),
                *("--listen-peer-urls", f"http://{self._net}.1:2380"),
                *("--initial-advertise-peer-urls", f"http://{self._net}.1:2380"),
                *("--initial-cluster", f"one=http://{self._net}.1:2380"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

        def answers() -> bool:
            with urllib.request.urlopen(f"http://{self._net}.1:2379/health", timeout=2) as answer:
                return bool(answer.status == 200)

        _insist(answers)

    def _settings(self, host: Host) -> dict[str, Any]:
        trust = ["local all all trust", "host all all 0.0.0.0/0 trust", "host replication all 0.0.0.0/0 trust"]
        binaries = max(DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name))
        return {
            "scope": "duetime",
            "name": host.name,
            "restapi": {"listen": f"{host.address}:{_API}", "connect_address": f"{host.address}:{_API}"},
            "etcd3": {"hosts": [f"{self._net}.1:2379"]},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": _LOOP_WAIT,
                    "retry_timeout": _RETRY,
                    "synchronous_mode": self.synchronous,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {
                            "max_connections": 200,
                            "shared_buffers": "128MB",
                            "wal_log_hints": "on",
                            "wal_keep_size": "512MB",
                            "max_wal_senders": 8,
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
                "pg_hba": trust,
            },
            "postgresql": {
                "listen": f"{host.address}:{_PORT}",
                "connect_address": f"{host.address}:{_PORT}",
                "data_dir": str(host.folder / "data"),
                "bin_dir": str(binaries),
                "pgpass": str(host.folder / "pgpass"),
                "pg_hba": trust,
                "authentication": {
                    "superuser": {"username": "postgres", "password": "postgres"},
                    "replication": {"username": "replicator", "password": "replicator"},
                },
                "parameters": {"unix_socket_directories": str(host.folder)},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }


def _pids(host: Host) -> list[int]:
    told = _run("ip", "netns", "pids", host.space, check=False)
    return [int(pid) for pid in told.split()]


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def _insist(ask: Callable[[], T | None]) -> T:
    """Until there is an answer."""
    deadline = monotonic() + _TIMEOUT
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            if answer := ask():
                return answer
        if monotonic() > deadline:
            raise TimeoutError(f"no answer within {_TIMEOUT:g} s")
        time.sleep(0.2)
