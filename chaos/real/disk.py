"""A disk that can be filled: a small file system in memory, where we may mount one (as root); else a plain folder."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@contextmanager
def small_disk(parent: Path, size: str) -> Iterator[Path]:
    folder = parent / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "duetime-chaos", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def temporary_folders_on(folder: Path) -> Iterator[None]:
    """Temporary folders are made there inside the block."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@cache
def may_mount() -> bool:
    """Whether there can be such a disk here."""
    with tempfile.TemporaryDirectory() as parent, small_disk(Path(parent), "64k") as folder:
        return can_be_filled(folder)


def can_be_filled(folder: Path) -> bool:
    return folder.is_mount()


def fill(folder: Path) -> None:
    """Leave no room at all."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(1 << 16)) == 1 << 16:
            pass
    with contextlib.suppress(OSError), (folder / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(512)):
            pass


def make_room(folder: Path) -> None:
    for name in ("filler", "rest"):
        (folder / name).unlink(missing_ok=True)
