"""The hosts that a secret may be sent to.

    api.example.com         port 443 of this host
    api.example.com:8443    this port of this host
    *.example.com           port 443 of every host below example.com, but not of example.com itself
    *.example.com:8443      this port of every host below example.com

Any port other than 443 must be named, including port 80: plain HTTP exposes the secret to the network. Port 443 means
TLS, whatever a target says.
"""

import re
from collections.abc import Sequence

from duetime.errors import InvalidInput
from duetime.targets.url import Place, check_port, read_host

_USUAL_PORT = 443
_BELOW = "*."
_HOST = re.compile(r"(\*\.)?(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]{1,5}))?", re.ASCII)


def check_hosts(hosts: Sequence[str], field: str = "hosts") -> tuple[str, ...]:
    """The hosts in canonical spelling. Raises `InvalidInput`."""
    if not hosts:
        raise InvalidInput(
            "a secret requires the hosts that it may be sent to", field=field, remedy='such as ["api.example.com"]'
        )
    return tuple(dict.fromkeys(_shown(*_read(host, f"{field}[{index}]")) for index, host in enumerate(hosts)))


def may_receive(hosts: Sequence[str], place: Place) -> bool:
    """Whether a secret that is bound to these hosts may be sent to this place."""
    return any(_matches(*_read(host, "hosts"), place) for host in hosts)


def check_receives(name: str, hosts: Sequence[str], place: Place, field: str | None = None) -> None:
    """Raises `InvalidInput` for a place that this secret may not be sent to."""
    if not may_receive(hosts, place):
        raise InvalidInput(
            f"the secret {name!r} may not be sent to {_shown(place.host, place.port)}"
            + ("" if place.tls else " without TLS"),
            field=field,
            remedy=f"it may be sent to {', '.join(hosts)}; an admin changes that with PUT /v1/secrets/{name}",
        )


def _read(text: str, field: str) -> tuple[str, int]:
    """The host, or `*.` and a domain; and the port."""
    match = _HOST.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text[:60]!r} is not a host or host:port", field=field, remedy="such as example.com:8443")
    below, inside, plain, port = match.groups()
    host = read_host(inside or plain, bracketed=inside is not None, field=field)
    if below and (inside is not None or "." not in host or host.rpartition(".")[2].isdigit()):
        raise InvalidInput(f"{text[:60]!r} is too broad", field=field, remedy="such as *.example.com")
    return (below or "") + host, check_port(int(port or _USUAL_PORT), field)


def _shown(host: str, port: int) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port == _USUAL_PORT else f"{host}:{port}"


def _matches(host: str, port: int, place: Place) -> bool:
    if port != place.port or (port == _USUAL_PORT and not place.tls):
        return False
    return place.host.endswith(host[1:]) if host.startswith(_BELOW) else place.host == host
