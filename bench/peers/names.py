"""The names of all peers, measured or not. This module imports nothing, so every module may import it."""

PYTHON_PEERS = frozenset(
    {"celery", "dramatiq", "rq", "huey", "arq", "procrastinate", "pgqueuer", "apscheduler", "apscheduler-memory"}
)
REDIS_PEERS = frozenset({"celery", "dramatiq", "rq", "huey", "arq"})
NODE_PEERS = frozenset({"graphile"})
BLOCKING_PEERS = ("celery", "dramatiq", "rq", "huey")
"""They run plain functions in threads or processes, and nothing else."""
FORGETFUL_PEERS = frozenset({"apscheduler-memory"})
"""Their jobs end with their process. They count as peers like all others; a second ratio leaves them out."""
