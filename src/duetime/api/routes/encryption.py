"""Encryption keys, and re-encryption with the current one."""

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.engine.reencryption import Progress, Reencryption
from duetime.errors import NoEncryptionKey
from duetime.model.access import Action
from duetime.wire.encryption import EncryptionView, ReencryptRequest

routes = Routes("Encryption")


@routes.get("/v1/admin/encryption", Action.MANAGE_TENANTS, answer=EncryptionView)
async def get_encryption(call: Call) -> EncryptionView:
    """Read the progress of the last re-encryption, and which keys can be retired."""
    return await _view(call, await Reencryption(call.service.store, call.service.sealer).progress())


@routes.post(
    "/v1/admin/encryption/re-encrypt",
    Action.MANAGE_TENANTS,
    body=ReencryptRequest,
    body_optional=True,
    answer=EncryptionView,
    problems=(409,),
)
async def re_encrypt(call: Call) -> EncryptionView:
    """Re-encrypt a part of the data with the current key. Repeat until `done`."""
    request: ReencryptRequest = call.body
    work = Reencryption(call.service.store, call.service.sealer)
    before = await work.progress()
    progress = await work.step(restart=request.restart, fresh_data_key=request.fresh_data_key)
    if before is None or before.done or before.key != progress.key or request.restart:
        await call.act("encryption.re_encrypt", progress.key, in_tenant=False)
    return await _view(call, progress)


async def _view(call: Call, progress: Progress | None) -> EncryptionView:
    sealer = call.service.sealer
    try:
        key = (await sealer.ready()).decode()
    except NoEncryptionKey:
        key = None
    others = sealer.names - {key}
    over = progress is not None and progress.done and progress.key == key
    progress = progress or Progress(key or "")
    archived = await call.service.store.archives.keys_in_archive()
    wrapping = {each.wrapped_by for each in await call.service.store.secrets.data_keys()}
    return EncryptionView(
        key=key,
        known=tuple(sorted(others)),
        round=progress.round,
        table=progress.table_name if progress.looked_at or progress.done else None,
        looked_at=progress.looked_at,
        resealed=progress.resealed,
        left=progress.left,
        done=progress.done,
        retirable=tuple(sorted(others - progress.in_use - archived.keys())) if over else (),
        archived={name: files for name, files in archived.items() if name != key},
        wrapping_keys=tuple(sorted(wrapping)),
    )
