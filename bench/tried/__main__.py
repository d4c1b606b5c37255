"""`python -m bench.tried [name …]`: ROUNDS and RUNS as for `make bench`."""

import sys
import tempfile
from pathlib import Path
from statistics import median

from bench import knobs
from bench.disks import keep_on_disk
from bench.report import console
from bench.stores import SERVER_OPTIONS, Databases
from bench.tried import codecs, copying, event_loops, heap_only, lanes, prepared, timers
from bench.tried.ways import Place
from tests.support.postgres import Server, installed

TRIED = {
    "prepared": prepared.WAYS,
    "event_loops": event_loops.WAYS,
    "heap_only": heap_only.WAYS,
    "lanes": lanes.WAYS,
    "copying": copying.WAYS,
    "timers": timers.WAYS,
    "codecs": codecs.WAYS,
}


def main() -> int:
    names = sys.argv[1:] or list(TRIED)
    if unknown := [name for name in names if name not in TRIED]:
        console.print(f"nothing of the name {unknown[0]!r} was tried; there are: {', '.join(TRIED)}")
        return 2
    asked = knobs.from_environ()
    keep_on_disk(asked.data)
    with Server(installed()[0], settings=SERVER_OPTIONS) as server, tempfile.TemporaryDirectory() as folder:
        place = Place(Databases(server, Path(folder)), asked.runs)
        for name in names:
            rates: dict[str, list[float]] = {way: [] for way in TRIED[name]}
            for _ in range(asked.rounds):
                for way, measure in TRIED[name].items():
                    rates[way].append(measure(place))
            first = median(next(iter(rates.values())))
            for way, each in rates.items():
                console.print(
                    f"  {name} · {way}: {median(each):,.0f} a second, {median(each) / first:.2f}", markup=False
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
