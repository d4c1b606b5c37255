"""The readme of the package: README.md with absolute links, because an index shows it without the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata["urls"]["Source"]
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, source)}


def with_absolute_links(text: str, source: str) -> str:
    def absolute(match: re.Match[str]) -> str:
        image, words, path = match.groups()
        return f"{image}{words}({source}/{'raw' if image else 'blob'}/main/{path})"

    return _LINK.sub(absolute, text)
