"""Structs that share fields by name."""

from typing import Any, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)


def struct_like(kind: type[S], source: object, /, **given: Any) -> S:
    """A struct of this kind: the given fields, and all others as `source` has them."""
    return kind(**given, **{name: getattr(source, name) for name in kind.__struct_fields__ if name not in given})
