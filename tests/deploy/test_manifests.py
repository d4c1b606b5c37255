"""What the chart makes, against the published schemas of Kubernetes, KEDA and the Prometheus operator.

`scripts/kubernetes-schemas` writes the schemas. They refuse unknown fields, which an API server would drop.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from duetime.telemetry.exposition import GAUGES
from duetime.wire.demand import DemandQuery, DemandView
from tests.support.charts import Chart

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "helm" / "duetime"
CHART = Chart(FOLDER)
SCHEMAS = Path(__file__).parent / "schemas"
APP: dict[str, Any] = {"enabled": True, "app": "shop.jobs:app"}
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": {
        "ingress": {
            "enabled": True,
            "host": "jobs.example.com",
            "className": "nginx",
            "tlsSecret": "tls",
            "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "64m"},
        },
        "metrics": {"podMonitor": True, "rules": True},
        "server": {"serviceAccount": "duetime", "cloudAccess": "duetime-cloud", "oidcProviders": "duetime-sso"},
        "worker": APP | {"env": [{"name": "DUETIME_SLOTS", "value": "50"}], "maxUnavailable": 1},
    },
    "keda": {"worker": APP | {"autoscaling": {"by": "keda", "keda": {"slots": 50, "rate": "2000/s"}}}},
    "hpa": {"worker": APP | {"autoscaling": {"by": "hpa", "minReplicas": 0}}},
    "plain ingress": {"ingress": {"enabled": True, "host": "jobs.example.com"}},
}


def schemas(version: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By apiVersion and kind."""
    of_kubernetes = json.loads((SCHEMAS / f"kubernetes-{version}.json").read_text())
    found = {}
    for name in of_kubernetes["roots"]:
        (kind,) = of_kubernetes["$defs"][name]["x-kubernetes-group-version-kind"]
        api = "/".join(part for part in (kind["group"], kind["version"]) if part)
        found[api, kind["kind"]] = {"$ref": f"#/$defs/{name}", "$defs": of_kubernetes["$defs"]}
    for file in SCHEMAS.glob("*.*.json"):
        if not file.name.startswith("kubernetes-"):
            custom = json.loads(file.read_text())
            found[custom["apiVersion"], custom["kind"]] = custom["schema"]
    return found


@pytest.mark.parametrize("version", sorted(file.stem.split("-")[1] for file in SCHEMAS.glob("kubernetes-*.json")))
def test_objects_are_what_kubernetes_takes(version: str) -> None:
    known, seen = schemas(version), set()
    for values in VALUES.values():
        for made in CHART.render(**values):
            place = (made["apiVersion"], made["kind"])
            seen.add(made["kind"])
            jsonschema_rs.Draft202012Validator(known[place]).validate(made)
    assert seen == {kind for _, kind in known} - {"Secret"}, "each schema is used"


def test_the_schemas_refuse_what_is_wrong() -> None:
    known = schemas("1.37")
    (budget,) = (each for each in CHART.render() if each["kind"] == "PodDisruptionBudget")
    for wrong in ({"maxUnavailabel": 1}, {"maxUnavailable": [1]}):
        with pytest.raises(jsonschema_rs.ValidationError):
            made = budget | {"spec": budget["spec"] | wrong}
            jsonschema_rs.Draft202012Validator(known["policy/v1", "PodDisruptionBudget"]).validate(made)
    (scaled,) = (each for each in CHART.render(**VALUES["keda"]) if each["kind"] == "ScaledObject")
    with pytest.raises(jsonschema_rs.ValidationError):
        made = scaled | {"spec": scaled["spec"] | {"cooldown": 3}}
        jsonschema_rs.Draft202012Validator(known["keda.sh/v1alpha1", "ScaledObject"]).validate(made)


def objects(**values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in CHART.render(**values)}


def test_keda_asks_for_the_demand() -> None:
    made = objects(**VALUES["keda"])
    spec = made["ScaledObject", "test-worker"]["spec"]
    assert (
        spec["scaleTargetRef"]["name"] == "test-worker" and "replicas" not in made["Deployment", "test-worker"]["spec"]
    )
    (trigger,) = spec["triggers"]
    metadata = trigger["metadata"]
    assert trigger["type"] == "metrics-api" and (trigger["metricType"], metadata["targetValue"]) == (
        "AverageValue",
        "1",
    )
    assert metadata["url"] == (
        "http://test-server.jobs:8420/v1/queues/default/demand?minutes=5&lag=10s&slots=50&rate=2000%2Fs"
    )
    asked = dict(pair.split("=") for pair in metadata["url"].partition("?")[2].split("&"))
    assert asked.keys() <= set(DemandQuery.__struct_fields__)
    assert metadata["valueLocation"] in DemandView.__struct_fields__
    assert metadata.keys() == {"targetValue", "activationTargetValue", "url", "valueLocation", "authMode"}
    (secret,) = made["TriggerAuthentication", trigger["authenticationRef"]["name"]]["spec"]["secretTargetRef"]
    assert (secret["parameter"], metadata["authMode"]) == ("token", "bearer")
    assert msgspec.convert({"minutes": 5, "lag": "10s", "slots": 50}, DemandQuery).slots == 50


