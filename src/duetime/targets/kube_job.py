"""A target as a Job of Kubernetes: the checks of what it says, the manifests, and the meaning of its state.

The name of a Job is computed from its run and its attempt. A worker that died after it created the Job leaves the
attempt uncounted, so the next worker computes the same name, and finds the Job instead of creating a second one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from duetime.duration import parse_duration
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import Failed
from duetime.model.target import KubernetesTarget, SecretValue, Wait
from duetime.targets.redaction import Redactor
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place

CONTAINER = "job"
PREFIX = "duetime.io/"
RUN, ATTEMPT, INSTALLATION, TENANT = (f"{PREFIX}{name}" for name in ("run", "attempt", "installation", "tenant"))
_JOB_NAME = "batch.kubernetes.io/job-name"
_ENV_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
_OUR_ENV = "DUETIME_"
_OF_THE_SYSTEM = "system-"
"""How the names of the priority classes begin that Kubernetes has for its own parts."""
_MOST_ENV = 128 * 1024
_LONGEST = {"start_within": timedelta(days=1), "ttl": timedelta(days=30)}
_SHORTEST = {"start_within": timedelta(seconds=1), "ttl": timedelta(minutes=1)}
_NOT_RUN = (126, 127)
_TEXT = 1000
_KEPT_BYTES, _KEPT_LINES = 2048, 80
"""How much of the end of a log the cluster keeps as the last message of a container."""
_HOPELESS = frozenset({"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"})
"""Why a container waits for something that will not come without a change, or not soon. The retry policy decides."""


def check_job(target: KubernetesTarget) -> None:
    """Raises `InvalidInput` for what a cluster would refuse, as far as that is visible."""
    size = 0
    for name, value in target.env.items():
        field = f"target.env.{name[:60]}"
        if not _ENV_NAME.fullmatch(name):
            raise InvalidInput("is not the name of a variable", field=field, remedy="letters, digits, _ . -")
        if name.startswith(_OUR_ENV):
            raise InvalidInput("is set by duetime", field=field, remedy=f"choose a name without {_OUR_ENV}")
        text = value.prefix if isinstance(value, SecretValue) else value
        if "\x00" in text:
            raise InvalidInput("contains a null character", field=field, remedy="remove it")
        size += len(name) + len(text)
    if size > _MOST_ENV:
        raise InvalidInput(f"{size} characters are too many", field="target.env", remedy=f"at most {_MOST_ENV}")
    for name in target.labels:
        if name.startswith(PREFIX) or "kubernetes.io/" in name:
            raise InvalidInput(
                "is a reserved label", field=f"target.labels.{name[:60]}", remedy="choose another prefix"
            )
    if (target.priority_class or "").startswith(_OF_THE_SYSTEM):
        # Its pods would push those of other users, and of the cluster itself, off their nodes.
        raise InvalidInput("is reserved for the cluster itself", field="target.priority_class", remedy="choose another")
    for name in _LONGEST:
        _wait(getattr(target, name), name)


def place_of_jobs(target: KubernetesTarget) -> Place:
    """The host that secrets for the Jobs of a namespace are bound to. It names no machine."""
    return Place(f"{target.namespace}.{target.cluster}.kubernetes", 443)


def job_name(attempt: TargetAttempt) -> str:
    return f"duetime-{attempt.run_id.hex}-{attempt.claimed.attempt}"


def job_manifest(target: KubernetesTarget, attempt: TargetAttempt, installation: str) -> dict[str, Any]:
    labels = {
        **target.labels,
        RUN: attempt.run_id.hex,
        ATTEMPT: str(attempt.claimed.attempt),
        TENANT: str(attempt.tenant_id),
        INSTALLATION: installation,
        "app.kubernetes.io/managed-by": "duetime",
    }
    spec: dict[str, Any] = {
        "backoffLimit": 0,  # duetime retries, by the policy of the job
        "ttlSecondsAfterFinished": int(_wait(target.ttl, "ttl").total_seconds()),
        "template": {"metadata": {"labels": labels}, "spec": _pod(target, attempt)},
    }
    if attempt.claimed.timeout_ms is not None:
        # The cluster ends it even if no worker is left.
        spec["activeDeadlineSeconds"] = max(1, math.ceil(attempt.claimed.timeout_ms / 1000))
    metadata = {"name": job_name(attempt), "namespace": target.namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def secret_manifest(job: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """The secrets of a Job, which the cluster removes with it."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    labels = {name: text for name, text in meta["labels"].items() if name.startswith(PREFIX)}
    metadata = {"name": meta["name"], "namespace": meta["namespace"], "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "stringData": dict(values)}


def is_ours(job: Mapping[str, Any], attempt: TargetAttempt, installation: str) -> bool:
    labels = job["metadata"].get("labels", {})
    return (labels.get(RUN), labels.get(INSTALLATION)) == (attempt.run_id.hex, installation)


def is_over(job: Mapping[str, Any]) -> bool:
    return _condition(job, "Complete") is not None or _condition(job, "Failed") is not None


def pods_of(name: str) -> str:
    """The label selector of a Job's pods."""
    return f"{_JOB_NAME}={name}"


class Ended(NamedTuple):
    """How a Job ended. `failure` is None for success."""

    failure: Failure | None
    exit_code: int | None
    said: str
    """The termination message of the container."""
    pod: str | None
    """Whose log may tell more."""


def end_of(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], redactor: Redactor) -> Ended | None:
    """How a Job has ended, without secrets; None while it goes on."""
    failed, pod = _condition(job, "Failed"), _last(pods)
    name = None if pod is None else pod["metadata"]["name"]
    stopped = _container(pod).get("state", {}).get("terminated", {})
    code, said = stopped.get("exitCode"), _said(str(stopped.get("message") or ""), redactor)
    if failed is None:
        return None if _condition(job, "Complete") is None else Ended(None, code, said, name)
    return Ended(_failure(failed, pod, stopped, said), code, said, name)


