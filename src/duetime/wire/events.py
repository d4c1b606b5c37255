"""The event stream: constants that server and clients share."""

HEARTBEAT = 15.0
"""Seconds after which the server sends something even if nothing has happened."""
