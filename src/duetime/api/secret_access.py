"""Whether a job may use the credentials that its target names: secrets of the tenant, or the service's own.

A secret must exist, the caller's role must be allowed to name it, and the called host must be allowed to receive it.
The operator says which tenants may use the service's own credentials, and where. Hosts and tenants are checked again at
the call.
"""

from duetime.api.caller import Caller
from duetime.api.lookup_cache import Memory
from duetime.errors import InvalidInput
from duetime.model.secret import SecretBinding
from duetime.model.target import AtBroker, HttpTarget, KubernetesTarget, Target
from duetime.store.protocol.store import Store
from duetime.targets.secret_hosts import check_receives, may_receive
from duetime.targets.validation import TargetRules

_REMEMBERED = 5.0
_NONE: dict[str, SecretBinding] = {}


class KnownSecrets:
    def __init__(self, store: Store, rules: TargetRules) -> None:
        self._store = store
        self._rules = rules
        self._known: Memory[int, dict[str, SecretBinding]] = Memory(_REMEMBERED)

    async def check(self, who: Caller, target: Target | AtBroker | None, at: str = "target") -> None:
        """Raise `InvalidInput` for a secret that does not exist, and for credentials that this target may not use."""
        if target is None:
            return
        for (field, name, _), places in self._rules.secrets(target, at):
            bound = (self._known.get(who.tenant_id) or _NONE).get(name)
            if bound is None or not (
                bound.may_be_named_by(who.role) and all(may_receive(bound.hosts, place) for place in places)
            ):
                bound = await self._look(who.tenant_id, name)  # it may have been created or changed since
            if bound is None:
                remedy = f"PUT /v1/secrets/{name}, or correct the name"
                raise InvalidInput(f"the secret {name!r} does not exist", field=field, remedy=remedy)
            if not bound.may_be_named_by(who.role):
                remedy = f"use a key with one of these roles: {', '.join(bound.roles)}"
                raise InvalidInput(f"this key may not use the secret {name!r}", field=field, remedy=remedy)
            for place in places:
                check_receives(name, bound.hosts, place, field)
        if isinstance(target, KubernetesTarget) or (isinstance(target, HttpTarget) and target.auth is not None):
            tenant = await self._store.tenants.tenant_by_id(who.tenant_id)
            self._rules.cloud.check(tenant.name, target, self._rules.places(target, at)[0], at)

    def changed(self) -> None:
        """A secret was set or deleted on this server."""
        self._known.clear()

    async def _look(self, tenant_id: int, name: str) -> SecretBinding | None:
        found = await self._store.secrets.tenant_secrets(tenant_id)
        return self._known.put(tenant_id, {each.name: each.binding for each in found}).get(name)
