"""Which key goes to which server."""

import os
from pathlib import Path

import pytest

from duetime import InvalidInput
from duetime.api.data_folder import announce_server, forget_server
from duetime.client.server_address import ADMIN_KEY, SERVER_PROCESS, SERVER_URL, find_server, is_served
from duetime.settings import Settings
from duetime.store.sqlite.ownership import Ownership
from tests.support.file_owner import owned_by_another_process

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
    settings = Settings(data_dir=tmp_path, **given)  # type: ignore[arg-type]
    assert settings.sqlite_file is not None
    with owned_by_another_process(settings.sqlite_file, tmp_path) as process:
        announce(tmp_path, process)
        assert find_server(settings) == (given.get("url", OWN), key)


def announce(folder: Path, process: int) -> None:
    """What a server writes when it is up."""
    (folder / SERVER_PROCESS).write_text(f"{process}\n")
    (folder / SERVER_URL).write_text(OWN + "\n")
    (folder / ADMIN_KEY).write_text("of the folder\n")


def test_no_key_goes_to_a_server_that_does_not_own_the_file(tmp_path: Path) -> None:
    """Another server may have the same folder, and a killed one has left its address."""
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'one.db'}", data_dir=tmp_path / "nothing", key="secret")
    with owned_by_another_process(tmp_path / "one.db", tmp_path) as process:
        announce(tmp_path, process + 1)
        assert not is_served(settings)
        with pytest.raises(InvalidInput, match="has no address"):
            find_server(settings)
        announce(tmp_path, process)
        assert find_server(settings) == (OWN, "secret")
        if os.geteuid() == 0:
            os.chown(tmp_path / SERVER_URL, 65534, 65534)
            assert not is_served(settings), "the lock names a folder of another user"
    with pytest.raises(InvalidInput, match="none runs"):
        find_server(settings)


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
    owned = Ownership(settings.sqlite_file, serves=tmp_path)
    owned.take()
    try:
        with pytest.raises(InvalidInput, match="serves no API"):
            find_server(settings)
        (tmp_path / SERVER_PROCESS).write_text(str(os.getpid()))
        (tmp_path / SERVER_URL).write_text(OWN + "\n")
        assert find_server(settings) == (OWN, None)
    finally:
        owned.release()


@pytest.mark.parametrize("name", ["by its url", "by another folder", "by a link", "from another working folder"])
def test_the_server_of_a_file_is_found_however_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server, elsewhere = tmp_path / "server", tmp_path / "elsewhere"
    server.mkdir()
    elsewhere.mkdir()
    file = server / "duetime.db"
    asked = Settings(data_dir=elsewhere, database_url=f"sqlite:///{file}")
    if name == "by another folder":
        asked = Settings(data_dir=elsewhere / ".." / "server")
    elif name == "by a link":
        (elsewhere / "linked.db").symlink_to(file)
        asked = Settings(data_dir=elsewhere, database_url=f"sqlite:///{elsewhere / 'linked.db'}")
    elif name == "from another working folder":
        monkeypatch.chdir(elsewhere)
        asked = Settings(database_url="sqlite:///../server/duetime.db")
    assert not is_served(asked)
    with owned_by_another_process(file, server) as process:
        (elsewhere / SERVER_URL).write_text("http://127.0.0.1:1\n")  # of another server
        (elsewhere / ADMIN_KEY).write_text("of another folder\n")
        with pytest.raises(InvalidInput, match=f"has no address in {server}"):
            find_server(asked)
        announce(server, process)
        assert is_served(asked)
        assert find_server(asked) == (OWN, "of the folder")


def test_a_server_that_ends_leaves_the_address_of_another_one_in_its_folder(tmp_path: Path) -> None:
    announce(tmp_path, os.getpid() + 1)
    forget_server(tmp_path)
    assert (tmp_path / SERVER_URL).exists()
    announce_server(tmp_path, OWN)
    forget_server(tmp_path)
    assert not (tmp_path / SERVER_URL).exists()
