"""Wrappers of roles: what they replace exists, and stays replaced when a role changes."""

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from duetime.engine import fire_quota, quota_store, stream_store
from duetime.store.address import store_in_memory
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import ROLES, Firing, Intake, Store
from duetime.store.protocol.streams import Streams
from duetime.store.sqlite import SqliteStore
from duetime.store.wrappers import observed, sealed
from duetime.store.wrappers.overlay import methods, overlay


class Plain:
    def __init__(self) -> None:
        self.log: list[str] = []

    def claim(self, number: int) -> int:
        self.log.append("plain claim")
        return number

    def look(self) -> str:
        return "plain look"


class Over:
    def __init__(self, inner: Plain) -> None:
        self._inner = inner

    def claim(self, number: int) -> int:
        return self._inner.claim(number) + 1


def wrappers() -> list[tuple[type, type]]:
    """Every wrapper, and the protocol of the role that it wraps."""
    found: list[tuple[type, type]] = [
        (fire_quota.FireQuota, Firing),
        (stream_store.StreamIntake, Intake),
        (stream_store.StreamChanges, Streams),
    ]
    for module in (sealed, observed, quota_store, stream_store):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            bases = getattr(kind, "__orig_bases__", ())
            if kind.__module__ == module.__name__ and not kind.__name__.startswith("_") and bases:
                found.append((kind, get_args(bases[0])[0]))
    return found


def signature(owner: type, name: str) -> list[tuple[str, Any]]:
    given = inspect.signature(getattr(owner, name)).parameters.values()
    return [(each.name, each.default) for each in given]


def test_there_are_wrappers_to_check() -> None:
    assert len(wrappers()) == 34


@pytest.mark.parametrize(("wrapper", "role"), wrappers(), ids=lambda kind: kind.__name__)
def test_every_method_of_a_wrapper_is_one_of_its_role(wrapper: type, role: type) -> None:
    names = [name for name in vars(wrapper) if not name.startswith("_")]
    assert names
    for name in names:
        assert signature(wrapper, name) == signature(role, name)


def test_the_methods_of_a_wrapper_take_the_place_of_those_of_the_role() -> None:
    plain = Plain()
    both = overlay(overlay(plain, Over(plain)), Over(plain))
    assert both.claim(1) == 2 and plain.log == ["plain claim"]
    assert both.look() == "plain look"


def test_a_wrapper_of_a_method_that_was_renamed_is_refused() -> None:
    class Renamed:
        def claim_runs(self, number: int) -> int:
            return number

    with pytest.raises(TypeError, match="Renamed replaces methods that the role does not have: claim_runs"):
        overlay(Plain(), Renamed())


@pytest.mark.parametrize(
    "store", [SqliteStore(":memory:"), PostgresStore("postgresql:///none")], ids=["sqlite", "postgres"]
)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_the_methods_of_its_protocol(store: Store, role: str) -> None:
    protocol = get_type_hints(Store)[role]
    wanted = {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}
    assert wanted and wanted <= set(methods(getattr(store, role)))


def test_a_wrapped_store_shares_what_is_not_wrapped_and_keeps_its_kind() -> None:
    store = store_in_memory()
    bounded = fire_quota.with_fire_quota(store)
    assert isinstance(bounded, SqliteStore) and bounded.firing is not store.firing
    assert all(getattr(bounded, role) is getattr(store, role) for role in ROLES if role != "firing")
