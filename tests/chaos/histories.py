"""Histories written by hand, for the checker."""

from typing import Any

from chaos import checker

Logs = dict[str, list[dict[str, Any]]]
BASE = 1_000_000.0 - 1_000_000.0 % 60


def start(tag: str, t: float, due: float, *, run: str | None = None, nonce: str, **more: Any) -> dict[str, Any]:
    of_run = {"job": f"job-{tag}", "run": run or f"run-{tag}", "due": BASE + due, "nonce": nonce}
    return {"what": "start", "t": t, "tag": tag, "attempt": 1, "lost": 0, "node": "n1", **of_run, **more}


def end(t: float, nonce: str, how: str = "done") -> dict[str, Any]:
    return {"what": "end", "t": t, "nonce": nonce, "how": how}


def told(tag: str, due: float, by: str, *, run: str | None = None, **more: Any) -> dict[str, Any]:
    states = {"state": "SUCCEEDED", "attempt": 1, "lost": 0, "attempts": [["SUCCEEDED", 1]]}
    of_run = {"job": f"job-{tag}", "run": run or f"run-{tag}", "due": BASE + due, "by": by, "finished": BASE + due + 1}
    return {"what": "run", "tag": tag, **of_run, **states, **more}


def promises(logs: Logs) -> set[str]:
    """Those that these logs break."""
    return {violation.promise for violation in checker.check(logs).violations}