def test_keda_can_ask_another_server() -> None:
    made = objects(
        worker=APP | {"autoscaling": {"by": "keda", "queue": "mail/eu", "keda": {"url": "https://jobs.example.com"}}}
    )
    url = made["ScaledObject", "test-worker"]["spec"]["triggers"][0]["metadata"]["url"]
    assert url == "https://jobs.example.com/v1/queues/mail%2Feu/demand?minutes=5&lag=10s"


def test_hpa_and_adapter_agree() -> None:
    spec = objects(**VALUES["hpa"])["HorizontalPodAutoscaler", "test-worker"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 20), "less than one needs a feature gate"
    metric = spec["metrics"][0]["external"]["metric"]
    (rule,) = yaml.safe_load((DEPLOY / "prometheus" / "adapter.yml").read_text())["rules"]["external"]
    assert metric["name"] == rule["name"]["as"]
    labels = set(metric["selector"]["matchLabels"])
    for name in ("duetime_tenant_queue_depth", "duetime_tenant_queue_running"):
        assert name in rule["metricsQuery"] and set(GAUGES[name].labels) == labels


@pytest.mark.parametrize(
    ("value", "setting", "file"),
    [
        ("cloudAccess", "DUETIME_CLOUD_ACCESS", "cloud.toml"),
        ("oidcProviders", "DUETIME_OIDC_PROVIDERS", "providers.toml"),
    ],
)
def test_a_settings_file_comes_from_a_secret(value: str, setting: str, file: str) -> None:
    pod = objects(server={value: "given"})["Deployment", "test-server"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    folder, _, name = next(each["value"] for each in container["env"] if each["name"] == setting).rpartition("/")
    mount = next(each for each in container["volumeMounts"] if each["mountPath"] == folder)
    volume = next(each for each in pod["volumes"] if each["name"] == mount["name"])
    assert (name, volume["secret"]["secretName"], mount["readOnly"]) == (file, "given", True)


@pytest.mark.parametrize("kind", ["server", "worker"])
def test_a_pod_has_time_to_end_what_it_runs(kind: str) -> None:
    made = objects(worker=APP | {"graceSeconds": 600}, server={"graceSeconds": 120})
    pod = made["Deployment", f"test-{kind}"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    grace = next(int(each["value"]) for each in container["env"] if each["name"] == "DUETIME_GRACE")
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in container else 0
    assert grace in (120, 600) and pod["terminationGracePeriodSeconds"] >= grace + pause + 5
    assert ("PodDisruptionBudget", f"test-{kind}") in made


@pytest.mark.parametrize("name", ["", "duetime"])
def test_only_a_server_with_an_account_has_a_token_of_the_cluster(name: str) -> None:
    made = objects(server={"serviceAccount": name}, worker=APP)
    tokens = {
        each: thing["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for (kind, each), thing in made.items()
        if kind in ("Deployment", "Job")
    }
    assert tokens == {"test-server": bool(name), "test-worker": False, "test-migrate": False}


@pytest.mark.parametrize(
    "values",
    [
        {"worker": {"autoscaling": {"by": "magic"}}},
        {"worker": {"autoscaling": {"keda": {"minutes": 90}}}},
        {"worker": {"autoscaling": {"keda": {"rate": "many"}}}},
        {"worker": {"replica": 3}},
        {"settings": {"SLOTS": 3}},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        CHART.render(**values)


@pytest.mark.skipif(
    shutil.which("helm") is None and "DUETIME_TEST_HELM" not in os.environ,
    reason="there is no helm: install it, or name it in DUETIME_TEST_HELM",
)
@pytest.mark.parametrize("name", VALUES)
def test_helm_renders_the_same(name: str, tmp_path: Path) -> None:
    """The renderer of these tests stands in for Helm where there is none."""
    helm = os.environ.get("DUETIME_TEST_HELM") or "helm"
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(VALUES[name]))
    command = [helm, "template", "test", FOLDER, "--namespace", "jobs", "--values", file]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    made = [each for each in yaml.safe_load_all(told.stdout) if each]

    def ordered(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(objects, key=lambda each: (each["kind"], each["metadata"]["name"]))

    assert ordered(made) == ordered(CHART.render(**VALUES[name]))
