"""What is measured under load: when tasks began and ended, and what a running cluster takes up (memory and open files
of each process, connections, sizes of tables and indexes).

History is left out: it grows until its retention is over, by design.
"""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psycopg

from chaos.figures import quantile
from chaos.history import read
from chaos.real.cluster import Cluster

Series = dict[str, list[float]]

FLAT = 1.1
_SLACK = {"MB": 2.0, "files": 3.0, "connections": 2.0, "kB": 512.0}
"""By unit: what a series may gain without counting as growth. A table of a few pages doubles by a handful of them."""
_SIZES = """
select c.relname, pg_table_size(c.oid) / 1024, pg_indexes_size(c.oid) / 1024
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'duetime' and c.relkind = 'r' and c.relname not like 'history%'
"""
_CONNECTIONS = "select count(*) from pg_stat_activity where datname = 'chaos' and pid <> pg_backend_pid()"


class Attempt(NamedTuple):
    """What was seen of a task."""

    tag: str
    t: float
    lag: float
    done_at: float | None = None


def take(cluster: Cluster, series: Series) -> None:
    """Add one sample to each series; its name ends with its unit."""
    for member in cluster.members:
        if member.pid is not None:
            with contextlib.suppress(OSError):
                _add(series, f"{member.name} memory, MB", _resident(member.pid))
                _add(series, f"{member.name} open, files", len(list(Path(f"/proc/{member.pid}/fd").iterdir())))
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        (count,) = connection.execute(_CONNECTIONS).fetchone() or (0,)
        _add(series, "database, connections", count)
        for name, table, indexes in connection.execute(_SIZES).fetchall():
            _add(series, f"table {name}, kB", float(table))
            _add(series, f"indexes of {name}, kB", float(indexes))


def grown(series: Series) -> list[str]:
    """Those that are not flat: the last quarter is more than 1.1 × of the second."""
    return [
        f"{name}: {before:.1f} → {after:.1f}" for name, before, after in quarters(series) if _grew(name, before, after)
    ]


def quarters(series: Series) -> Iterable[tuple[str, float, float]]:
    """The most in the second quarter and in the last: a table that is vacuumed now and then goes up and down."""
    for name, values in sorted(series.items()):
        quarter = len(values) // 4
        if quarter:
            yield name, max(values[quarter : 2 * quarter]), max(values[-quarter:])


def attempts(logs: Path) -> list[Attempt]:
    offset = time.time() - time.monotonic()
    seen = read(logs)["seen"]
    done = {record["nonce"]: record["t"] for record in seen if record["what"] == "end" and record["how"] == "done"}
    return [
        Attempt(record["tag"], record["t"], record["t"] + offset - record["due"], done.get(record["nonce"]))
        for record in seen
        if record["what"] == "start"
    ]


def quantiles(values: Iterable[float]) -> dict[str, float]:
    found = list(values)
    return {f"p{share}": quantile(found, share / 100) for share in (50, 95, 99)}


def _grew(name: str, before: float, after: float) -> bool:
    return after > FLAT * before and after > before + _SLACK[name.rpartition(", ")[2]]


def _add(series: Series, name: str, value: float) -> None:
    series.setdefault(name, []).append(value)


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6
