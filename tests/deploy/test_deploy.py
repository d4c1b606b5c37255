"""What is in deploy/: that it says what duetime understands, as far as that can be seen without the engines."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator
from prometheus_client.parser import text_string_to_metric_families

from duetime.api.metrics import Metrics
from duetime.api.table import ENDPOINTS
from duetime.settings import describe, load
from duetime.telemetry.exposition import GAUGES
from duetime.telemetry.meters import Meters
from duetime.version import __version__
from tests.support.charts import Chart

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
CHART = Chart(DEPLOY / "helm" / "duetime")
DEMAND = '{"queue":"default","workers":0,"workers_now":0,"workers_ahead":0,"live_workers":7}'
_SELECTOR = re.compile(r"\b(duetime_[a-z0-9_]+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')


def exposed() -> dict[str, dict[str, set[str]]]:
    """Every series that a node can show: its labels, and the values that they are known to have."""
    meters = Meters()
    for name, gauge in GAUGES.items():
        meters.gauges[name] = lambda labels=gauge.labels: {tuple("x" for _ in labels): 1.0}
    for end in ("succeeded", "failed", "cancelled", "skipped"):
        meters.runs[end] += 1
    meters.attempts["none", "standard"] += 1
    meters.canary["succeeded"] += 1
    metrics = Metrics(meters)
    metrics.answered(ENDPOINTS[0], 200)
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            for label, value in sample.labels.items():
                found.setdefault(sample.name, {}).setdefault(label, set()).add(value)
            found.setdefault(sample.name, {})
    return found


def expressions() -> list[tuple[str, str]]:
    """Every query of the rules and the dashboard, with where it stands."""
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    found = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules]
    found += [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if isinstance(each["query"], dict)]
    return found + [("a variable of the dashboard", query) for query in variables]


@pytest.mark.parametrize(("where", "query"), expressions())
def test_queries_ask_for_what_there_is(where: str, query: str) -> None:
    series = exposed()
    for name, selected in _SELECTOR.findall(query):
        assert name in series, f"{where}: no process exposes {name}"
        for label, operator, value in _LABEL.findall(selected):
            if label == "instance":
                continue
            assert label in series[name], f"{where}: {name} has no label {label}"
            if operator == "=" and label in ("le", "outcome"):
                assert value in series[name][label], f"{where}: {name} never has {label}={value}"
    for clause in re.findall(r"\bby \(([^)]*)\)", query):
        known = {label for name, _ in _SELECTOR.findall(query) for label in series[name]} | {"instance", "le"}
        assert set(clause.replace(" ", "").split(",")) <= known, f"{where}: by ({clause})"


def test_alerts_say_what_is_wrong_and_how_bad() -> None:
    alerts = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"] if "alert" in rule}
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], name
    wanted = {"MissedRun", "NoWorkerHeartbeat", "NoCapableWorker", "SlotsUsedUp", "DeadLettersGrowing", "CanarySilent"}
    assert {f"Duetime{name}" for name in wanted} <= alerts.keys()
    recorded = {rule["record"] for group in ALERTS["groups"] for rule in group["rules"] if "record" in rule}
    used = {name for rule in alerts.values() for name in re.findall(r"duetime:\w+:\w+", rule["expr"])}
    assert used == recorded, "every window is computed, and looked at"
    for name in ("DuetimeRunsStartLateFast", "DuetimeRunsStartLate", "DuetimeRunsStartLateSlowly"):
        assert len(re.findall(r"duetime:\w+:\w+", alerts[name]["expr"])) == 2, "a long and a short window"


def test_every_alert_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            assert rule.get("alert", "") in page


def test_every_metric_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    for name in exposed():
        plain = re.sub(r"_(bucket|count|sum|created)$", "", name)
        assert plain in page or re.sub(r"_(submit|fire|claim|complete)_", "_…_", plain) in page, plain


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool: install your system's prometheus")
def test_promtool_agrees() -> None:
    for command in (["check", "rules", "alerts.yml"], ["check", "config", "--syntax-only", "prometheus.yml"]):
        subprocess.run(["promtool", *command], cwd=DEPLOY / "prometheus", check=True, timeout=60)
    subprocess.run(["promtool", "test", "rules", "alerts_test.yml"], cwd=Path(__file__).parent, check=True, timeout=60)


def test_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


# The image.


def test_the_image_is_small_and_nobodys_root() -> None:
    steps = _dockerfile()
    stages = [words for name, words in steps if name == "FROM"]
    assert len(stages) == 2 and all("slim" in stage for stage in stages), "what builds it is left behind"
    last = steps[max(index for index, (name, _) in enumerate(steps) if name == "FROM") :]
    names = [name for name, _ in last]
    assert dict(last)["USER"] not in ("root", "0") and names.index("USER") < names.index("ENTRYPOINT")
    assert "pip install" not in " ".join(words for name, words in last if name == "RUN")
    assert json.loads(dict(last)["ENTRYPOINT"]) == ["duetime"]
    installs = [words for name, words in steps if name == "RUN" and "pip install" in words]
    assert all("--no-cache-dir" in words for words in installs) and "--require-hashes" in installs[0]
    environment = dict(re.findall(r"(DUETIME_\w+)=(\S+)", dict(last)["ENV"]))
    settings = load(None, environment, {})
    assert f"127.0.0.1:{settings.metrics_port}/livez" in dict(last)["HEALTHCHECK"], "metrics alone answer for ever"
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, words in steps:
        if name == "COPY" and not words.startswith("--from"):
            for source in words.split()[:-1]:
                assert (ROOT / source).exists() and f"!{source}" in ignored, source


def _dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    steps = []
    for line in lines:
        name, _, words = line.partition(" ")
        assert re.fullmatch("ARG|FROM|RUN|COPY|ENV|WORKDIR|USER|VOLUME|EXPOSE|HEALTHCHECK|ENTRYPOINT|CMD", name), line
        steps.append((name, words.strip()))
    return steps


# Compose.


def test_the_compose_file_runs_what_there_is() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) >= {"postgres", "server-1", "server-2", "worker-1", "worker-2", "prometheus", "grafana"}
    for name, service in services.items():
        assert "image" in service, name
        for needed in service.get("depends_on", ()):
            assert needed in services, f"{name} waits for {needed}"
        for port in service.get("ports", ()):
            assert str(port).startswith("127.0.0.1:"), f"{name}: by default no other machine may reach it"
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            found = (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
            assert found, f"{name}: {source}"
        if service["image"] == "duetime":
            _check_settings(dict.fromkeys(service["environment"], "postgresql://a@b/c"))
            assert service["command"][0] in ("server", "worker", "migrate")
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    targets = {target for group in scraped["static_configs"] for target in group["targets"]}
    assert targets == {f"{name}:9464" for name in services if re.match("server|worker", name)}
    build = services["server-1"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def _check_settings(environment: dict[str, Any]) -> None:
    known = {setting.variable for setting in describe()}
    assert {name for name in environment if name.startswith("DUETIME_")} <= known


# systemd.


def _unit(unit: Path) -> configparser.ConfigParser:
    if shutil.which("systemd-analyze"):
        told = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
        assert "Unknown" not in told.stderr, told.stderr
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


@pytest.mark.parametrize("name", ["duetime-server.service", "duetime-worker@.service"])
def test_units(name: str) -> None:
    parser = _unit(DEPLOY / "systemd" / name)
    assert set(parser.sections()) == {"Unit", "Service", "Install"}
    service = parser["Service"]
    assert re.match(r"/opt/duetime/bin/duetime (server|worker)\b", service["ExecStart"])
    assert service["DynamicUser"] == "yes" and service["NoNewPrivileges"] == "yes"
    assert service["Restart"] == "on-failure" and int(service["TimeoutStopSec"].rstrip("s")) >= 20


def test_a_timer_scales_workers(tmp_path: Path) -> None:
    """The script starts what is wanted and stops the rest, and does nothing without an answer."""
    folder = DEPLOY / "systemd"
    timer, service = _unit(folder / "duetime-scale@.timer"), _unit(folder / "duetime-scale@.service")
    assert timer["Timer"]["OnUnitInactiveSec"] and service["Service"]["ExecStart"].startswith(
        "/opt/duetime/bin/duetime-scale"
    )
    assert (folder / "duetime-worker@.service").exists()
    script = (folder / "duetime-scale").read_text().replace("/opt/duetime/bin/duetime", str(tmp_path / "duetime"))
    answer = DEMAND.replace('"workers":0', '"workers":2')
    _program(tmp_path / "duetime", f"[ -z \"$BROKEN\" ] || exit 3; echo '{answer}'")
    active = "case $3 in *-1.service|*-4.service) exit 0;; *) exit 3;; esac"
    _program(tmp_path / "systemctl", f'[ "$1" != is-active ] || {{ {active}; }}; echo "$@" >> {tmp_path}/told')
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MOST": "4", "BROKEN": ""}
    subprocess.run(["sh", "-c", script, "scale", "shop"], env=environ, check=True, timeout=30)
    assert (tmp_path / "told").read_text().splitlines() == [
        "start --no-block duetime-worker@shop-2.service",
        "stop --no-block duetime-worker@shop-4.service",
    ]
    failed = subprocess.run(["sh", "-c", script, "scale", "shop"], env=environ | {"BROKEN": "1"}, timeout=30)
    assert failed.returncode and len((tmp_path / "told").read_text().splitlines()) == 2


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


# ECS.


@pytest.mark.parametrize("name", ["server", "worker", "migrate"])
def test_task_definitions_are_what_ecs_takes(name: str) -> None:
    task = json.loads((DEPLOY / "ecs" / f"{name}.json").read_text())
    shape = (
        botocore.session.get_session().get_service_model("ecs").operation_model("RegisterTaskDefinition").input_shape
    )
    report = ParamValidator().validate(task, shape)
    assert not report.has_errors(), report.generate_report()
    (container,) = task["containerDefinitions"]
    given = {each["name"]: each["value"] for each in container["environment"]}
    _check_settings(given | dict.fromkeys((each["name"] for each in container["secrets"]), ""))
    assert container["command"][0] == name
    if "DUETIME_GRACE" in given:
        grace = load(None, {"DUETIME_GRACE": given["DUETIME_GRACE"]}, {}).grace.total_seconds()
        assert grace + 5 <= container["stopTimeout"] <= 120


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq: install your system's")
def test_an_ecs_service_follows_the_demand(tmp_path: Path) -> None:
    """Up at once, down when no answer within the time asked for more; nothing without an answer."""
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CLUSTER": "c", "SERVICE": "s", "STATE": str(tmp_path / "state")}
    environ |= {"MOST": "5", "KEEP": "300"}
    _program(tmp_path / "duetime", f"cat {tmp_path}/answer")
    count = tmp_path / "count"
    update = f'echo "$8" > {count}'
    _program(tmp_path / "aws", f"case $2 in describe-services) cat {count};; *) {update};; esac")
    count.write_text("0\n")

    def scaled(answer: str, **more: str) -> str:
        (tmp_path / "answer").write_text(answer)
        subprocess.run([DEPLOY / "ecs" / "scale"], env=environ | more, timeout=30, capture_output=True)
        return count.read_text().strip()

    assert scaled(DEMAND.replace('"workers":0', '"workers":3')) == "3"
    assert scaled(DEMAND.replace('"workers":0', '"workers":9')) == "5", "no more than allowed"
    assert scaled(DEMAND) == "5", "not yet"
    assert scaled("no answer") == "5"
    (tmp_path / "state").unlink()
    assert scaled(DEMAND) == "0"


# Helm.


def test_the_chart_makes_servers() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in CHART.render()}
    assert ("Deployment", "test-worker") not in objects and ("PrometheusRule", "test") not in objects
    _check_settings(objects["ConfigMap", "test-settings"]["data"])
    server = objects["Deployment", "test-server"]["spec"]
    pod = server["template"]["spec"]
    assert server["replicas"] == 2 and pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["image"] == "duetime:0.1.0" and container["args"] == ["server"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": 8420, "metrics": 9464}
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"]["path"] in {endpoint.path for endpoint in ENDPOINTS}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    labels = server["template"]["metadata"]["labels"]
    for selector in (server["selector"]["matchLabels"], objects["Service", "test-server"]["spec"]["selector"]):
        assert selector.items() <= labels.items()
    assert objects["Job", "test-migrate"]["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]


def test_the_chart_makes_workers_and_rules() -> None:
    values: dict[str, Any] = {
        "settings": {"DUETIME_RETENTION": "7d"},
        "migrate": False,
        "worker": {"enabled": True, "app": "shop.jobs:app", "image": {"repository": "shop", "tag": "7"}},
        "metrics": {"podMonitor": True, "rules": True},
    }
    objects = {(each["kind"], each["metadata"]["name"]): each for each in CHART.render(**values)}
    pod = objects["Deployment", "test-worker"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "shop:7" and container["args"] == ["worker", "shop.jobs:app"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}, (
        "see telemetry/metrics_server.py"
    )
    assert container["env"] == [{"name": "DUETIME_GRACE", "value": "30"}] and pod["terminationGracePeriodSeconds"] == 45
    assert objects["ConfigMap", "test-settings"]["data"]["DUETIME_RETENTION"] == "7d"
    assert ("Job", "test-migrate") not in objects and ("PodMonitor", "test") in objects
    assert objects["PrometheusRule", "test"]["spec"] == ALERTS, "the chart's copy of the rules is the current one"


def test_settings_of_the_chart_arrive_as_texts() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in CHART.render(settings={"DUETIME_SLOTS": 50})}
    assert objects["ConfigMap", "test-settings"]["data"]["DUETIME_SLOTS"] == "50", "a ConfigMap takes nothing but texts"
    assert load(None, objects["ConfigMap", "test-settings"]["data"], {}).slots == 50


def test_numbers_of_the_chart_arrive_as_they_are_written() -> None:
    """Helm shows a number from a million on with an exponent, which is no size."""
    given = {"DUETIME_MAX_PAYLOAD": 1048576, "DUETIME_MAX_RESULT": 65536, "DUETIME_MAX_BATCH": "64MiB"}
    given |= {"DUETIME_TARGETS_PRIVATE": True, "DUETIME_JITTER": 0.25, "DUETIME_MORE": 12345678.5}
    objects = {(each["kind"], each["metadata"]["name"]): each for each in CHART.render(settings=given)}
    data = objects["ConfigMap", "test-settings"]["data"]
    assert [data[name] for name in given] == ["1048576", "65536", "64MiB", "true", "0.25", "12345678.5"]
    assert load(None, {"DUETIME_MAX_PAYLOAD": data["DUETIME_MAX_PAYLOAD"]}, {}).max_payload == 1048576


def test_other_settings_make_other_pods() -> None:
    def checksums(**settings: object) -> list[str]:
        objects = CHART.render(settings=settings, worker={"enabled": True, "app": "shop.jobs:app"})
        pods = [each["spec"]["template"] for each in objects if each["kind"] == "Deployment"]
        return [pod["metadata"]["annotations"]["checksum/settings"] for pod in pods]

    assert len(checksums()) == 2 and checksums() == checksums()
    assert not set(checksums()) & set(checksums(DUETIME_SLOTS=50))


def test_the_migration_has_settings_of_its_own_and_leaves_nothing_behind() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in CHART.render()}
    assert "annotations" not in objects["ConfigMap", "test-settings"]["metadata"], "Helm owns it, and takes it away"
    hook, job = objects["ConfigMap", "test-migrate"], objects["Job", "test-migrate"]
    assert hook["data"] == objects["ConfigMap", "test-settings"]["data"]
    for each in (hook, job):
        assert "hook-succeeded" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    weights = [int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in (hook, job)]
    assert weights[0] < weights[1], "it is there before the job"
    for each, settings in ((job, "test-migrate"), (objects["Deployment", "test-server"], "test-settings")):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"configMapRef": {"name": settings}}, {"secretRef": {"name": "duetime"}}]


def test_a_worker_has_the_image_that_all_have_unless_it_has_its_own() -> None:
    def image(**worker: object) -> str:
        objects = CHART.render(image={"tag": "2.0"}, worker={"enabled": True, "app": "shop.jobs:app"} | worker)
        (pod,) = (
            each["spec"]["template"]["spec"]
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == ("Deployment", "test-worker")
        )
        found: str = pod["containers"][0]["image"]
        return found

    assert image() == "duetime:2.0"
    assert image(image={"repository": "shop", "tag": "7"}) == "shop:7"


def test_a_release_called_duetime_tells_its_pods_nothing_that_reads_like_a_setting() -> None:
    objects = CHART.render("duetime", worker={"enabled": True, "app": "shop.jobs:app"})
    assert "duetime-server" in {each["metadata"]["name"] for each in objects if each["kind"] == "Service"}
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "Job")]
    assert len(pods) == 3 and all(pod["enableServiceLinks"] is False for pod in pods)


def test_a_worker_without_an_app_is_refused() -> None:
    with pytest.raises(ValueError, match=r"worker\.app"):
        CHART.render(worker={"enabled": True})


def test_the_chart_is_as_old_as_the_package() -> None:
    chart = yaml.safe_load((DEPLOY / "helm" / "duetime" / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
