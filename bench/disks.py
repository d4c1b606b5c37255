"""The disk that databases lie on: that it is one, and not memory, where a commit waits for nothing; and that there is
room for what is filled."""

import os
import shutil
import tempfile
from pathlib import Path

from bench.report import console

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
BYTES_A_JOB = 1_500
"""A stored job with its cursor, labels and history, their indexes, and the log while it is filled: 15 GB for ten
million."""


class NoDisk(Exception):
    """A folder has no room for what would be filled, or is in memory."""


def keep_on_disk(data: Path) -> None:
    """See to it that databases which are made for a while are on a disk: below `data`, where the folder for temporary
    files is in memory. Raises `NoDisk` where that is as well."""
    usual = Path(tempfile.gettempdir())
    if not is_in_memory(usual):
        return
    check_disk(data)
    folder = data / "temporary"
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)
    console.print(f"{usual} is in memory, where no commit is durable: databases are made in {folder}")


def check_disk(folder: Path) -> None:
    if is_in_memory(folder):
        raise NoDisk(f"{folder} is in memory, where no commit is durable: name a folder on a disk (BENCH_DATA=…)")


def is_in_memory(folder: Path) -> bool:
    return file_system(folder) in IN_MEMORY


def file_system(folder: Path) -> str | None:
    """The kind of the file system that holds it, or will; None where the system does not tell."""
    if not MOUNTS.exists():
        return None
    device = _there(folder).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text().splitlines():
        mounted, _, kind = line.partition(" - ")
        if mounted.split()[2] == number:
            return kind.split()[0]
    return None


def check_room(folder: Path, stored: int) -> None:
    """Say what so many stored jobs take in a folder, unless they are there already; raises `NoDisk` where it has not as
    much. What is kept there counts: it is used, or makes room for what is filled again."""
    check_disk(folder)
    needed = stored * BYTES_A_JOB
    missing = needed - _size(folder)
    if missing <= 0:
        return
    free = shutil.disk_usage(_there(folder)).free
    told = f"{stored:,} stored jobs take about {_gigabytes(needed)} in {folder}, where {_gigabytes(free)} are free"
    if free < missing:
        raise NoDisk(f"{told}: name another folder (BENCH_DATA=…), or store fewer (STORED=1000000)")
    console.print(f"  {told}; they are filled once and kept", style="dim")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def _there(folder: Path) -> Path:
    """The folder, or what will hold it."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
