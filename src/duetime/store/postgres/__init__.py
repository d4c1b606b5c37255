"""The store on PostgreSQL: any number of servers and workers on one database."""

from duetime.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
