"""Whether the secrets that a target names are there: a job that names one that is not would only fail later."""

from collections.abc import Iterator

from duetime.api.memory import Memory
from duetime.errors import InvalidInput
from duetime.model.target import GrpcTarget, HttpTarget, SecretValue, Target
from duetime.store.protocol import Store

_REMEMBERED = 5.0


class KnownSecrets:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Memory[int, frozenset[str]] = Memory(_REMEMBERED)

    async def check(self, tenant_id: int, target: Target | None) -> None:
        """Raises `InvalidInput` for a secret that the tenant does not have."""
        for field, name in _named(target):
            known = self._known.get(tenant_id) or frozenset()
            if name not in known:  # it may be new
                found = await self._store.tenant_secrets(tenant_id)
                known = self._known.put(tenant_id, frozenset(secret.name for secret in found))
            if name not in known:
                remedy = f"PUT /v1/secrets/{name}, or mend the name"
                raise InvalidInput(f"there is no secret {name!r}", field=field, remedy=remedy)


def _named(target: Target | None) -> Iterator[tuple[str, str]]:
    values = {}
    if isinstance(target, HttpTarget):
        values = {f"target.headers.{name}": value for name, value in target.headers.items()}
    elif isinstance(target, GrpcTarget):
        values = {f"target.metadata.{name}": value for name, value in target.metadata.items()}
    for field, value in values.items():
        if isinstance(value, SecretValue):
            yield field, value.secret
