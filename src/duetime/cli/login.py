"""`login`, `logout` and `whoami`: this user's login at a server, through an identity provider."""

import asyncio
import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from duetime.cli.output import err, is_terminal, say
from duetime.cli.server_commands import ServerCommand, server_command
from duetime.cli.settings_commands import CLIENT, settings_command
from duetime.errors import InvalidInput, ServerUnavailable
from duetime.settings import Settings
from duetime.text.visible import visible

if TYPE_CHECKING:
    from duetime.client.login.provider_client import DeviceCode
    from duetime.client.login.stored_logins import Login
    from duetime.wire.sso import ProviderView

_SERVER = {name: kind for name, kind in CLIENT.items() if name != "key"}


@settings_command(_SERVER)
def login(
    settings: Settings,
    provider: Annotated[str | None, typer.Option("--provider", help="The provider, if there are several.")] = None,
    device: Annotated[bool, typer.Option("--device", help="Show a code to enter on any device.")] = False,
    browser: Annotated[bool, typer.Option("--browser", help="Use a browser on this machine.")] = False,
    json: bool = False,
) -> None:
    """Log in at a server with your own account: later commands, and the Python client, use it when no key is set."""
    from duetime.client.server_address import find_server

    if device and browser:
        raise InvalidInput("cannot be combined with --browser", field="--device")
    url, _ = find_server(settings)
    made = asyncio.run(_log_in(settings, url, provider, device=device, browser=browser))
    text = f"logged in at {url} with {made.provider}"
    say(escape(visible(text)), json=json, url=url, provider=made.provider, issuer=made.issuer)
    if made.refresh_token is None and is_terminal(sys.stderr):
        err.print("[dim]the provider gave no refresh token: log in again when this login has expired[/]")


@settings_command(_SERVER)
def logout(settings: Settings, json: bool = False) -> None:
    """Forget this user's login at a server, and let the identity provider forget its refresh token."""
    from duetime.client.login.stored_logins import StoredLogins
    from duetime.client.server_address import find_server

    url, _ = find_server(settings)
    with StoredLogins().changing() as changes:
        known = changes.login(url)
        changes.remove(url)
    revoked = known is not None and asyncio.run(_revoke(known))
    text = "no login was stored" if known is None else "logged out"
    say(f"{text} at {escape(visible(url))}", json=json, url=url, was_logged_in=known is not None, revoked=revoked)


@server_command
def whoami(command: ServerCommand) -> None:
    """Show who this command acts as: the key or the person, the tenant and the role."""
    command.show(command.client.get_me())


async def _log_in(settings: Settings, url: str, name: str | None, *, device: bool, browser: bool) -> "Login":
    import aiohttp

    from duetime.client.login.provider_client import ProviderClient
    from duetime.client.login.stored_logins import StoredLogins
    from duetime.client.transport import Transport
    from duetime.crypto.tls import ClientTls
    from duetime.wire.sso import LoginMethods

    transport = Transport(url, None, tls=ClientTls.of(settings))
    try:
        methods = await transport.call("GET", "/v1/login-methods", None, LoginMethods)
    finally:
        await transport.close()
    provider = _chosen(methods.providers, name)
    err.print(f"logging in at {escape(visible(url))} with {escape(visible(provider.issuer))}")
    async with aiohttp.ClientSession() as http:
        there = await ProviderClient.at(http, provider.issuer)
        by_device = there.metadata.device_authorization_endpoint is not None and not browser
        if device and not by_device:
            raise InvalidInput("this identity provider has no device login", field="--device", remedy="use --browser")
        made = await (there.by_device(provider, _show_code) if by_device else there.by_browser(provider, _open))
    with StoredLogins().changing() as changes:
        changes.put(url, made)
    return made


async def _revoke(login: "Login") -> bool:
    import aiohttp

    from duetime.client.login.provider_client import ProviderClient

    try:
        async with aiohttp.ClientSession() as http:
            return await (await ProviderClient.at(http, login.issuer)).revoke(login)
    except (ServerUnavailable, InvalidInput):
        return False


def _chosen(providers: "tuple[ProviderView, ...]", name: str | None) -> "ProviderView":
    usable = [each for each in providers if each.cli_client_id is not None]
    names = ", ".join(each.name for each in usable)
    if not usable:
        raise InvalidInput(
            "this server has no identity provider for the command line",
            remedy="use a key (DUETIME_KEY); the operator can set cli_client_id (docs/sso.md)",
        )
    if name is None and len(usable) > 1:
        raise InvalidInput("is required: there are several", field="--provider", remedy=f"one of {names}")
    found = [each for each in usable if name in (None, each.name)]
    if not found:
        raise InvalidInput(f"there is no provider {name!r}", field="--provider", remedy=f"one of {names}")
    return found[0]


def _show_code(code: "DeviceCode") -> None:
    err.print(f"open [bold]{escape(visible(code.address))}[/] and enter the code [bold]{escape(visible(code.code))}[/]")
    if code.whole_address is not None:
        err.print(f"or open {escape(visible(code.whole_address))}", soft_wrap=True)


def _open(address: str) -> None:
    err.print(f"if no browser opens, open this on this machine:\n{escape(visible(address))}", soft_wrap=True)
    webbrowser.open(address)
