"""Where the server is and with which key, for those who are not told: settings first, then the data folder of a
`duetime up` on this machine."""

from pathlib import Path

from duetime.errors import InvalidInput
from duetime.settings import Settings

ADMIN_KEY = "admin-key"
"""The first root key, readable for the owner of the folder alone."""
SERVER_URL = "server-url"
"""Where the server of this folder is reached, while it runs."""


def find_server(settings: Settings) -> tuple[str, str | None]:
    """The address and the key. Raises `InvalidInput` that says how to name them."""
    url = settings.url or _read(settings.data_dir / SERVER_URL)
    if url is None:
        raise InvalidInput(
            f"no server is named, and none runs on {settings.data_dir}",
            field="url",
            remedy="start `duetime up`, or set DUETIME_URL and DUETIME_KEY",
        )
    return url, settings.key or _read(settings.data_dir / ADMIN_KEY)


def is_served(settings: Settings) -> bool:
    """Whether a server says that it runs on the data folder."""
    return settings.database_url is None and _read(settings.data_dir / SERVER_URL) is not None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
