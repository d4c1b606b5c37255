"""The client of the HTTP API: `AsyncClient`, and `Client` for code that is not async."""

from duetime.client.client import AsyncClient
from duetime.client.sync import Client
from duetime.client.watching import Change

__all__ = ["AsyncClient", "Change", "Client"]
