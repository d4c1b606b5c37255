"""Which key goes to which server."""

from pathlib import Path

import pytest

from duetime.client.server_address import ADMIN_KEY, SERVER_URL, find_server
from duetime.settings import Settings

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
