"""The disk that databases lie on: whether there is room for what is filled."""

import shutil
from pathlib import Path

from bench.report import console

BYTES_A_JOB = 1_500
"""A stored job with its cursor, labels and history, their indexes, and the log while it is filled: 15 GB for ten
million."""


class NoRoom(Exception):
    """The disk is too small for what would be filled."""


def check_room(folder: Path, stored: int) -> None:
    """Say what so many stored jobs take in a folder, unless they are there already; raises `NoRoom` where it has not as
    much. What is kept there counts: it is used, or makes room for what is filled again."""
    needed = stored * BYTES_A_JOB
    missing = needed - _size(folder)
    if missing <= 0:
        return
    free = shutil.disk_usage(_there(folder)).free
    told = f"{stored:,} stored jobs take about {_gigabytes(needed)} in {folder}, where {_gigabytes(free)} are free"
    if free < missing:
        raise NoRoom(f"{told}: name another folder (BENCH_DATA=…), or store fewer (STORED=1000000)")
    console.print(f"  {told}; they are filled once and kept", style="dim")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def _there(folder: Path) -> Path:
    """The folder, or what will hold it."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
