"""Attempts that end before anything is sent: a secret is missing or cannot be decrypted, or the address is refused."""

from duetime.errors import NoEncryptionKey, NotFound, SealBroken
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed
from duetime.targets.address_guard import AddressRefused

NOT_SENT = (AddressRefused, NotFound, SealBroken, NoEncryptionKey)


def not_sent(error: BaseException, what: str) -> Failed:
    """The outcome of an attempt that one of `NOT_SENT` ended; `what` is "not called", for example. A secret that cannot
    be decrypted ends the run: a retry cannot help."""
    kind = FailureClass.NETWORK if isinstance(error, AddressRefused) else FailureClass.ERROR
    return Failed(Failure(kind, f"{what}: {error}", final=isinstance(error, (SealBroken, NoEncryptionKey))))
