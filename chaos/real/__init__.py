"""Faults on real processes: servers, workers and PostgreSQL, started, broken and started again."""