def _said(message: str, redactor: Redactor) -> str:
    """What a container has said at its end, before anything of it is cut off here."""
    was_cut = len(message.encode()) >= _KEPT_BYTES or message.count("\n") >= _KEPT_LINES - 1
    return redactor.tail(message) if was_cut else redactor.text(message)


def waiting_for(pods: Sequence[Mapping[str, Any]]) -> str | None:
    """What the container of a Job waits for, in words; None once it has started."""
    pod = _last(pods)
    if pod is None:
        return "its pod is not created yet"
    state = _container(pod).get("state", {})
    if "running" in state or "terminated" in state:
        return None
    waits = state.get("waiting", {})
    if waits.get("reason"):
        return bounded(f"{waits['reason']}: {waits.get('message') or ''}".rstrip(": "), _TEXT)
    scheduled = _condition(pod, "PodScheduled", "False")
    if scheduled is not None:
        return bounded(f"{scheduled.get('reason')}: {scheduled.get('message') or ''}".rstrip(": "), _TEXT)
    return f"its pod is {pod.get('status', {}).get('phase', 'Pending')}"


def cannot_start(pods: Sequence[Mapping[str, Any]]) -> Failure | None:
    """Why a container will not start."""
    pod = _last(pods)
    waits = _container(pod).get("state", {}).get("waiting", {})
    if waits.get("reason") not in _HOPELESS:
        return None
    image = pod["spec"]["containers"][0].get("image") if pod is not None else None
    text = f"the image {image} cannot be pulled: {waits['reason']}: {waits.get('message') or 'no reason given'}"
    return Failure(FailureClass.ERROR, bounded(text, _TEXT))


def start_limit(target: KubernetesTarget) -> timedelta:
    return _wait(target.start_within, "start_within")


def failed(kind: FailureClass, text: str) -> Failed:
    return Failed(Failure(kind, bounded(text, _TEXT)))


