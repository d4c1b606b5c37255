"""Which key goes to which server."""

from pathlib import Path

import pytest

from duetime import InvalidInput
from duetime.client.server_address import ADMIN_KEY, SERVER_URL, find_server
from duetime.settings import Settings
from duetime.store.sqlite.ownership import Ownership

OWN = "http://127.0.0.1:8420"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, "of the folder"),
        ({"url": OWN}, "of the folder"),
        ({"url": OWN + "/"}, "of the folder"),
        ({"url": "http://127.0.0.1:8421"}, None),
        ({"url": "https://jobs.example.com"}, None),
        ({"url": "https://jobs.example.com", "key": "given"}, "given"),
        ({"key": "given"}, "given"),
    ],
)
def test_the_root_key_of_a_folder_goes_to_its_own_server_only(
    tmp_path: Path, given: dict[str, str], key: str | None
) -> None:
    (tmp_path / SERVER_URL).write_text(OWN + "\n")
    (tmp_path / ADMIN_KEY).write_text("of the folder\n")
    assert find_server(Settings(data_dir=tmp_path, **given)) == (given.get("url", OWN), key)  # type: ignore[arg-type]


def test_without_a_server_of_its_own_a_folder_gives_no_key(tmp_path: Path) -> None:
    (tmp_path / ADMIN_KEY).write_text("of the folder\n")
    assert find_server(Settings(data_dir=tmp_path, url=OWN)) == (OWN, None)


def test_beside_postgresql_the_error_names_the_address_and_a_key(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url="postgresql://localhost/jobs")
    with pytest.raises(InvalidInput, match=r"set DUETIME_URL .*`duetime server`.* DUETIME_KEY .*`duetime root-key`"):
        find_server(settings)
    (tmp_path / SERVER_URL).write_text(OWN + "\n")
    assert find_server(settings) == (OWN, None), "a `duetime up` on PostgreSQL"


def test_a_process_that_uses_its_own_file_still_finds_its_server(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.sqlite_file is not None
    owned = Ownership(settings.sqlite_file, serves=True)
    owned.take()
    try:
        with pytest.raises(InvalidInput, match="serves no API"):
            find_server(settings)
        (tmp_path / SERVER_URL).write_text(OWN + "\n")
        assert find_server(settings) == (OWN, None)
    finally:
        owned.release()
