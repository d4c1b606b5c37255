"""A request before it is sent: pure values, made the same way for the async client and the blocking one."""

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

T_co = TypeVar("T_co", covariant=True)


class Ask(NamedTuple, Generic[T_co]):
    method: str
    path: str
    answer: type[T_co]
    query: Mapping[str, object] = {}
    body: object = None
    headers: Mapping[str, str] = {}
    repeatable: bool = True
    """Whether asking twice does it once."""
    patience: float = 30.0


class PageOf(Protocol[T_co]):
    """One page of a list, as the API answers it."""

    @property
    def items(self) -> tuple[T_co, ...]: ...

    @property
    def next_cursor(self) -> str | None: ...


def path(template: str, *parts: str) -> str:
    """A path with its names filled in; nothing in a name can lead elsewhere."""
    return template.format(*(quote(part, safe="") for part in parts))


def given(**fields: object) -> dict[str, Any]:
    """What was given: None is left for the server to decide."""
    return {name: value for name, value in fields.items() if value is not None}
