"""Encryption of stored data, and TLS of connections."""
