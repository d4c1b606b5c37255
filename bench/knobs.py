"""What a run of the benchmarks can be told, by variables: `make bench SCENARIO=drain ROUNDS=1 RUNS=5000 PEERS=0`.

| variable | meaning | default |
| --- | --- | --- |
| `ROUNDS` | how often each measurement is repeated; medians count | 3 |
| `RUNS` | how many runs a drain has; other sizes follow it | 100,000 |
| `SECONDS` | how long what is measured over time is watched | 10 |
| `STORED` | how many jobs are stored where many are | 10,000,000 |
| `CHURN` | runs that churn while a transaction is held open: an hour at 1,000 a second | 3,600,000 |
| `PEERS` | `0` leaves the peers out; or names, separated by commas | all |
| `BENCH_DATA` | where filled databases are kept between runs | bench/.data |
| `BENCH_RESULTS` | where results are written | bench/results; bench/.tries for a try |

A run that measures less than the defaults, or fewer peers, is a try: the published results stay as they are, and the
try is stored apart from them. A run with more rounds than the default is not a try.
"""

import os
from pathlib import Path

import msgspec

from bench.peers.names import NODE_PEERS, PYTHON_PEERS

HERE = Path(__file__).resolve().parent
RESULTS, TRIES = HERE / "results", HERE / ".tries"
ALL, NONE = ("all", "1", ""), ("0", "no", "none")
MEASURED_BY = ("rounds", "runs", "seconds", "stored", "churn", "peers")
"""The knobs that change what is measured."""


class Knobs(msgspec.Struct, frozen=True):
    rounds: int = 3
    runs: int = 100_000
    seconds: float = 10.0
    stored: int = 10_000_000
    churn: int = 3_600_000
    peers: str = "all"
    data: Path = HERE / ".data"
    results: Path = RESULTS

    def scaled(self, count: int, *, least: int = 100) -> int:
        """A size that is meant for 100,000 runs, when there are fewer."""
        return max(least, count * self.runs // 100_000)

    def wants_peer(self, name: str) -> bool:
        return self.peers in ALL or name in self.named_peers

    @property
    def named_peers(self) -> list[str]:
        """Those that are asked for by their names."""
        return [] if self.peers in (*ALL, *NONE) else [name.strip() for name in self.peers.split(",")]

    def changed(self) -> dict[str, int | float | str]:
        """What is measured otherwise than by default, by name."""
        usual = Knobs()
        found = {name: getattr(self, name) for name in MEASURED_BY if getattr(self, name) != getattr(usual, name)}
        if self.peers in ALL:
            found.pop("peers", None)
        return found

    def is_a_try(self) -> bool:
        return bool(self.changed().keys() - {"rounds"}) or self.rounds < Knobs().rounds


def from_environ() -> Knobs:
    given = {name: os.environ[variable] for name in MEASURED_BY if (variable := name.upper()) in os.environ}
    for name, variable in (("data", "BENCH_DATA"), ("results", "BENCH_RESULTS")):
        if variable in os.environ:
            given[name] = os.environ[variable]
    try:
        asked = msgspec.convert(given, Knobs, strict=False, dec_hook=lambda kind, value: kind(value).resolve())
    except (msgspec.ValidationError, ValueError) as error:
        raise SystemExit(f"a variable cannot be read: {error}") from None
    known = PYTHON_PEERS | NODE_PEERS
    if unknown := [name for name in asked.named_peers if name not in known]:
        raise SystemExit(f"PEERS: there is no peer {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    if asked.is_a_try() and "results" not in given:
        return msgspec.structs.replace(asked, results=TRIES)
    return asked
