"""The first root key of an installation: made once, and kept in the data folder for the commands of the same user.

The file is readable for its owner alone. One whose key was revoked, or that belongs to another database, is replaced.
"""

import os
from pathlib import Path

from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import KeyText, hash_of, hint_of, looks_like_key, new_key_text
from duetime.store.protocol import Store

FILE = "admin-key"
ADDRESS_FILE = "server-url"
"""Where the server of this folder is reached, while it runs."""


async def ensure_admin_key(store: Store, folder: Path) -> KeyText:
    """The root key in the folder, made if there is none that works."""
    found = read_admin_key(folder)
    if found is not None:
        key = await store.key_by_hash(hash_of(found))
        if key is not None and key.role is Role.ROOT:
            return KeyText(found, hash_of(found), hint_of(found))
    made = await make_root_key(store, "admin-key")
    write_private(folder / FILE, made.text + "\n")
    return made


async def make_root_key(store: Store, name: str) -> KeyText:
    """A new root key; its text is known here for the last time."""
    made = new_key_text()
    await store.create_key(NewKey(new_id(), None, Role.ROOT, name, made.hash, made.hint))
    return made


def read_admin_key(folder: Path) -> str | None:
    try:
        text = (folder / FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if looks_like_key(text) else None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, at once and whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    fresh.replace(path)
