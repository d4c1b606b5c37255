"""Identifies the time zone database of this process."""

import zoneinfo
from functools import cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path

from duetime.model.schedule.zone import zone_names


@cache
def zone_database() -> str:
    """A name for the rules of all zones together: the same on every machine with the same files."""
    digest = blake2b(digest_size=12)
    for name in zone_names():
        digest.update(name.encode())
        digest.update(_rules(name))
    return digest.hexdigest()


def _rules(name: str) -> bytes:
    """The file that `ZoneInfo` would read: the system's first, then that of the tzdata package."""
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
