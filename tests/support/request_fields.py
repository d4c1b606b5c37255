"""The fields of requests: where a body takes what, and what must stand around it."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import inspect

from duetime.api.endpoint import Endpoint

WHEN = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T03:00:00Z"}
Path = tuple[str | int, ...]
Wanted = Callable[[inspect.Type], bool]

BASES: dict[str, Any] = {
    "create_job": {"task": "t"},
    "create_jobs": [{"task": "t"}],
    "backfill_job": {**WHEN},
    "change_job": {},
    "register_worker": {"name": "w", "tasks": ["t"]},
    "claim_runs": {"number": 1, "limit": 1},
    "create_graph": {"nodes": {"a": {"task": "t"}}},
    "preview_schedule": {"schedule": "every hour"},
    "put_subscription": {"to": {"type": "webhook", "url": "https://example.com/"}, "topics": ["*"]},
    "put_alert": {"figure": "backlog", "threshold": 1},
    "put_checkin": {"every": 60},
    "create_tenant": {"name": "acme"},
    "create_key": {"role": "viewer", "name": "k"},
    "preview_bulk_action": {"action": "pause", "jobs": {}},
    "create_bulk_action": {"action": "pause", "jobs": {}},
    "reset_breaker": {"target": "example.com"},
    "put_issuer": {"issuer": "https://a.example.com", "jwks_url": "https://a.example.com/jwks"},
    "put_secret": {"value": "s3cret-value", "hosts": ["example.com"]},
    "login_with_key": {"key": "dt_live_x"},
}
"""What stands beside the text, where a request without it would be refused for something else."""


def places(
    kind: inspect.Type, wanted: Wanted, path: Path = (), depth: int = 0
) -> Iterator[tuple[Path, dict[Path, Any]]]:
    """Where a type takes what is wanted, and what must stand around it."""
    if depth > 4:
        return
    if wanted(kind):
        yield path, {}
    match kind:
        case inspect.Metadata():
            yield from places(kind.type, wanted, path, depth)
        case inspect.UnionType():
            for each in kind.types:
                yield from places(each, wanted, path, depth)
        case inspect.StructType():
            around = {(*path, each.encode_name): plain(each.type) for each in kind.fields if each.required}
            if kind.tag_field is not None:
                around = {path: {}, **around, (*path, kind.tag_field): kind.tag} if path else around
            for field in kind.fields:
                for found, more in places(field.type, wanted, (*path, field.encode_name), depth + 1):
                    yield found, around | more
        case inspect.VarTupleType() | inspect.ListType():
            for found, more in places(kind.item_type, wanted, (*path, 0), depth + 1):
                yield found, {path: [None]} | more
        case inspect.DictType():
            for found, more in places(kind.value_type, wanted, (*path, "k"), depth + 1):
                yield found, {path: {"k": None}} | more


def plain(kind: inspect.Type) -> Any:
    match kind:
        case inspect.StrType():
            return f"job_{'0' * 26}" if (kind.pattern or "").startswith("^job_") else "text"
        case inspect.Metadata():
            return plain(kind.type)
        case inspect.UnionType():
            return None if any(isinstance(each, inspect.NoneType) for each in kind.types) else plain(kind.types[0])
        case inspect.StructType():
            made = {each.encode_name: plain(each.type) for each in kind.fields if each.required}
            return made | ({} if kind.tag_field is None else {kind.tag_field: kind.tag})
        case inspect.VarTupleType() | inspect.ListType():
            return [plain(kind.item_type)] if kind.min_length else []
        case inspect.DictType():
            return {}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 1
    return None


def put(value: Any, path: Path, what: Any, *, over: bool = True) -> Any:
    if not path:
        return what if over or value is None else value
    head, *rest = path
    if isinstance(head, int):
        made: Any = value if isinstance(value, list) and value else [None]
        made[head] = put(made[head], tuple(rest), what, over=over)
        return made
    made = value if isinstance(value, dict) else {}
    made[head] = put(made.get(head), tuple(rest), what, over=over)
    return made


def bodies(endpoint: Endpoint, wanted: Wanted, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each place of the body that takes what is wanted, with each of the values."""
    if endpoint.body in (None, bytes):
        return
    for path, around in places(inspect.type_info(endpoint.body), wanted):
        body = copy.deepcopy(BASES.get(endpoint.name, {}))
        for place in sorted(around, key=len):
            body = put(body, place, copy.deepcopy(around[place]), over=False)
        for name, value in values.items():
            yield f"{'.'.join(map(str, path))}={name}", put(copy.deepcopy(body), path, value)


def plain_body(endpoint: Endpoint) -> Any:
    """A body with all that it must have, and nothing else."""
    return {} if endpoint.body in (None, bytes) else plain(inspect.type_info(endpoint.body))
