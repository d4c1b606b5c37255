"""How long the archive keeps rows: what the job says, else its tenant, else the setting.

Rows that are deleted on different days are in different files, so that a file is deleted as a whole. A job's time is
rounded up, to days up to a month and to months of 30 days above, which bounds the number of files.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duetime.archive.arrow import arrow
from duetime.model.job import decode_options

_OPTION = b'"archive_retention"'
_DAY = timedelta(days=1)
_MONTH = 30


class ColdRetention:
    def __init__(self, default: timedelta, of_tenants: Mapping[int, int] | None = None) -> None:
        """`of_tenants`: days by tenant, where they differ from the default."""
        self._default = -(-default // _DAY)
        self._of_tenants = of_tenants or {}

    def split(self, table: Any, day: int, tenant_id: int) -> list[tuple[int, Any]]:
        """The rows of one day of a tenant, grouped by the day on which they are deleted. Rows that are not archived are
        left out."""
        pa, pc = arrow.core, arrow.compute
        default = self._of_tenants.get(tenant_id, self._default)
        options = table.column("options")
        differs = pc.fill_null(pc.match_substring(options, _OPTION), False)
        if not pc.any(differs).as_py():
            return [(day + 1 + default, table)] if default else []
        # The options are on the row that ends a run: they hold for all its rows.
        special = table.filter(differs)
        of_runs: dict[bytes, int] = {}
        for run, given in zip(special.column("run_id").to_pylist(), special.column("options").to_pylist(), strict=True):
            kept = decode_options(given).archive_retention
            if kept is not None:
                of_runs[run.bytes] = _days(kept)
        runs = table.column("run_id").combine_chunks()
        places = pc.index_in(getattr(runs, "storage", runs), value_set=pa.array(list(of_runs), pa.binary(16)))
        days = pc.fill_null(pc.take(pa.array(list(of_runs.values()), pa.int64()), places), default)
        return [(day + 1 + kept, table.filter(pc.equal(days, kept))) for kept in sorted(set(days.to_pylist())) if kept]


def _days(seconds: float) -> int:
    """For how many days a job's own retention keeps rows. A longer one than a month is rounded up to whole months, so
    that there are few groups."""
    days = -(-timedelta(seconds=seconds) // _DAY)
    return days if days <= _MONTH else -(-days // _MONTH) * _MONTH
