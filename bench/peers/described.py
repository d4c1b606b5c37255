"""What a peer is measured with: the versions that are pinned for it, and its settings as its driver tells them.

Results keep it: a page that is written later tells what was measured, whatever stands here by then.
"""

import json
from pathlib import Path

from bench.peers.environments import REQUIREMENTS

DRIVERS = Path(__file__).parent / "drivers"
_TOLD = frozenset({"redis", "psycopg", "asyncpg", "sqlalchemy", "uvloop"})
"""What its speed depends on, beside itself."""


def described(name: str) -> dict[str, str]:
    driver = name.partition("-")[0]  # one that has several places to keep jobs is told apart by the second word
    return {"versions": _versions(driver), "settings": _settings(driver)}


def _versions(driver: str) -> str:
    file = REQUIREMENTS / f"{driver}.txt"
    if not file.exists():
        needs = json.loads((REQUIREMENTS / driver / "package.json").read_text())["dependencies"]
        return ", ".join(f"{package} {version}" for package, version in needs.items())
    pins = [line.split("==") for line in file.read_text().split() if "==" in line]
    return ", ".join(f"{package} {version}" for package, version in pins if package.lower() in _TOLD | {driver})


def _settings(driver: str) -> str:
    file = DRIVERS / f"{driver}.py"
    if not file.exists():
        return (DRIVERS / f"{driver}.mjs").read_text().split("\n", 1)[0].removeprefix("// ")
    return " ".join(file.read_text().split('"""')[1].split())
