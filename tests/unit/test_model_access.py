"""Roles, and the text of keys."""

import pytest

from duetime.model.access import ALLOWED, Action, Role, may
from duetime.model.key_text import PREFIX, hash_of, looks_like_key, new_key_text


def test_every_role_has_its_rights() -> None:
    assert set(ALLOWED) == set(Role)
    assert all(may(Role.ROOT, action) for action in Action)
    assert not may(Role.ADMIN, Action.MANAGE_TENANTS)
    assert not any(may(Role.VIEWER, action) for action in Action if action is not Action.READ)
    assert not may(Role.WORKER, Action.READ)
    assert may(Role.SUBMITTER, Action.SUBMIT) and not may(Role.SUBMITTER, Action.CONTROL)


def test_a_key_is_known_by_its_look() -> None:
    made = new_key_text()
    assert made.text.startswith(PREFIX) and len(made.text) == len(PREFIX) + 49
    assert looks_like_key(made.text)
    assert made.hash == hash_of(made.text) and len(made.hash) == 32
    assert made.text not in made.hint and made.text.startswith(made.hint.partition("…")[0])
    assert new_key_text().text != made.text


@pytest.mark.parametrize("position", [0, 8, 20, 50, 56])
def test_a_key_with_another_character_is_none(position: int) -> None:
    text = new_key_text().text
    other = "a" if text[position] != "a" else "b"
    assert not looks_like_key(text[:position] + other + text[position + 1 :])


@pytest.mark.parametrize("text", ["", "dt_live_", "dt_live_" + "é" * 49, "Bearer x", "dt_live_" + "0" * 48])
def test_what_is_no_key_is_none(text: str) -> None:
    assert not looks_like_key(text)
