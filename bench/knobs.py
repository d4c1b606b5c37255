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
| `BENCH_RESULTS` | where results are written | bench/results |
"""

import os
from pathlib import Path

import msgspec

HERE = Path(__file__).parent


class Knobs(msgspec.Struct, frozen=True):
    rounds: int = 3
    runs: int = 100_000
    seconds: float = 10.0
    stored: int = 10_000_000
    churn: int = 3_600_000
    peers: str = "all"
    data: Path = HERE / ".data"
    results: Path = HERE / "results"

    def scaled(self, count: int, *, least: int = 100) -> int:
        """A size that is meant for 100,000 runs, when there are fewer."""
        return max(least, count * self.runs // 100_000)

    def wants_peer(self, name: str) -> bool:
        if self.peers in ("0", "no", "none"):
            return False
        return self.peers in ("all", "1", "") or name in self.peers.split(",")


def from_environ() -> Knobs:
    given = {
        name: os.environ[variable]
        for name in ("rounds", "runs", "seconds", "stored", "churn", "peers")
        if (variable := name.upper()) in os.environ
    }
    for name, variable in (("data", "BENCH_DATA"), ("results", "BENCH_RESULTS")):
        if variable in os.environ:
            given[name] = os.environ[variable]
    try:
        return msgspec.convert(given, Knobs, strict=False, dec_hook=lambda kind, value: kind(value))
    except (msgspec.ValidationError, ValueError) as error:
        raise SystemExit(f"a variable cannot be read: {error}") from None
