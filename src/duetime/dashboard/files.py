"""The files of the dashboard, read once and kept in memory, both compressed and plain.

All of them are served below a folder whose name is a hash of their contents, so a browser may keep them for ever and
never mixes two versions: another version has another address. Only the page itself is asked for anew each time.
"""

import gzip
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from duetime.dashboard import job_form, request_forms
from duetime.dashboard.bundle import bundle

PAGES = (
    "/",
    "/trends",
    "/jobs",
    "/jobs/new",
    "/jobs/{id}",
    "/jobs/{id}/edit",
    "/schedules",
    "/runs",
    "/runs/{id}",
    "/graphs",
    "/graphs/{id}",
    "/calendar",
    "/dead-letters",
    "/queues",
    "/workers",
    "/breakers",
    "/streams",
    "/alerts",
    "/checkins",
    "/notifications",
    "/calendars",
    "/defaults",
    "/secrets",
    "/sources",
    "/issuers",
    "/keys",
    "/sessions",
    "/tenants",
    "/tenants/{name}",
    "/archive",
    "/bulk-actions",
    "/audit",
)
"""The addresses of pages. The browser's router shows them."""
SCRIPT, STYLE = "dashboard.js", "dashboard.css"
_STYLES = ("style/base.css", "style/parts.css", "style/pages.css", "vendor/uplot.css")
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_LICENCE = "text/plain; charset=utf-8"


class File(NamedTuple):
    body: bytes
    packed: bytes
    media: str


class Files:
    def __init__(self) -> None:
        found = dict(_walk(resources.files("duetime.dashboard").joinpath("static"), ""))
        found[job_form.MODULE] = job_form.options_module()
        found[request_forms.MODULE] = request_forms.requests_module()
        page = found.pop("index.html")
        modules = {name: body.decode() for name, body in found.items() if name.endswith(".js")}
        found[SCRIPT] = bundle("app.js", modules).encode()
        found[STYLE] = b"".join(found.pop(name) for name in _STYLES)
        digest = blake2b(digest_size=8)
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + found[name] + b"\0")
        self.version = digest.hexdigest()
        self._files = {name: _file(name, body) for name, body in found.items()}
        self.page = _file("index.html", self._filled(page))

    def file(self, version: str, name: str) -> File | None:
        """The file with this version; None for any other version."""
        return self._files.get(name) if version == self.version else None

    def _filled(self, page: bytes) -> bytes:
        """The page with links that preload what the script imports: the browser loads all of them at once."""
        modules = "\n".join(
            f'    <link rel="modulepreload" href="/assets/{self.version}/{name}">'
            for name in sorted(self._files)
            if name.startswith("vendor/") and name.endswith(".js")
        )
        return page.replace(b"    <!-- modules -->", modules.encode()).replace(b"{version}", self.version.encode())


def _walk(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{path}{entry.name}/")
        else:
            found.append((path + entry.name, entry.read_bytes()))
    return found


def _file(name: str, body: bytes) -> File:
    return File(body, gzip.compress(body, 6, mtime=0), _MEDIA.get(name.rpartition(".")[2], _LICENCE))
