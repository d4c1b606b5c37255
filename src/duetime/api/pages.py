"""The dashboard's pages and files. They need no authentication: they contain only code.

The content security policy is here: a page may load and request from this server only, has no inline scripts and
styles, cannot be framed, and makes no markup from text.
"""

from functools import cache

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from duetime.api.sending import send_body
from duetime.dashboard import PAGES, STYLE, File, Files

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"vary", b"accept-encoding"),
)
_FOR_EVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"


def page_routes() -> list[Route]:
    door = _Door(_files())
    return [
        *(Route(path, door) for path in PAGES),
        Route("/assets/{version}/{name:path}", door),
    ]


def stylesheet() -> str:
    """The address of the dashboard's styles."""
    return f"/assets/{_files().version}/{STYLE}"


@cache
def _files() -> Files:
    """Read and packed once, however many servers there are in a process."""
    return Files()


class _Door:
    def __init__(self, files: Files) -> None:
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _send(send, 405, None, (b"allow", b"GET, HEAD"))
            return
        asked = scope["path_params"]
        if "version" not in asked:
            await self._answer(scope, send, self._files.page, _ASK_AGAIN)
            return
        found = self._files.file(asked["version"], asked["name"])
        if found is None:
            await _send(send, 404, None, (b"cache-control", _ASK_AGAIN))
        else:
            await self._answer(scope, send, found, _FOR_EVER)

    async def _answer(self, scope: Scope, send: Send, file: File, keep: bytes) -> None:
        packed = any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])
        headers = [(b"cache-control", keep), (b"content-type", file.media.encode())]
        if packed:
            headers.append((b"content-encoding", b"gzip"))
        body = file.packed if packed else file.body
        await _send(send, 200, None if scope["method"] == "HEAD" else body, *headers, length=len(body))


async def _send(send: Send, status: int, body: bytes | None, *headers: tuple[bytes, bytes], length: int = 0) -> None:
    lines = [*_HEADERS, *headers, (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send_body(send, (body or b"",))
