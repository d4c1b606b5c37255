"""Logins of people through an identity provider, on their own machine (docs/sso.md)."""
