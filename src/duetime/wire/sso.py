"""Requests and answers of single sign-on."""

from typing import Annotated

from msgspec import Meta, Struct

from duetime.spec.fields import Request


class BeginQuery(Request, frozen=True):
    to: Annotated[str, Meta(max_length=4000, description="The page of the dashboard to show afterwards.")] = "/"


class CallbackQuery(Struct, frozen=True, kw_only=True):
    """The answer of a provider. Providers add parameters of their own, which are ignored."""

    state: Annotated[str, Meta(max_length=500)] | None = None
    code: Annotated[str, Meta(max_length=8000)] | None = None
    iss: Annotated[str, Meta(max_length=500)] | None = None
    error: Annotated[str, Meta(max_length=500)] | None = None
    error_description: Annotated[str, Meta(max_length=8000)] | None = None


class ProviderView(Struct, frozen=True, kw_only=True):
    """An identity provider, as far as a login needs to know it."""

    name: str
    title: str
    issuer: str
    login_path: str
    """Where a browser begins to log in."""
    cli_client_id: str | None
    """The client of the command line; null: it cannot log in with this provider."""
    cli_redirect_uri: str
    cli_scopes: tuple[str, ...]


class LoginMethods(Struct, frozen=True):
    """The ways to log in, besides keys."""

    providers: tuple[ProviderView, ...]


class UserView(Struct, frozen=True, kw_only=True):
    """A person or a service that an identity provider vouches for."""

    provider: str
    issuer: str
    subject: str
    email: str | None


class LoggedOut(Struct, frozen=True):
    next: str | None
    """Where the browser ends the session at the identity provider; null: nowhere."""
