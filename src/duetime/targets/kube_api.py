"""Requests to the API of a Kubernetes cluster: a few paths of it, over aiohttp (decision 42)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from duetime.errors import reason_of
from duetime.targets.kube_config import KubeLogin

_TIMEOUT = 20.0
_LARGEST = 8 * 1024**2
_PASSING = frozenset({401, 403, 408, 409, 425, 429})
"""A server that is starting answers 403 until it has read who may do what. A quota that is used up is 403 too."""


class KubeError(Exception):
    """The API refused a request, or did not answer (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def may_retry(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 0 or self.status >= 500 or self.status in _PASSING


class KubeApi:
    def __init__(self, login: KubeLogin) -> None:
        self._login = login
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        return await self._json("GET", path, query)

    async def create(self, path: str, thing: Mapping[str, Any]) -> dict[str, Any]:
        return await self._json("POST", path, {}, thing)

    async def delete(self, path: str, uid: str | None = None) -> None:
        """Delete a thing, and what it owns. Nothing happens if it does not exist, or has another `uid`."""
        said: dict[str, Any] = {"propagationPolicy": "Background", "gracePeriodSeconds": 30}
        if uid is not None:
            said["preconditions"] = {"uid": uid}
        try:
            await self._json("DELETE", path, {}, said)
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def text(self, path: str, most: int, **query: str) -> str:
        """The end of a text."""
        return (await self._ask("GET", path, query, None, _TIMEOUT, most))[-most:].decode("utf-8", "replace")

    async def change(self, path: str, version: str, seconds: float, **query: str) -> None:
        """Wait until something below this path changes after this version, at most so long."""
        query |= {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(max(1, int(seconds)))}
        address = await self._login.address()
        try:
            async with asyncio.timeout(seconds + 5):
                session, headers = await self._session(), await self._login.headers()
                async with session.get(
                    f"{address.url}{path}", params=query, headers=headers, server_hostname=address.server_name
                ) as answer:
                    if answer.status == 401:
                        self._login.forget()
                    if answer.status != 200:
                        raise KubeError(answer.status, f"the cluster answered {answer.status} to a watch")
                    await answer.content.read(1)  # an event begins; what it is, the next request tells
                    answer.close()
        except TimeoutError:
            return
        except (aiohttp.ClientError, OSError) as error:
            raise KubeError(0, f"the cluster cannot be reached: {reason_of(error)}") from error

    async def _json(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        said = await self._ask(method, path, query, body, _TIMEOUT, _LARGEST)
        try:
            return msgspec.json.decode(said, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise KubeError(0, "the cluster answered something that is not JSON") from None

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        seconds: float,
        most: int,
    ) -> bytes:
        address = await self._login.address()
        for again in (True, False):
            headers = await self._login.headers()
            if body is not None:
                headers["content-type"] = "application/json"
            try:
                async with (
                    asyncio.timeout(seconds),
                    (await self._session()).request(
                        method,
                        f"{address.url}{path}",
                        params=query,
                        data=None if body is None else msgspec.json.encode(body),
                        headers=headers,
                        server_hostname=address.server_name,
                        allow_redirects=False,
                    ) as answer,
                ):
                    said = bytearray()
                    async for part in answer.content.iter_any():
                        said += part
                        if len(said) > 2 * most:
                            del said[:-most]
            except TimeoutError:
                raise KubeError(0, f"the cluster did not answer within {seconds:g} s") from None
            except (aiohttp.ClientError, OSError) as error:
                raise KubeError(0, f"the cluster cannot be reached: {reason_of(error)}") from error
            if answer.status == 401 and again:
                self._login.forget()
                continue
            if answer.status >= 300:
                raise KubeError(answer.status, _message(answer.status, bytes(said)))
            return bytes(said)
        raise AssertionError("unreachable")

    async def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            address = await self._login.address()
            connector = aiohttp.TCPConnector(limit=0, ssl=address.tls, keepalive_timeout=60)
            self._http = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        return self._http


def _message(status: int, said: bytes) -> str:
    try:
        found = msgspec.json.decode(said, type=dict[str, Any]).get("message")
    except (msgspec.DecodeError, msgspec.ValidationError):
        found = None
    return f"the cluster answered {status}: {found or said[:300].decode(errors='replace')}"
