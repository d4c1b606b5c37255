"""What a release brings along: packages, a bill of materials, and nothing that is open by default."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
import yaml
from prometheus_client import CollectorRegistry

from duetime.settings import Settings, load
from duetime.telemetry.metrics_server import metrics_shown
from duetime.telemetry.pulse import Pulse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def run(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    path = environ.pop("PATH", "/usr/bin:/bin")
    return subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, timeout=120, env={"PATH": path, **environ}
    )


# The bill of materials.


def test_the_bill_of_materials_lists_what_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "duetime.cdx.json"
    made = run(sys.executable, ROOT / "scripts" / "sbom", file)
    assert made.returncode == 0, made.stderr
    text = file.read_text()
    assert "externalReferences" not in text, "the addresses of package indexes say nothing about what was installed"
    document = json.loads(text)
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == ("CycloneDX", "duetime")
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    listed = {each["name"]: each for each in document["components"]}
    assert {"aiohttp", "asyncpg", "cryptography", "msgspec", "pycparser"} <= listed.keys() <= locked.keys()
    assert not {"hatchling", "editables", "pluggy", "pytest"} & listed.keys(), "what only builds it is left behind"
    for name, each in listed.items():
        assert each["version"] == locked[name] and each["purl"] == f"pkg:pypi/{name}@{locked[name]}"
        assert each["hashes"], name
    needs = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    root = document["metadata"]["component"]["bom-ref"]
    assert listed["aiohttp"]["bom-ref"] in needs[root]
    assert listed["cffi"]["bom-ref"] in needs[listed["cryptography"]["bom-ref"]]
    reached, waiting = set(), [root]
    while waiting:
        reached |= {(each := waiting.pop())}
        waiting += set(needs[each]) - reached
    assert reached == needs.keys(), "all that is listed is needed"


def test_make_release_builds_it_all() -> None:
    recipe = re.search(r"^release:.*?\n\n", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert recipe is not None
    assert "hatchling build -t sdist -t wheel" in recipe[0] and "scripts/sbom" in recipe[0]


def test_make_knows_every_variable_of_its_recipes() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", "--warn-undefined-variables", *targets],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "docs-site" in targets and "undefined variable" not in told.stderr, told.stderr


# The image and the compose file.


def test_the_base_image_is_pinned_by_its_digest() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"[^@]+@\$\{PYTHON_DIGEST:\?\S+\}", base), "an image without a digest is not built"
    (argument,) = [line for line in lines if line.startswith("ARG PYTHON_DIGEST")]
    assert re.fullmatch(r"ARG PYTHON_DIGEST(=sha256:[0-9a-f]{64})?", argument)


def pin(folder: Path, *given: str, tool: str | None = None) -> tuple[subprocess.CompletedProcess[str], str]:
    file = folder / "Dockerfile"
    shutil.copy(DEPLOY / "Dockerfile", file)
    file.write_text(re.sub(r"^ARG PYTHON_DIGEST.*", "ARG PYTHON_DIGEST", file.read_text(), flags=re.MULTILINE))
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("docker", "skopeo", "crane"):
        (tools / name).write_text(f"#!/bin/sh\n{tool if name == 'docker' and tool else 'exit 1'}\n")
        (tools / name).chmod(0o755)
    ended = run(ROOT / "scripts" / "pin-image", *given, PATH=f"{tools}:/usr/bin:/bin", DOCKERFILE=str(file))
    return ended, file.read_text()


def test_pinning_writes_the_digest_that_the_registry_tells(tmp_path: Path) -> None:
    ended, text = pin(tmp_path, tool=f"echo {DIGEST}")
    assert ended.returncode == 0, ended.stderr
    assert f"\nARG PYTHON_DIGEST={DIGEST}\n" in text and "python:3.13-slim is pinned" in ended.stdout
    ended, text = pin(tmp_path, DIGEST)
    assert ended.returncode == 0 and f"ARG PYTHON_DIGEST={DIGEST}" in text


@pytest.mark.parametrize("given", [(), ("sha256:",), ("latest",), (DIGEST + "0",), (DIGEST[:-1] + "g",), ("",)])
def test_pinning_without_a_digest_fails_clearly(tmp_path: Path, given: tuple[str, ...]) -> None:
    ended, text = pin(tmp_path, *given)
    assert ended.returncode == 1 and "\nARG PYTHON_DIGEST\n" in text
    assert "scripts/pin-image sha256:…" in ended.stderr if not given else "is not a digest" in ended.stderr


def test_the_compose_file_has_no_password_of_its_own(tmp_path: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", text)
    passwords = {"POSTGRES_PASSWORD", "GRAFANA_PASSWORD", "METRICS_TOKEN"}
    assert {name for name, _ in asked} == {*passwords, "DUETIME_ENCRYPTION_KEYS"}
    assert all(rest.startswith(":?") for _, rest in asked), "without a value nothing starts"
    secret = re.compile(r"(?i)(password|token|secret|key)")
    for service in yaml.safe_load(text)["services"].values():
        environment: dict[str, Any] = service.get("environment", {})
        for name, value in environment.items():
            if secret.search(name) or "://" in str(value):
                assert "${" in str(value), name
    file = tmp_path / ".env"
    ended = run(ROOT / "scripts" / "compose-secrets", ENV_FILE=str(file))
    assert ended.returncode == 0, ended.stderr
    first = file.read_text()
    values = dict(line.split("=", 1) for line in first.splitlines())
    assert values.keys() == {name for name, _ in asked} and len(set(values.values())) == 4
    assert all(re.fullmatch("[0-9a-f]{48}", values[name]) for name in passwords)
    assert len(load(None, values, {}).sealing_keys) == 1
    assert file.stat().st_mode & 0o077 == 0 and not [value for value in values.values() if value in ended.stdout]
    run(ROOT / "scripts" / "compose-secrets", ENV_FILE=str(file))
    assert file.read_text() == first, "what is there stays"
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


# Metrics.


async def scrape(host: str, token: str | None, **headers: str) -> tuple[int, int]:
    """What a scrape, and a look at /livez, are answered."""
    settings = Settings(host=host, metrics_port=0, metrics_token=token)
    with metrics_shown(CollectorRegistry(), Pulse(), settings) as port:
        async with aiohttp.ClientSession() as http:
            found = []
            for path in ("metrics", "livez"):
                async with http.get(f"http://127.0.0.1:{port}/{path}", headers=headers) as answer:
                    found.append(answer.status)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("host", "token", "headers", "status"),
    [
        ("127.0.0.1", None, {}, 200),
        ("0.0.0.0", None, {}, 403),
        ("0.0.0.0", None, {"Authorization": "Bearer "}, 403),
        ("0.0.0.0", "t", {}, 401),
        ("0.0.0.0", "t", {"Authorization": "Bearer u"}, 401),
        ("0.0.0.0", "t", {"Authorization": "Basic t"}, 401),
        ("0.0.0.0", "t", {"Authorization": "Bearer t"}, 200),
        ("127.0.0.1", "t", {}, 401),
    ],
)
async def test_metrics_are_shown_to_a_scrape_with_the_token(
    host: str, token: str | None, headers: dict[str, str], status: int
) -> None:
    assert await asyncio.wait_for(scrape(host, token, **headers), 20) == (status, 200)


@pytest.mark.parametrize(
    ("host", "in_front", "warns"), [("0.0.0.0", "off", True), ("0.0.0.0", "on", False), ("127.0.0.1", "off", False)]
)
def test_metrics_in_plain_http_on_a_network_are_warned_of(
    host: str, in_front: Literal["on", "off"], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(host=host, metrics_port=0, metrics_token="t", tls_in_front=in_front)
    with metrics_shown(CollectorRegistry(), Pulse(), settings):
        pass
    assert ("the network can read them and metrics_token" in caplog.text) is warns


def test_the_image_shows_no_metrics_without_a_token() -> None:
    lines = (DEPLOY / "Dockerfile").read_text()
    assert "DUETIME_METRICS_TOKEN=" not in lines, "a token in an image is known to every user of the image"
    assert "DUETIME_HOST=0.0.0.0" in lines and Settings().metrics_token is None, "so /metrics answers 403"
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert all(each["authorization"]["credentials_file"] == "/run/secrets/metrics_token" for each in scraped)


# The document.


def test_the_security_policy_is_a_page_that_says_who_is_trusted() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert all(f"\n## {part}" in text for part in ("Reporting", "Guarantees", "Trust model"))
    assert len(text.split()) < 1200, "a page"
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / link).exists(), link
