"""The address and the key of the server, for clients that are given none: from the settings, else from the data folder
of a `duetime up` on this machine. The server of an SQLite file names its folder in the lock of the file.
"""

import os
from pathlib import Path

from duetime.client.login.renewing import LoginToken
from duetime.crypto.tls import ClientTls
from duetime.errors import InvalidInput
from duetime.settings import Settings, load

ADMIN_KEY = "admin-key"
"""The first root key, readable by the owner of the folder only."""
SERVER_URL = "server-url"
"""The address of the server of this folder, while it runs."""
SERVER_PROCESS = "server-pid"
"""The id of its process. Servers of two files may have one folder: the file's lock says which process serves it."""


def with_settings(
    url: str | None, key: str | None, tls: ClientTls | None
) -> tuple[str, str | LoginToken | None, ClientTls | None]:
    """What a client was given, completed from the settings. A given address gets the key of the settings at most.
    Without any key, this user's login at the server is used."""
    if url is not None and key is not None:
        return url, key, tls
    settings = load(None, os.environ, {})
    if url is not None:
        return url, settings.key or LoginToken.at(url), tls
    found, kept = find_server(settings)
    return found, key or kept or LoginToken.at(found), tls or ClientTls.of(settings)


def find_server(settings: Settings) -> tuple[str, str | None]:
    """The address and the key. The root key of the data folder is for the server of that folder: no other address gets
    it. Raises `InvalidInput` with the ways to give them."""
    folder, own = _server_here(settings)
    url = settings.url or own
    if url is None:
        raise _no_server(settings, folder)
    if settings.key is None and own is not None and url.rstrip("/") == own.rstrip("/"):
        return url, _read(folder / ADMIN_KEY)
    return url, settings.key


def _no_server(settings: Settings, folder: Path) -> InvalidInput:
    """What to do where no server runs on the database of these settings."""
    if settings.sqlite_file is None:
        return InvalidInput(
            "no server is given, and commands do not use the database directly",
            field="url",
            remedy="set DUETIME_URL to the address of a `duetime server`, and DUETIME_KEY to a key:"
            " `duetime root-key` creates one",
        )
    from duetime.store.sqlite.ownership import owner_of

    owner = owner_of(settings.sqlite_file)
    if owner is None:
        return InvalidInput(
            f"no server is given, and none runs on {settings.database_url or folder}",
            field="url",
            remedy="start `duetime up`, or set DUETIME_URL and DUETIME_KEY",
        )
    if not owner.serves:
        return InvalidInput(
            f"process {owner.process} uses the file {settings.sqlite_file}, and serves no API",
            field="url",
            remedy="stop it and start `duetime up MODULE:APP`, or let it use PostgreSQL, beside a `duetime server`:"
            " see docs/embedding.md",
        )
    return InvalidInput(
        f"process {owner.process} serves {settings.sqlite_file}, but has no address in {folder}",
        field="url",
        remedy="wait until it is up, or give its --data-dir",
    )


def is_served(settings: Settings) -> bool:
    """Whether a server runs on the SQLite file."""
    return settings.sqlite_file is not None and _server_here(settings)[1] is not None


def is_used(settings: Settings) -> bool:
    """Whether a process has the SQLite file, be it a server or not."""
    from duetime.store.sqlite.ownership import owner_of

    return settings.sqlite_file is not None and owner_of(settings.sqlite_file) is not None


def _server_here(settings: Settings) -> tuple[Path, str | None]:
    """The data folder of the server, and its address if it runs. The data folder of these settings is another one where
    only the file is the same: it was given by its URL, or the process has another working folder.

    The address must be that of the process that owns the file: a killed server has left an old one, and another server
    may have the same folder. A folder that only the lock names must belong to this user, who would send it a key."""
    if settings.sqlite_file is None:
        return settings.data_dir, _read(settings.data_dir / SERVER_URL)
    from duetime.store.sqlite.ownership import owner_of

    owner = owner_of(settings.sqlite_file)
    folder = settings.data_dir if owner is None or owner.data_dir is None else owner.data_dir
    is_its = owner is not None and owner.process == _read(folder / SERVER_PROCESS)
    is_trusted = folder == settings.data_dir.resolve() or _is_mine(folder / SERVER_URL)
    return folder, _read(folder / SERVER_URL) if is_its and is_trusted else None


def _is_mine(file: Path) -> bool:
    try:
        return file.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
