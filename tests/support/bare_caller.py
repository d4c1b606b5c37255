"""A call with no check in front of it but the last: the one of the address that a socket is made for."""

import aiohttp

from duetime.targets.address_guard import AddressGuard, AddressRefused, refused_address
from duetime.targets.http import HttpCaller


async def call_without_looking(url: str) -> str:
    """What the caller's own session says to a URL that was not checked before."""
    caller = HttpCaller(AddressGuard(), *[None] * 3, max_response=10, max_result=10)  # type: ignore[arg-type]
    try:
        async with caller.session().get(url):
            return "it was called"
    except (AddressRefused, aiohttp.ClientError, OSError, ExceptionGroup) as error:
        return str(refused_address(error))
    finally:
        await caller.close()
