"""The documentation of the API."""

import asyncio
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Endpoint, Reply, Routes
from duetime.api.openapi import make_document

routes = Routes("Reference")
described: list[Endpoint] = []
"""Every endpoint. Filled by `duetime.api.table`, which imports this module."""
HTML = "text/html; charset=utf-8"
API_VERSION = "1.0"
_STYLE = (
    "body{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}"
    "td{padding:.2em .8em .2em 0;vertical-align:top}"
)


@routes.get("/openapi.json", None, answer=dict[str, Any])
async def openapi(call: Call) -> Reply:
    """This API as an OpenAPI 3.1 document."""
    return Reply(content=await asyncio.to_thread(document))  # the first call takes long


@routes.get("/docs", None, answers_with=HTML)
async def docs(call: Call) -> Reply:
    """This API as an HTML page."""
    return Reply(content=_page().encode(), media=HTML, headers={"content-security-policy": _policy()})


@cache
def document() -> bytes:
    return msgspec.json.format(msgspec.json.encode(make_document(described, API_VERSION)), indent=2) + b"\n"


@cache
def _page() -> str:
    rows = "".join(
        f"<tr><td><code>{each.method}</code></td><td><code>{escape(each.path)}</code></td>"
        f"<td>{escape(each.summary)}</td></tr>"
        for each in described
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>duetime API</title>"
        f"<style>{_STYLE}</style>"
        "<h1>duetime API</h1><p>Every detail is in <a href=/openapi.json>openapi.json</a>.</p>"
        f"<table>{rows}</table></html>"
    )


@cache
def _policy() -> str:
    """The content security policy of the page: only its own style."""
    style = b64encode(sha256(_STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'"
