"""The stream of events: what a server and those who watch agree on."""

HEARTBEAT = 15.0
"""Seconds after which the server says something although nothing has happened."""
