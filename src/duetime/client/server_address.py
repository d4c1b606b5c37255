"""The address and the key of the server, for clients that are given none: from the settings, else from the data folder
of a `duetime up` on this machine.
"""

from pathlib import Path

from duetime.errors import InvalidInput
from duetime.settings import Settings

ADMIN_KEY = "admin-key"
"""The first root key, readable by the owner of the folder only."""
SERVER_URL = "server-url"
"""The address of the server of this folder, while it runs."""


def find_server(settings: Settings) -> tuple[str, str | None]:
    """The address and the key. Raises `InvalidInput` with the ways to give them."""
    url = settings.url or _read(settings.data_dir / SERVER_URL)
    if url is None:
        raise InvalidInput(
            f"no server is given, and none runs on {settings.data_dir}",
            field="url",
            remedy="start `duetime up`, or set DUETIME_URL and DUETIME_KEY",
        )
    return url, settings.key or _read(settings.data_dir / ADMIN_KEY)


def is_served(settings: Settings) -> bool:
    """Whether a server runs on the data folder."""
    return settings.database_url is None and _read(settings.data_dir / SERVER_URL) is not None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
