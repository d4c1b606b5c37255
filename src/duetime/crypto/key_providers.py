"""Key providers: the wrapping keys are in a file or behind HTTP (guarantees: `crypto/envelope.py`)."""

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duetime.crypto.envelope import KeyProvider
from duetime.errors import KeyUnknown, SettingsError, StoreUnavailable, reason_of
from duetime.settings import Settings
from duetime.settings.kinds import decoded_key

_NONCE = 12
_BOUND = b"duetime data key"
_TIMEOUT = 10.0
_LARGEST = 64 * 1024
_TRY_AGAIN = frozenset({408, 425, 429})


class FileKeys:
    """Wrapping keys in a file, `name:base64` on each line, the current one first. It is read on each use, so a new key
    needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    @property
    def key_id(self) -> str:
        return next(iter(self._read()))

    async def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        name, key = next(iter(self._read().items()))
        nonce = os.urandom(_NONCE)
        return name, nonce + AESGCM(key).encrypt(nonce, data_key, _BOUND)

    async def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        key = self._read().get(key_id)
        if key is None:
            raise KeyUnknown(
                f"a data key was wrapped with the key {key_id!r}, which is not in {self._path}",
                remedy="add that key to the file",
            )
        try:
            return AESGCM(key).decrypt(wrapped[:_NONCE], wrapped[_NONCE:], _BOUND)
        except (InvalidTag, ValueError):
            raise KeyUnknown(
                f"a data key was not wrapped with the key {key_id!r} of {self._path}",
                remedy="restore the key of that name",
            ) from None

    def _read(self) -> dict[str, bytes]:
        try:
            lines = [line.strip() for line in self._path.read_text(encoding="ascii").splitlines()]
            keys = dict(decoded_key(line) for line in lines if line and not line.startswith("#"))
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self._path} cannot be used: {reason_of(error)}", field="key_provider") from None
        if not keys:
            raise SettingsError(
                f"{self._path} contains no key", field="key_provider", remedy="one name:base64 per line"
            )
        return keys


class HttpKeys:
    """Wrapping keys behind HTTP: `POST {url}/wrap` and `POST {url}/unwrap` with a bearer token (docs/encryption.md)."""

    def __init__(self, url: str, key_id: str, token: str | None) -> None:
        self._url = url.rstrip("/")
        self.key_id = key_id
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}

    async def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        said = await self._ask("wrap", {"key_id": self.key_id, "plaintext": b64encode(data_key).decode()})
        return str(said.get("key_id") or self.key_id), _decoded(said, "ciphertext")

    async def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        said = await self._ask("unwrap", {"key_id": key_id, "ciphertext": b64encode(wrapped).decode()})
        return _decoded(said, "plaintext")

    async def _ask(self, what: str, body: dict[str, str]) -> dict[str, Any]:
        import aiohttp
        import msgspec

        try:
            # A session for each request: there are few, and they come from any event loop.
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.post(f"{self._url}/{what}", json=body, headers=self._headers, allow_redirects=False) as answer,
            ):
                status, said = answer.status, await answer.content.read(_LARGEST)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"cannot reach the key provider: {reason_of(error)}") from None
        if status >= 500 or status in _TRY_AGAIN:
            raise StoreUnavailable(f"the key provider answered {status} to {what}")
        if status != 200:
            raise KeyUnknown(
                f"the key provider answered {status} to {what} with the key {body['key_id']!r}",
                remedy="check key_provider, key_provider_key, key_provider_token and the token's permissions",
            )
        try:
            return msgspec.json.decode(said, type=dict[str, Any])
        except msgspec.MsgspecError:
            raise KeyUnknown(f"the key provider answered {what} with something that is not a JSON object") from None


def _decoded(said: dict[str, Any], field: str) -> bytes:
    try:
        return b64decode(said[field], validate=True)
    except (KeyError, TypeError, ValueError):
        raise KeyUnknown(f"the key provider's answer has no {field} in base64") from None


def provider_of(settings: Settings) -> KeyProvider | None:
    """The key provider that the settings name."""
    named = settings.key_provider
    if named is None:
        return None
    scheme, _, path = named.partition(":")
    if scheme == "file":
        return FileKeys(Path(path).expanduser())
    return HttpKeys(named, settings.key_provider_key, settings.key_provider_token)
