"""The diagram of packages in docs/architecture.md, generated from the import layers in pyproject.toml: `make docs`
writes it, and a test compares it."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- packages: written by make docs -->", "<!-- end of packages -->"
HOLDS = {
    "integrations": "Django, FastAPI, Flask, Sentry",
    "cli": "commands",
    "embedded": "the App that runs inside the user's process",
    "node": "builds the objects of a process",
    "api": "HTTP server: endpoints, authentication, limits",
    "dashboard": "files for the browser",
    "pytest_plugin": "fixture for users",
    "testing": "test harness for users",
    "celery": "Celery's names on the SDK",
    "sdk": "App, tasks, receipts",
    "client": "HTTP client, sync and async",
    "engine": "loops and rules of a node",
    "worker": "slots, executors, lease",
    "targets": "HTTP, gRPC, shell, mail",
    "archive": "cold history in files",
    "streams": "messages, and an adapter per broker",
    "store": "protocol, rules, shared, postgres, sqlite",
    "wire": "JSON types of the API",
    "spec": "job options, declared once",
    "codec": "arguments and results by annotation",
    "model": "pure values and rules, no I/O",
    "telemetry": "metrics, traces",
    "crypto": "encryption, TLS",
    "text": "safe display of text",
    "process": "event loops, threads, signals",
    "settings": "what an operator sets",
    "ids": "ids",
    "clock": "time",
    "duration": "durations",
    "errors": "the exception tree",
    "version": "the version",
}


def layers() -> list[list[str]]:
    """The packages of each layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract.get("containers") == ["duetime"]]
    return [[name.strip() for name in layer.split("|")] for layer in found]


def diagram() -> str:
    lines = [
        "```mermaid",
        "%% The packages, one box per layer. Each layer imports only from those below it.",
        "flowchart TB",
    ]
    names = [f"layer{number}" for number in range(len(layers()))]
    for name, packages in zip(names, layers(), strict=True):
        label = "<br/>".join(f"<b>{package}</b> · {HOLDS[package]}" for package in packages)
        lines.append(f'    {name}["{label}"]')
    lines.append(f"    {' --> '.join(names)}")
    return "\n".join([*lines, "```"])


def with_diagram(text: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/architecture.md has no place for the diagram: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{diagram()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_diagram(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
