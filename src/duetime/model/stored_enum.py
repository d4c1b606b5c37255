"""Enumerations that are stored as numbers and shown by name."""

from enum import IntEnum


class StoredEnum(IntEnum):
    """`print(run.state)` prints SUCCEEDED."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)
