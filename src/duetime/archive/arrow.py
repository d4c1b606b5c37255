"""pyarrow is an extra (`duetime[archive]`): it is imported when history is archived or archived history is read."""

import importlib
from typing import Any

from duetime.errors import SettingsError


class _Arrow:
    """The modules of pyarrow, each imported when it is first used."""

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("pyarrow" if name == "core" else f"pyarrow.{name}")
        except ImportError as error:
            raise SettingsError(
                "archived history needs pyarrow", field="archive_url", remedy="pip install 'duetime[archive]'"
            ) from error
        setattr(self, name, module)
        return module


arrow = _Arrow()
