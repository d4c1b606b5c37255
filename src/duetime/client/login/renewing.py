"""The token of a stored login, renewed when it is about to expire."""

import asyncio
import contextlib

import aiohttp

from duetime.client.login.provider_client import ProviderClient
from duetime.client.login.stored_logins import Login, StoredLogins
from duetime.errors import AccessDenied, ServerUnavailable


class LoginToken:
    """The login of this user at a server, as a credential of requests."""

    def __init__(self, url: str, stored: StoredLogins | None = None) -> None:
        self._url = url
        self._stored = stored or StoredLogins()
        self._known: Login | None = None

    @classmethod
    def at(cls, url: str) -> "LoginToken | None":
        """None if this user has not logged in there."""
        found = cls(url)
        found._known = found._stored.login(url)
        return None if found._known is None else found

    async def text(self) -> str:
        """A token that is valid. Raises `AccessDenied` if the person has to log in again."""
        if self._known is None or not self._known.is_fresh:
            self._known = await self._renewed()
        return self._known.id_token

    async def _renewed(self) -> Login:
        with contextlib.ExitStack() as held:
            # In a thread: another process may hold the lock while it asks the provider.
            changes = await asyncio.to_thread(held.enter_context, self._stored.changing())
            login = changes.login(self._url)
            if login is None:
                raise AccessDenied("this user has logged out", remedy="duetime login")
            if login.is_fresh:
                return login  # another process has renewed it
            async with aiohttp.ClientSession() as http:
                try:
                    renewed = await (await ProviderClient.at(http, login.issuer)).renewed(login)
                except ServerUnavailable:
                    if login.is_valid:
                        return login
                    raise
            changes.put(self._url, renewed)
            return renewed
