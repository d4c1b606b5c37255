"""Real S3-compatible storage: the SeaweedFS from PyPI."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from duetime.archive.storage import S3Storage
from tests.support.broker_server import BrokerServer
from tests.support.postgres import free_port

ACCESS, SECRET = "duetime", "hunter2-of-the-storage"
BUCKET = "history"


class S3Server(BrokerServer):
    kind = "s3"

    def __init__(self) -> None:
        super().__init__()
        self._ports = [free_port() for _ in range(7)]
        actions = ["Admin", "Read", "Write", "List"]
        identity = {"name": "tests", "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}], "actions": actions}
        (self.folder / "s3.json").write_bytes(msgspec.json.encode({"identities": [identity]}))

    @classmethod
    def missing(cls) -> str | None:
        return None if _program() else "S3: no `weed`; install the locked tools, which carry it"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        program = _program()
        assert program is not None
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc = map(str, self._ports)
        (self.folder / "data").mkdir(exist_ok=True)
        options = {
            "dir": str(self.folder / "data"),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.port": master,
            "master.port.grpc": master_grpc,
            "master.volumeSizeLimitMB": "64",
            "volume.port": volume,
            "volume.port.grpc": volume_grpc,
            "volume.max": "20",
            "filer.port": filer,
            "filer.port.grpc": filer_grpc,
            "s3.port": str(self.port),
            "s3.port.grpc": s3_grpc,
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            "s3.config": str(self.folder / "s3.json"),
        }
        return [program, "server", "-s3", "-filer", *(f"-{name}={value}" for name, value in options.items())]

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        try:
            files = self.storage("")._files
            files.create_dir(BUCKET)
            with files.open_output_stream(f"{BUCKET}/ready") as file:
                file.write(b"yes")
        except OSError:
            return False
        return True

    def options(self) -> dict[str, Any]:
        return {
            "access_key": ACCESS,
            "secret_key": SECRET,
            "endpoint_override": f"127.0.0.1:{self.port}",
            "scheme": "http",
            "region": "us-east-1",
            "allow_bucket_creation": True,
        }

    def storage(self, prefix: str) -> S3Storage:
        return S3Storage(BUCKET, prefix, self.options())


def _program() -> str | None:
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")
