"""The pinned loops: what the database can do with these statements, and nothing else around them.

Do not slow these loops down to make duetime look better.
"""

from bench.limits.drain import drain_postgres, drain_sqlite
from bench.limits.fire import fire_postgres, fire_sqlite
from bench.limits.kafka import drain_kafka
from bench.limits.quickest import quickest_postgres, quickest_sqlite
from bench.limits.steady import steady_postgres, steady_sqlite
from bench.limits.stream import drain_redis
from bench.limits.submit import submit_postgres, submit_sqlite

__all__ = [
    "drain_kafka",
    "drain_postgres",
    "drain_redis",
    "drain_sqlite",
    "fire_postgres",
    "fire_sqlite",
    "quickest_postgres",
    "quickest_sqlite",
    "steady_postgres",
    "steady_sqlite",
    "submit_postgres",
    "submit_sqlite",
]
