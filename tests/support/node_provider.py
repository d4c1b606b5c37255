"""node oidc-provider, a certified OpenID provider, as a process; and a browser without scripts that fills its forms."""

import json
import os
import shutil
import subprocess
import urllib.error
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener

from tests.support.broker_server import BrokerServer

_HERE = Path(__file__).parent / "node_oidc"
SECRET = "a+secret/with:signs"


class NodeProvider(BrokerServer):
    """Any account can log in there, with any password."""

    kind = "node-oidc"

    def __init__(self, duetime: str) -> None:
        """`duetime`: the address that browsers come back to."""
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self._duetime = duetime
        self.give()

    @classmethod
    def missing(cls) -> str | None:
        found = _modules()
        return None if found is not None else "a real OpenID provider: run scripts/identity-provider (Node 18 with npm)"

    def give(self, **groups: list[str]) -> None:
        """Change the groups of all accounts."""
        (self.folder / "groups.json").write_text(json.dumps(groups), encoding="utf-8")

    def command(self) -> Sequence[str]:
        arguments = [str(_modules()), str(self.port), self._duetime, str(self.folder / "groups.json")]
        return ["node", str(_HERE / "provider.js"), *arguments]

    def table(self, *access: Mapping[str, str], **more: Any) -> dict[str, Any]:
        """The table of this provider in the file of providers."""
        return {
            "issuer": self.url,
            "title": "Node",
            "client_id": "duetime",
            "client_secret": SECRET,
            "scopes": ["openid", "email", "groups"],
            "cli_client_id": "duetime-cli",
            "audiences": ["duetime-api"],
            "networks": ["127.0.0.0/8"],
            "access": list(access),
            **more,
        }

    def service_token(self) -> str:
        """The access token of a service, by its client credentials."""
        form = {"grant_type": "client_credentials", "client_id": "billing-service", "client_secret": "service-secret"}
        with build_opener().open(f"{self.url}/token", urlencode(form).encode()) as answer:
            return str(json.loads(answer.read())["access_token"])


def _modules() -> Path | None:
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = Path(os.environ.get("DUETIME_TEST_CACHE") or f"{cache_home}/duetime-tests")
    lock = (_HERE / "package-lock.json").read_bytes()
    summed = subprocess.run(["cksum"], input=lock, capture_output=True, check=True)
    folder = home / f"node-oidc-{summed.stdout.split()[0].decode()}"
    return folder if folder.is_dir() and shutil.which("node") else None


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form" and self.action is None:
            self.action, self._inside = given.get("action") or "", True
        elif tag == "input" and self._inside and given.get("name"):
            self.fields[str(given["name"])] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"


class FormBrowser:
    """Opens a page and submits the first form of each, until a page has none."""

    def __init__(self, **fields: str) -> None:
        """`fields`: what is typed into fields of these names."""
        self._fields = fields
        self.cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self.cookies))

    def open(self, url: str) -> tuple[int, str, str]:
        """The status, the address and the text of the last page."""
        data: bytes | None = None
        for _ in range(10):
            request = Request(url, data, {"Accept": "text/html", "Sec-Fetch-Site": "none"})
            try:
                with self._opener.open(request, timeout=30) as answer:
                    status, url, text = answer.status, answer.url, answer.read().decode()
            except urllib.error.HTTPError as error:
                status, url, text = error.code, error.url, error.read().decode()
            form = _Form()
            form.feed(text)
            if form.action is None or status >= 400:
                return status, url, text
            url = urljoin(url, form.action)
            filled = {name: self._fields.get(name, value) for name, value in form.fields.items()}
            data = urlencode(filled).encode()
        raise AssertionError(f"the forms do not end: {url}")

    def cookie(self, name: str) -> str:
        return next(str(each.value) for each in self.cookies if each.name == name)
