"""The hosts in the address of a PostgreSQL database.

An address may name several hosts, as libpq's does: `postgresql://user@one:5432,two:5432/database`, or with `host` and
`port` in the query. All belong to one cluster, of which one host at a time is the primary.
"""

from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from duetime.settings.addresses import split_address

_PORT = 5432
_WRITABLE = ("primary", "read-write")
_READABLE = ("any", "primary", "standby", "prefer-standby", "read-write", "read-only")


class Host(NamedTuple):
    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


class Hosts(NamedTuple):
    hosts: tuple[Host, ...]
    """Empty: the driver takes the host from its environment, or uses the local one."""
    target: str | None
    """The `target_session_attrs` of the address."""
    database: str

    def __str__(self) -> str:
        named = ",".join(map(str, self.hosts)) or f"localhost:{_PORT}"
        return f"{named}/{self.database}"


def hosts_of(address: str) -> Hosts:
    """The hosts of an address. Raises ValueError with a reason that quotes no part of it: any part may be a password
    that was not escaped."""
    parts = split_address(address)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    _, _, named = parts.netloc.rpartition("@")
    if named:
        hosts = _listed([_place(each) for each in named.split(",")])
    elif host := query.get("host"):
        names = host.split(",")
        ports = query.get("port", "").split(",")
        if len(ports) not in (1, len(names)):
            raise ValueError(f"it has {len(ports)} ports for {len(names)} hosts")
        hosts = _listed(list(zip(names, ports if len(ports) > 1 else ports * len(names), strict=True)))
    else:
        hosts = ()
    database = unquote(parts.path.lstrip("/")) or query.get("dbname", "")
    return Hosts(hosts, query.get("target_session_attrs"), database)


def without_hosts(address: str) -> str:
    """The address with its login, for a driver that gets the host apart from it."""
    hosts = split_address(address).netloc
    login, at, _ = hosts.rpartition("@")
    scheme, slashes, rest = address.partition("://")
    return f"{scheme}{slashes}{login}{at}{rest.removeprefix(hosts)}"


def check_writable(address: str) -> None:
    """Raises ValueError unless duetime can write to the database of this address, whichever host is the primary."""
    hosts, target, _ = hosts_of(address)
    _known(target)
    if target not in (None, *_WRITABLE) and not (target == "any" and len(hosts) < 2):
        raise ValueError(f"duetime writes: target_session_attrs must be {' or '.join(_WRITABLE)}, or be left out")


def check_readable(address: str) -> None:
    """Raises ValueError unless this is the address of a database."""
    _known(hosts_of(address).target)


def _known(target: str | None) -> None:
    if target not in (None, *_READABLE):
        raise ValueError(f"target_session_attrs must be one of {', '.join(_READABLE)}")


def _place(named: str) -> tuple[str, str]:
    if named.startswith("["):
        name, closed, port = named[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            return "", port
        return name, port[1:]
    name, _, port = named.partition(":")
    return unquote(name), port


def _listed(places: list[tuple[str, str]]) -> tuple[Host, ...]:
    found: list[Host] = []
    for number, (name, port) in enumerate(places, 1):
        which = f"host {number} of {len(places)}" if len(places) > 1 else "its host"
        if not name:
            raise ValueError(f"{which} is empty or malformed")
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
            raise ValueError(f"{which} or port is malformed; '@', '/' and ':' in a password are %40, %2F, %3A")
        host = Host(name, int(port or _PORT))
        if host in found:
            raise ValueError(f"{which} is the same as host {found.index(host) + 1}")
        found.append(host)
    return tuple(found)
