"""The files of an installation's data folder, readable by their owner only.

admin-key         the first root key, for commands of the same user; replaced when it no longer works
encryption-key    the key that payloads are encrypted with, when the settings name none
server-url        the address of the server of this folder, while it runs
server-pid        its process

Clients look for them, too (`client/server_address.py`).
"""

import os
from base64 import b64encode
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from duetime.client.server_address import ADMIN_KEY, SERVER_PROCESS, SERVER_URL
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import KeyText, hash_of, hint_of, looks_like_key, new_key_text
from duetime.settings import Settings
from duetime.settings.kinds import decoded_key
from duetime.store.protocol.store import Store

ENCRYPTION_KEY = "encryption-key"


async def ensure_admin_key(store: Store, folder: Path) -> KeyText:
    """The root key in the folder; created if there is none that works."""
    found = read_admin_key(folder)
    if found is not None:
        key = await store.access.key_by_hash(hash_of(found))
        if key is not None and key.role is Role.ROOT:
            return KeyText(found, hash_of(found), hint_of(found))
    made = await make_root_key(store, "admin-key")
    write_private(folder / ADMIN_KEY, made.text + "\n")
    return made


async def make_root_key(store: Store, name: str, lifetime: timedelta | None = None) -> KeyText:
    """A new root key. Its text is not stored.

    It does not expire by default: it gives access when all other keys have expired. Its creator has the database, so an
    expiry would protect nothing.
    """
    made = new_key_text()
    expires_at = None if lifetime is None else await store.now() + lifetime
    await store.access.create_key(NewKey(new_id(), None, Role.ROOT, name, made.hash, made.hint, expires_at=expires_at))
    return made


def with_encryption_key(settings: Settings) -> Settings:
    """The settings with an encryption key: their own, or the one of the data folder, created if it is missing."""
    if settings.has_encryption:
        return settings
    path = settings.data_dir / ENCRYPTION_KEY
    if not path.exists():
        write_private(path, new_encryption_key("local") + "\n")
    try:
        key = path.read_text(encoding="ascii").strip()
        decoded_key(key)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be used: {error}", field="encryption_keys", remedy="restore it, or set encryption_keys"
        ) from None
    return msgspec.structs.replace(settings, encryption_keys=(key,))


def new_encryption_key(prefix: str) -> str:
    """In the form of the setting. Its name differs from every other key's, so that a missing key is recognised."""
    return f"{prefix}-{os.urandom(4).hex()}:{b64encode(os.urandom(32)).decode()}"


def read_admin_key(folder: Path) -> str | None:
    try:
        text = (folder / ADMIN_KEY).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if looks_like_key(text) else None


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    fresh.replace(path)


def announce_server(folder: Path, url: str) -> None:
    """Let clients of this folder find the server of this process."""
    write_private(folder / SERVER_PROCESS, f"{os.getpid()}\n")
    write_private(folder / SERVER_URL, url + "\n")


def forget_server(folder: Path) -> None:
    """This server has ended. Another one may have announced itself in the folder since: it stays."""
    with suppress(FileNotFoundError):
        if (folder / SERVER_PROCESS).read_text(encoding="ascii").strip() == str(os.getpid()):
            (folder / SERVER_URL).unlink(missing_ok=True)
