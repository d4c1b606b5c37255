"""The client of the HTTP API: `AsyncClient`, and the blocking `Client`."""

from duetime.client.blocking_client import Client
from duetime.client.client import AsyncClient
from duetime.client.event_stream import Change

__all__ = ["AsyncClient", "Change", "Client"]
