"""Another process that owns an SQLite file as a server does, without serving it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.launcher import ROOT


@contextmanager
def owned_by_another_process(file: Path, data_dir: Path) -> Iterator[int]:
    """Yields its process id."""
    command = [sys.executable, "-m", "tests.support.file_owner", str(file), str(data_dir)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            assert process.stdout.readline() == b"owned\n"
            yield process.pid
        finally:
            process.stdin.close()


def main() -> None:
    from duetime.store.sqlite.ownership import Ownership

    owned = Ownership(Path(sys.argv[1]), serves=Path(sys.argv[2]))
    owned.take()
    print("owned", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
