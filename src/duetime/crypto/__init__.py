"""Encryption of what is stored, and TLS of what is sent."""
