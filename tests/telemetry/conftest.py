"""Databases for what is seen from outside."""

from tests.integration.conftest import app, database_url, migrated

__all__ = ["app", "database_url", "migrated"]
