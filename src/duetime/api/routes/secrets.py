"""Secrets for the headers of targets, and the secrets that sign a tenant's requests."""

from datetime import datetime, timedelta

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret
from duetime.model.target import check_secret_name
from duetime.spec.kinds import read_duration
from duetime.targets.secret_hosts import check_hosts
from duetime.targets.values import check_value
from duetime.wire.jobs import Deleted
from duetime.wire.targets import (
    RotationRequest,
    SecretList,
    SecretRequest,
    SecretStored,
    SecretView,
    SigningList,
    SigningSecretMade,
    SigningView,
)

routes = Routes("Secrets")
_LONGEST_OVERLAP = timedelta(days=90)


@routes.get("/v1/secrets", Action.MANAGE_KEYS, answer=SecretList)
async def list_secrets(call: Call) -> SecretList:
    """List the names of the secrets. Their values are never returned."""
    found = await call.service.store.secrets.tenant_secrets(call.tenant_id)
    return SecretList(tuple(_view(each) for each in found))


@routes.put("/v1/secrets/{secret}", Action.MANAGE_KEYS, body=SecretRequest, answer=SecretStored, problems=(409,))
async def put_secret(call: Call) -> SecretStored:
    """Create or replace a secret that headers of targets can name. It is stored encrypted, never returned, and sent to
    its hosts only."""
    request: SecretRequest = call.body
    name = check_secret_name(call.path["secret"])
    binding = SecretBinding(check_hosts(request.hosts), tuple(dict.fromkeys(request.roles)))
    changed_at = await call.service.vault.put(call.tenant_id, name, check_value(request.value, "value"), binding)
    call.service.secrets.changed()
    await call.act("secrets.set", name, ", ".join(binding.hosts)[:200])
    return SecretStored(name, changed_at, binding.hosts, binding.roles)


@routes.delete("/v1/secrets/{secret}", Action.MANAGE_KEYS, answer=Deleted)
async def delete_secret(call: Call) -> Deleted:
    """Delete a secret. Attempts that need it fail from now on."""
    await call.service.store.secrets.drop_secret(call.tenant_id, call.path["secret"])
    call.service.secrets.changed()
    await call.act("secrets.delete", call.path["secret"])
    return Deleted()


@routes.get("/v1/signing-secrets", Action.MANAGE_KEYS, answer=SigningList)
async def list_signing_secrets(call: Call) -> SigningList:
    """List the signing secrets of requests to targets, newest first."""
    found = await call.service.store.secrets.signing_secrets(call.tenant_id)
    return SigningList(tuple(SigningView(*_fields(each)) for each in found))


@routes.post(
    "/v1/signing-secrets/rotate",
    Action.MANAGE_KEYS,
    body=RotationRequest,
    body_optional=True,
    answer=SigningSecretMade,
    status=201,
)
async def rotate_signing_secret(call: Call) -> SigningSecretMade:
    """Create a signing secret. Requests are signed with the old ones too for a while, so that receivers can switch."""
    overlap = read_duration(call.body.overlap, "overlap")
    if overlap > _LONGEST_OVERLAP:
        raise InvalidInput(f"{call.body.overlap} is too long", field="overlap", remedy="at most 90 days")
    made, text = await call.service.vault.rotate(call.tenant_id, overlap)
    await call.act("signing_secrets.rotate", show("sig", made.id))
    return SigningSecretMade(*_fields(made), secret=text)


def _view(secret: SecretInfo) -> SecretView:
    binding = secret.binding
    return SecretView(secret.name, secret.created_at, secret.changed_at, binding.hosts, binding.roles)


def _fields(secret: SigningSecret) -> tuple[str, datetime, datetime | None]:
    return show("sig", secret.id), secret.created_at, secret.expires_at
