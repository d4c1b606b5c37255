"""Which tenants may use the service's own cloud credentials, from a TOML file of the operator. Without one, none may.

    [[aws]]
    tenants = ["shop"]
    services = ["lambda", "states"]
    hosts = ["lambda.eu-central-1.amazonaws.com", "states.eu-central-1.amazonaws.com"]
    roles = ["arn:aws:iam::123456789012:role/duetime-shop"]   # one of them is assumed: the target's, or the first

    [[google]]
    tenants = ["shop"]
    hosts = ["report-abc.a.run.app"]
    audiences = ["https://report-abc.a.run.app"]

    [clusters.default]                 # without it, the cluster that this process runs in
    kubeconfig = "/etc/duetime/kubeconfig"
    context = "prod"

    [[kubernetes]]
    tenants = ["shop"]
    clusters = ["default"]
    namespaces = ["shop-jobs"]
    service_accounts = ["reports"]     # beside none
    images = ["registry.example.com/shop/*"]

An entry is a right to spend. What it does not name is refused, when a job is submitted and again when it is called. The
tenant `*` is every tenant.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from duetime.errors import InvalidInput, SettingsError
from duetime.model.target import AwsSignature, HttpTarget, IdentityToken, KubernetesTarget, Target
from duetime.targets.secret_hosts import check_hosts, may_receive
from duetime.targets.url import Place
from duetime.targets.values import audience_of

_Names = Annotated[tuple[str, ...], Meta(min_length=1)]
_EVERY = "*"
DEFAULT_CLUSTER = "default"
_REMEDY = "the operator allows it in the file of cloud_access"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tenants: _Names

    def is_for(self, tenant: str) -> bool:
        return tenant in self.tenants or _EVERY in self.tenants


class AwsAccess(Entry, frozen=True, kw_only=True):
    services: _Names
    hosts: _Names
    roles: tuple[str, ...] = ()
    external_id: str | None = None
    profile: str | None = None
    """The profile in AWS's own files. Default: as AWS's tools choose it."""


class GoogleAccess(Entry, frozen=True, kw_only=True):
    hosts: _Names
    audiences: _Names


class KubernetesAccess(Entry, frozen=True, kw_only=True):
    namespaces: _Names
    clusters: _Names = (DEFAULT_CLUSTER,)
    service_accounts: tuple[str, ...] = ()
    images: _Names = (_EVERY,)
    """Patterns, in which `*` stands for any text."""


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kubeconfig: str | None = None
    """None: as the pod that this process runs in."""
    context: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    aws: tuple[AwsAccess, ...] = ()
    google: tuple[GoogleAccess, ...] = ()
    kubernetes: tuple[KubernetesAccess, ...] = ()
    clusters: dict[str, Cluster] = {}


_E = TypeVar("_E", bound=Entry)


class CloudAccess:
    def __init__(self, file: _File) -> None:
        self._file = file

    @property
    def has_clusters(self) -> bool:
        return bool(self._file.kubernetes)

    def namespaces(self, cluster: str) -> frozenset[str]:
        """All namespaces of a cluster in which Jobs may run."""
        entries = (entry for entry in self._file.kubernetes if cluster in entry.clusters)
        return frozenset(namespace for entry in entries for namespace in entry.namespaces)

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for entry in self._file.kubernetes for name in entry.clusters))

    def cluster(self, name: str) -> Cluster:
        return self._file.clusters.get(name, Cluster())

    def check(self, tenant: str, target: Target, place: Place, field: str = "target") -> None:
        """Raises `InvalidInput` for a target that needs the service's own credentials, and may not use them."""
        if isinstance(target, KubernetesTarget):
            self.kubernetes(tenant, target, field)
        if not isinstance(target, HttpTarget):
            return
        match target.auth:
            case AwsSignature(access_key_id=None) as auth:
                self.aws(tenant, auth, place, field)
            case IdentityToken(key=None) as auth:
                self.google(tenant, audience_of(auth, target.url), place, field)
            case _:
                pass

    def aws(self, tenant: str, auth: AwsSignature, place: Place, field: str = "target") -> tuple[AwsAccess, str | None]:
        """The entry that allows it, and the role to assume."""
        entry = _first(
            self._file.aws,
            tenant,
            f"{field}.auth",
            "the AWS credentials of this service",
            [
                (f"for the service {auth.service}", lambda each: auth.service in each.services),
                (f"at {place.address}", lambda each: may_receive(each.hosts, place)),
                (f"as {auth.role}", lambda each: auth.role is None or auth.role in each.roles),
            ],
        )
        return entry, auth.role or next(iter(entry.roles), None)

    def google(self, tenant: str, audience: str, place: Place, field: str = "target") -> None:
        _first(
            self._file.google,
            tenant,
            f"{field}.auth",
            "the identity of this service at Google",
            [
                (f"for the audience {audience[:200]}", lambda each: audience in each.audiences),
                (f"at {place.address}", lambda each: may_receive(each.hosts, place)),
            ],
        )

    def kubernetes(self, tenant: str, target: KubernetesTarget, field: str = "target") -> None:
        account = target.service_account
        _first(
            self._file.kubernetes,
            tenant,
            f"{field}.namespace",
            "Kubernetes",
            [
                (f"in the cluster {target.cluster}", lambda each: target.cluster in each.clusters),
                (f"in the namespace {target.namespace}", lambda each: target.namespace in each.namespaces),
                (f"as {account}", lambda each: account is None or account in each.service_accounts),
                (f"with the image {target.image}", lambda each: any(fnmatchcase(target.image, p) for p in each.images)),
            ],
        )


def read_cloud_access(path: Path | None) -> CloudAccess:
    """What a file allows; without a file, nothing."""
    if path is None:
        return CloudAccess(_File())
    try:
        with path.open("rb") as file:
            return CloudAccess(_checked(tomllib.load(file)))
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError, InvalidInput) as error:
        raise SettingsError(f"{path} cannot be used: {error}", field="cloud_access") from None


def _checked(tables: Mapping[str, Any]) -> _File:
    file = msgspec.convert(tables, _File)
    for index, aws in enumerate(file.aws):
        check_hosts(aws.hosts, f"aws[{index}].hosts")
    for entry in file.kubernetes:
        for name in entry.clusters:
            if name != DEFAULT_CLUSTER and name not in file.clusters:
                raise InvalidInput(f"{name!r} has no table [clusters.{name}]", field="kubernetes.clusters")
    for index, google in enumerate(file.google):
        check_hosts(google.hosts, f"google[{index}].hosts")
    return file


def _first(
    entries: Sequence[_E], tenant: str, field: str, what: str, conditions: Sequence[tuple[str, Callable[[_E], bool]]]
) -> _E:
    """The first entry that meets all conditions. The error names the first one that no entry meets."""
    left, said = [entry for entry in entries if entry.is_for(tenant)], ""
    for words, holds in conditions:
        if left:
            left, said = [entry for entry in left if holds(entry)], f" {words}"
    if not left:
        raise InvalidInput(f"this tenant may not use {what}{said}", field=field, remedy=_REMEDY)
    return left[0]