def _failure(
    condition: Mapping[str, Any], pod: Mapping[str, Any] | None, stopped: Mapping[str, Any], said: str
) -> Failure:
    reason, message = condition.get("reason"), condition.get("message") or ""
    if reason == "DeadlineExceeded":
        return Failure(FailureClass.TIMEOUT, "the cluster stopped the Job: it ran for longer than its timeout")
    disrupted = _condition(pod, "DisruptionTarget") if pod is not None else None
    if disrupted is not None:
        text = f"the cluster removed the pod: {disrupted.get('reason')}: {disrupted.get('message') or ''}".rstrip(": ")
        return Failure(FailureClass.TARGET_FAILED, bounded(text, _TEXT))
    code, why = stopped.get("exitCode"), stopped.get("reason")
    if code is None:
        status = pod.get("status", {}) if pod is not None else {}
        text = f"the Job failed: {status.get('reason') or reason}: {status.get('message') or message}".rstrip(": ")
        return Failure(FailureClass.TARGET_FAILED, bounded(text, _TEXT))
    tail = f": {said.strip()[-_TEXT:]}" if said.strip() else ""
    if why == "OOMKilled":
        limit = pod["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("memory") if pod else None
        words = f"its limit of {limit}" if limit else "the node had"
        return Failure(
            FailureClass.ERROR, f"the container was killed: it used more memory than {words} (OOMKilled){tail}"
        )
    words = f" ({why})" if why and why != "Error" else ""
    return Failure(FailureClass.ERROR, f"the container exited with code {code}{words}{tail}", final=code in _NOT_RUN)


def _pod(target: KubernetesTarget, attempt: TargetAttempt) -> dict[str, Any]:
    secrets = job_name(attempt)
    env: list[dict[str, Any]] = []
    for name, value in target.env.items():
        if isinstance(value, SecretValue):
            env.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secrets, "key": name}}})
        else:
            # `$(…)` would insert other variables.
            env.append({"name": name, "value": value.replace("$(", "$$(")})
    about = {
        "RUN": attempt.message_id,
        "JOB": show("job", attempt.claimed.job_id),
        "ATTEMPT": str(attempt.claimed.attempt),
        "DUE_AT": attempt.claimed.due_at.isoformat(),
    }
    env.extend({"name": f"{_OUR_ENV}{name}", "value": value} for name, value in about.items())
    security: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if target.restricted:
        security |= {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": target.image,
        "env": env,
        "command": [word.replace("$(", "$$(") for word in target.command],
        "args": [word.replace("$(", "$$(") for word in target.args],
        "workingDir": target.working_dir,
        "imagePullPolicy": target.image_pull_policy,
        "resources": {"requests": target.requests, "limits": target.limits},
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [_given(container)],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "enableServiceLinks": False,
        "automountServiceAccountToken": target.service_account is not None,
        "serviceAccountName": target.service_account,
        "nodeSelector": target.node_selector,
        "tolerations": [_toleration(each.key, each.value, each.effect) for each in target.tolerations],
        "priorityClassName": target.priority_class,
        "imagePullSecrets": [{"name": name} for name in target.image_pull_secrets],
    }
    return _given(pod)


def _toleration(key: str | None, value: str | None, effect: str | None) -> dict[str, Any]:
    return _given({"key": key, "value": value, "effect": effect, "operator": "Exists" if value is None else "Equal"})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value != [] and value != {}}


def _condition(thing: Mapping[str, Any], kind: str, status: str = "True") -> Mapping[str, Any] | None:
    for each in thing.get("status", {}).get("conditions") or ():
        if (each.get("type"), each.get("status")) == (kind, status):
            found: Mapping[str, Any] = each
            return found
    return None


def _last(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def _container(pod: Mapping[str, Any] | None) -> Mapping[str, Any]:
    statuses: Sequence[Mapping[str, Any]] = () if pod is None else pod.get("status", {}).get("containerStatuses") or ()
    return next((each for each in statuses if each.get("name") == CONTAINER), {})


def _wait(value: Wait, name: str) -> timedelta:
    try:
        found = parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=f"target.{name}", remedy="such as 10m") from None
    if not _SHORTEST[name] <= found <= _LONGEST[name]:
        remedy = f"from {_SHORTEST[name].total_seconds():g} s to {_LONGEST[name].days} days"
        raise InvalidInput(f"{value} is out of range", field=f"target.{name}", remedy=remedy)
    return found
