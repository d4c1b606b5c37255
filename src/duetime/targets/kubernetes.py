"""Kubernetes targets: an image that runs as a Job, from its creation to its end.

A Job belongs to one attempt of one run, and has the name that follows from them. An attempt creates its Job, or finds
the one that an earlier worker created before it died, and watches it. Whatever the cluster answers meanwhile, the Job's
own state decides; a cluster that cannot be reached delays that, and fails nothing.

    the Job is complete                                  succeeded
    the container exited with another code, or was killed  failed, by the retry policy
    the image cannot be pulled, no node took it in time    failed, by the retry policy; the Job is deleted
    the cluster refuses the Job                            failed without retry

A run that is cancelled or times out deletes its Job. A worker that stops, or loses its lease, leaves it: the next
worker finds it. A run that ended while no worker had it leaves its Job behind; every process looks for such Jobs from
time to time, and deletes them.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import DuetimeError, NoCredentials, NotFound, reason_of
from duetime.model.attempt import AttemptState
from duetime.model.failure import FailureClass, bounded
from duetime.model.outcome import Failed, Outcome, Succeeded
from duetime.model.target import KubernetesTarget, SecretValue
from duetime.process.ending import end_tasks
from duetime.store.protocol.store import Store
from duetime.targets.authorization import TenantNames
from duetime.targets.cloud_access import CloudAccess
from duetime.targets.kube_api import KubeApi, KubeError
from duetime.targets.kube_config import KubeLogin
from duetime.targets.kube_job import (
    ATTEMPT,
    CONTAINER,
    INSTALLATION,
    RUN,
    TENANT,
    Ended,
    cannot_start,
    check_job,
    end_of,
    failed,
    is_ours,
    is_over,
    job_manifest,
    job_name,
    place_of_jobs,
    pods_of,
    secret_manifest,
    start_limit,
    waiting_for,
)
from duetime.targets.not_sent import NOT_SENT, not_sent
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.vault import Vault

log = logging.getLogger("duetime.targets")

_RESYNC_WAITING, _RESYNC_RUNNING = 5.0, 30.0
"""Seconds until a Job is read again although nothing has changed: pods change without their Job."""
_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_ENDING = 20.0
"""Seconds for which an attempt that was stopped waits for the deletion of its Job."""
_SWEEP = 60.0
_PAGE = 500
_LOG_BYTES = 256 * 1024
_SECRET = "kubernetes jobs"


class KubernetesRunner:
    def __init__(
        self,
        access: CloudAccess,
        vault: Vault,
        store: Store,
        names: TenantNames,
        *,
        max_result: int,
        max_log_lines: int,
        sweep: float = _SWEEP,
    ) -> None:
        self._access = access
        self._vault = vault
        self._store = store
        self._names = names
        self._tail = min(8 * 1024, max_result // 16)
        self._max_log_lines = max_log_lines
        self._sweep_every = sweep
        self._apis: dict[str, KubeApi] = {}
        self._installation: str | None = None
        self._tracked: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    async def run(self, target: KubernetesTarget, attempt: TargetAttempt) -> Outcome:
        name = job_name(attempt)
        self._tracked.add(name)
        try:
            check_job(target)
            self._access.kubernetes(await self._names.name(attempt.tenant_id), target)
            return await self._run(target, attempt)
        except asyncio.CancelledError:
            if not attempt.goes_on():
                await asyncio.shield(self._end(self._api(target.cluster), target.namespace, name))
            raise
        except NOT_SENT as error:
            return not_sent(error, "not started")
        except NoCredentials as error:
            log.warning("%s: %s", attempt.message_id, reason_of(error))
            return failed(
                FailureClass.NETWORK, "not started: the service cannot log in to the cluster; its log says why"
            )
        except KubeError as error:
            if not error.status:  # its text names addresses of the operator: it goes to the log only
                log.warning("%s: %s", attempt.message_id, reason_of(error))
                return failed(FailureClass.NETWORK, "not started: the cluster cannot be reached; the log says why")
            kind = FailureClass.TARGET_FAILED if error.may_retry else FailureClass.TARGET_REFUSED
            return failed(kind, attempt.redactor.text(f"not started: {error}"))
        finally:
            self._tracked.discard(name)

    def begin(self) -> None:
        """Look for Jobs without a run, from now on."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep_for_ever(), name="duetime kubernetes sweep")

    async def close(self) -> None:
        await end_tasks([self._sweeping])
        if self._ending:
            await asyncio.wait(self._ending)
        for api in self._apis.values():
            await api.close()

    async def sweep(self) -> int:
        """Delete Jobs that go on although their run has ended; returns how many."""
        selector, swept = f"{INSTALLATION}={await self._id()}", 0
        for cluster in self._access.clusters:
            for namespace in sorted(self._access.namespaces(cluster)):
                try:
                    swept += await self._sweep_namespace(self._api(cluster), namespace, selector)
                except (KubeError, NoCredentials) as error:
                    log.warning(
                        "cannot look for Jobs without a run in %s of %s: %s", namespace, cluster, reason_of(error)
                    )
        return swept

    async def _sweep_namespace(self, api: KubeApi, namespace: str, selector: str) -> int:
        query, swept = {"labelSelector": selector, "limit": str(_PAGE)}, 0
        while True:
            found = await api.get(_jobs(namespace), **query)
            for job in found.get("items") or ():
                swept += await self._sweep_one(api, namespace, job)
            if not (after := found["metadata"].get("continue")):
                return swept
            query["continue"] = after

    async def _sweep_one(self, api: KubeApi, namespace: str, job: Mapping[str, Any]) -> bool:
        meta = job["metadata"]
        if meta["name"] in self._tracked or is_over(job) or meta.get("deletionTimestamp"):
            return False
        labels = meta["labels"]
        try:
            run = await self._store.reads.run(int(labels[TENANT]), UUID(labels[RUN]))
        except (NotFound, KeyError, ValueError):
            return False  # it may be in a stream, or newer code has created it
        # A Job of a failed attempt has lost its meaning too. One of the current attempt may have lost only its worker.
        number, ended = int(labels[ATTEMPT]), AttemptState.FAILED
        earlier = any(each.attempt >= number and each.state is ended for each in run.attempts)
        if not (run.state.is_end or earlier):
            return False
        log.warning("deleting the Job %s in %s: its run has ended", meta["name"], namespace)
        await api.delete(f"{_jobs(namespace)}/{meta['name']}", meta["uid"])
        return True

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_every)
            try:
                await self.sweep()
            except DuetimeError as error:
                log.warning("cannot look for Jobs without a run: %s", reason_of(error))
            except Exception:
                log.exception("looking for Jobs without a run failed")

    async def _run(self, target: KubernetesTarget, attempt: TargetAttempt) -> Outcome:
        api, path = self._api(target.cluster), _jobs(target.namespace)
        secrets = await self._secrets(target, attempt)
        job = await self._created(api, path, job_manifest(target, attempt, await self._id()), attempt)
        if secrets and not is_over(job):
            try:
                await api.create(f"/api/v1/namespaces/{target.namespace}/secrets", secret_manifest(job, secrets))
            except KubeError as error:
                if error.status != 409:  # an earlier worker has created it
                    await self._end(api, target.namespace, job["metadata"]["name"])
                    raise
        try:
            return await self._tracked_to_its_end(api, target, attempt, job)
        except KubeError as error:
            await self._end(api, target.namespace, job["metadata"]["name"])
            return failed(FailureClass.TARGET_REFUSED, attempt.redactor.text(f"the Job cannot be tracked: {error}"))

    async def _created(
        self, api: KubeApi, path: str, manifest: Mapping[str, Any], attempt: TargetAttempt
    ) -> dict[str, Any]:
        """The Job of this attempt: a new one, or the one that an earlier worker created."""
        name = manifest["metadata"]["name"]
        while True:
            try:
                made = await api.create(path, manifest)
                attempt.log(f"created the Job {name} in {manifest['metadata']['namespace']}")
                return made
            except KubeError as error:
                if error.status != 409:
                    raise
            try:
                found = await api.get(f"{path}/{name}")
            except KubeError as error:
                if error.status != 404:
                    raise
                continue  # it went away in between
            if not is_ours(found, attempt, await self._id()):
                raise KubeError(422, f"a Job {name} exists that is not of this installation of duetime")
            if not found["metadata"].get("deletionTimestamp"):
                attempt.log(f"found the Job {name}, which an earlier worker created")
                return found
            await asyncio.sleep(_PAUSE)  # it is being deleted

    async def _tracked_to_its_end(
        self, api: KubeApi, target: KubernetesTarget, attempt: TargetAttempt, job: dict[str, Any]
    ) -> Outcome:
        path, name, uid = _jobs(target.namespace), job["metadata"]["name"], job["metadata"]["uid"]
        started, shown, pause, begun = monotonic(), "", _PAUSE, False
        while True:
            try:
                job = await api.get(f"{path}/{name}")
                listed = await api.get(f"/api/v1/namespaces/{target.namespace}/pods", labelSelector=pods_of(name))
                pods = listed.get("items") or []
                if job["metadata"]["uid"] != uid or job["metadata"].get("deletionTimestamp"):
                    return failed(FailureClass.TARGET_FAILED, "the Job was deleted while it ran")
                if (ended := end_of(job, pods, attempt.redactor)) is not None:
                    return await self._ended(api, target, attempt, ended, name)
                waits = None if begun else waiting_for(pods)
                begun = begun or waits is None
                failure = None if begun else cannot_start(pods)
                if not begun and failure is None and monotonic() - started > start_limit(target).total_seconds():
                    text = f"the container did not start within {target.start_within}: {waits}"
                    failure = failed(FailureClass.TIMEOUT, attempt.redactor.text(text)).failure
                if failure is not None:
                    await self._end(api, target.namespace, name)
                    return Failed(failure)
                if waits is not None and waits != shown:
                    attempt.log(attempt.redactor.text(f"waiting: {waits}"))
                    shown = waits
                resync = _RESYNC_RUNNING if begun else _RESYNC_WAITING
                version = job["metadata"]["resourceVersion"]
                await api.change(path, version, resync, fieldSelector=f"metadata.name={name}")
                pause = _PAUSE
            except NoCredentials as error:
                log.warning("%s: %s", attempt.message_id, reason_of(error))
            except KubeError as error:
                if error.status == 404:
                    return failed(FailureClass.TARGET_FAILED, "the Job was deleted while it ran")
                if error.status != 410 and not error.may_retry:
                    raise
                if error.status != 410:
                    log.warning("%s: %s", attempt.message_id, reason_of(error))
                    if error.status and str(error) != shown:
                        shown = str(error)
                        attempt.log(attempt.redactor.text(f"waiting: {shown}"))
            else:
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _ended(
        self, api: KubeApi, target: KubernetesTarget, attempt: TargetAttempt, ended: Ended, name: str
    ) -> Outcome:
        tail = await self._log_of(api, target.namespace, attempt, ended.pod)
        if ended.failure is not None:
            return Failed(ended.failure)
        result = {
            "exit_code": ended.exit_code,
            "job": name,
            "pod": ended.pod,
            "message": bounded(ended.said, self._tail),
            "log": tail[-self._tail :],
        }
        return Succeeded(msgspec.json.encode(result))

    async def _log_of(self, api: KubeApi, namespace: str, attempt: TargetAttempt, pod: str | None) -> str:
        """The end of the container's log, which is also added to the run's."""
        if pod is None or not self._max_log_lines:
            return ""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        try:
            text = await api.text(path, _LOG_BYTES, container=CONTAINER, tailLines=str(self._max_log_lines))
        except (KubeError, NoCredentials) as error:
            log.warning("%s: %s", attempt.message_id, reason_of(error))
            # Without a status, the text has the operator's addresses.
            reason = f": {bounded(str(error), 300)}" if isinstance(error, KubeError) and error.status else ""
            attempt.log(attempt.redactor.text(f"the log of the container cannot be read{reason}"))
            return ""
        was_cut = len(text.encode()) >= _LOG_BYTES or text.count("\n") >= self._max_log_lines - 1
        text = attempt.redactor.tail(text) if was_cut else attempt.redactor.text(text)
        for line in text.splitlines():
            attempt.log(line)
        return text

    async def _secrets(self, target: KubernetesTarget, attempt: TargetAttempt) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in target.env.items():
            if isinstance(value, SecretValue):
                secret = await self._vault.value(attempt.tenant_id, value.secret, place_of_jobs(target))
                attempt.redactor.learn(secret)
                found[name] = value.prefix + secret
        return found

    async def _end(self, api: KubeApi, namespace: str, name: str) -> None:
        """Delete a Job, with its pods. If the cluster does not answer, that goes on for a while."""

        async def end() -> None:
            pause, until = _PAUSE, monotonic() + _ENDING
            while True:
                try:
                    return await api.delete(f"{_jobs(namespace)}/{name}")
                except (KubeError, NoCredentials) as error:
                    if monotonic() > until:
                        log.warning("the Job %s in %s is not deleted yet: %s", name, namespace, reason_of(error))
                        return None
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

        task = asyncio.create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.shield(task)

    def _api(self, cluster: str) -> KubeApi:
        if cluster not in self._apis:
            self._apis[cluster] = KubeApi(KubeLogin(self._access.cluster(cluster)))
        return self._apis[cluster]

    async def _id(self) -> str:
        """What the Jobs of this installation have in common: its database."""
        if self._installation is None:
            shared = await self._store.tenants.secret(_SECRET, os.urandom(16))
            self._installation = blake2b(shared, digest_size=8).hexdigest()
        return self._installation


def _jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"
