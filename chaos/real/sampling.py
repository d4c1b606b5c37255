"""What a running cluster takes up: memory and open files of each process, connections, sizes of tables and indexes.

History is left out: it grows until its retention is over, by design.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import psycopg

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
    """The mean of the second quarter and of the last."""
    for name, values in sorted(series.items()):
        quarter = len(values) // 4
        if quarter:
            yield name, fmean(values[quarter : 2 * quarter]), fmean(values[-quarter:])


def _grew(name: str, before: float, after: float) -> bool:
    return after > FLAT * before and after > before + _SLACK[name.rpartition(", ")[2]]


def _add(series: Series, name: str, value: float) -> None:
    series.setdefault(name, []).append(value)


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6
