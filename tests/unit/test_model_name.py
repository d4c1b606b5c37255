"""What names and keys may look like."""

import pytest

from duetime.errors import InvalidInput
from duetime.model.name import KEY_LIMIT, NAME_LIMIT, check_key, check_name


@pytest.mark.parametrize("name", ["a", "_x", "app.tasks:greet", "9lives", "mail/out@eu-1", "x" * NAME_LIMIT])
def test_names_that_may_be_used(name: str) -> None:
    assert check_name(name, "task") == name


@pytest.mark.parametrize("name", ["", " a", "a b", "-a", ".a", "ä", "a\n", "x" * (NAME_LIMIT + 1), None, 5, b"a"])
def test_names_that_may_not(name: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_name(name, "queue")
    assert caught.value.field == "queue"


@pytest.mark.parametrize("key", ["a", "order 7", "ünïcode ☃", "x" * KEY_LIMIT])
def test_keys_that_may_be_used(key: str) -> None:
    assert check_key(key, "key") == key


@pytest.mark.parametrize("key", ["", "a\x00b", "line\nbreak", "\ud800", "x" * (KEY_LIMIT + 1), None, 5])
def test_keys_that_may_not(key: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_key(key, "idempotency_key")
    assert caught.value.field == "idempotency_key"
