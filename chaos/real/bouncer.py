"""PgBouncer in transaction mode between all processes and the database, where the program is installed.

`DUETIME_TEST_PGBOUNCER` names it if it is not on the path.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.postgres import Server, free_port

_VARIABLE = "DUETIME_TEST_PGBOUNCER"
_SETTINGS = """
[databases]
* = host=127.0.0.1 port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 1000
server_login_retry = 1
ignore_startup_parameters = extra_float_digits,search_path,jit
"""


def program() -> str | None:
    return os.environ.get(_VARIABLE) or shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Bouncer:
    def __init__(self, postgres: Server, folder: Path, *, database: str = "chaos", size: int = 20) -> None:
        self._port = free_port()
        self._postgres = postgres
        self._file = folder / "pgbouncer.ini"
        self._database = database
        self._size = size
        self.log = folder / "pgbouncer.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.lead_to(postgres)

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{self._database}"

    def lead_to(self, postgres: Server) -> None:
        """From now on to another server; sessions of the one before end with it."""
        self._file.write_text(_SETTINGS.format(port=postgres.port, own=self._port, size=self._size))
        self._file.chmod(0o644)
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        found = program()
        assert found is not None
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [found, str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._postgres.as_owner(),
            )
        self._wait_until_ready(self._process)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            if process.poll() is not None:
                raise RuntimeError(f"PgBouncer ended at once, with {process.returncode}")
            time.sleep(0.05)
        raise RuntimeError("PgBouncer does not answer")
