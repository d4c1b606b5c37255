"""Observability: metrics, traces, and the ids in logs. A leaf package that only records what it is given."""
