"""The settings and their sources: defaults, then a TOML file, then DUETIME_* variables, then flags.

Each source overrides the one before. A misspelt name is refused, with a suggestion: a setting that silently does
nothing is worse than a process that does not start. Every message names the source at fault (the file, the variable or
the flag), so that the reader knows which one to fix. Keys, and passwords in URLs, appear neither in messages nor in the
`repr` of the settings: the kind of a setting defines what may be shown of it.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from duetime.duration import format_duration
from duetime.errors import SettingsError
from duetime.settings import kinds

PREFIX = "DUETIME_"
CONFIG_VARIABLE = "DUETIME_CONFIG"
DEFAULT_FILE = Path("duetime.toml")

# The test suite's own variables. They are not settings, and may be set while settings are loaded.
_TEST_PREFIX = "DUETIME_TEST_"
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, with its default. `load` reads and validates what a user gave. Values that are given here may be
    text, as in a file: `Settings(data_dir="data", grace="1m")`."""

    database_url: Annotated[
        str | None,
        kinds.database("The database: PostgreSQL, or one SQLite file that belongs to one process."),
    ] = None
    direct_database_url: Annotated[
        str | None,
        kinds.direct_database(
            "The database itself, for wake-ups, when `database_url` is a connection pooler. Without it the process"
            " polls."
        ),
    ] = None
    replica_url: Annotated[
        str | None,
        kinds.replica("A replica of the PostgreSQL database. Servers read lists and figures there."),
    ] = None
    replica_max_lag: Annotated[
        timedelta,
        kinds.duration("How far behind the replica may be. If it may be further, the primary is read.", "1s", "10m"),
    ] = timedelta(seconds=10)
    data_dir: Annotated[Path, kinds.folder("The folder of the SQLite file when `database_url` is not set.")] = Path(
        "duetime-data"
    )
    host: Annotated[str, kinds.text("The address that the HTTP server listens on.")] = "127.0.0.1"
    port: Annotated[int, kinds.count("The HTTP server's port; 0 picks a free one.", 0, 65_535)] = 8420
    tls_cert: Annotated[
        Path | None,
        kinds.file("The server's certificate and its chain (PEM); enables TLS. Reloaded when it changes."),
    ] = None
    tls_key: Annotated[
        Path | None, kinds.file("The key of `tls_cert` (PEM). Default: the key is in the certificate's file.")
    ] = None
    tls_client_ca: Annotated[
        Path | None,
        kinds.file("CAs of client certificates (PEM). If set, remote workers need a certificate of one of them."),
    ] = None
    tls_in_front: Annotated[
        Literal["on", "off"],
        kinds.choice("A proxy in front of this server terminates TLS: do not warn about plain HTTP.", "on", "off"),
    ] = "off"

    url: Annotated[
        str | None, kinds.server("The server that commands and remote workers connect to, instead of a database.")
    ] = None
    key: Annotated[str | None, kinds.secret("The API key for that server.")] = None
    server_ca: Annotated[
        Path | None, kinds.file("CAs to verify the server at `url` with (PEM), instead of the system's.")
    ] = None
    client_cert: Annotated[
        Path | None,
        kinds.file("The client certificate for that server and its chain (PEM). Reloaded when it changes."),
    ] = None
    client_key: Annotated[
        Path | None,
        kinds.file("The key of `client_cert` (PEM). Default: the key is in the certificate's file."),
    ] = None

    queues: Annotated[
        tuple[str, ...], kinds.names("The queues that this process claims runs from, including those of targets.")
    ] = ()
    slots: Annotated[int, kinds.count("Maximum concurrent async tasks of one worker.", 1, 100_000)] = 200
    threads: Annotated[int, kinds.count("Maximum concurrent blocking tasks, in threads.", 1, 10_000)] = 16
    processes: Annotated[
        int,
        kinds.count("Maximum concurrent CPU-bound tasks, in processes.", 1, 1_024, default="one per CPU"),
    ] = msgspec.field(default_factory=lambda: os.cpu_count() or 1)

    heartbeat: Annotated[timedelta, kinds.duration("How often a worker renews its lease.", "10ms", "10m")] = timedelta(
        seconds=5
    )
    lease: Annotated[
        timedelta,
        kinds.duration(
            "How long a worker may be silent before its runs go to another one; at least twice `heartbeat`.",
            "20ms",
            "1h",
        ),
    ] = timedelta(seconds=15)
    grace: Annotated[timedelta, kinds.duration("How long running tasks may continue after SIGTERM.", "0s", "1d")] = (
        timedelta(seconds=30)
    )
    poll: Annotated[
        timedelta, kinds.duration("How long an idle loop waits before it polls again.", "10ms", "500ms")
    ] = timedelta(milliseconds=500)
    priorities: Annotated[
        Literal["shares", "strict"],
        kinds.choice(
            "`shares`: HIGH, MEDIUM and LOW get 70, 25 and 5 % while all wait; `strict`: the higher always goes first.",
            "shares",
            "strict",
        ),
    ] = "shares"
    breakers: Annotated[
        Literal["on", "off"],
        kinds.choice("Stop calling a failing target until a few probes succeed.", "on", "off"),
    ] = "on"
    breaker_least: Annotated[
        int, kinds.count("Minimum number of attempts within 30 seconds to open a breaker.", 1, 100_000)
    ] = 20
    breaker_percent: Annotated[
        int, kinds.count("A breaker opens when more than this percentage of the attempts failed.", 1, 99)
    ] = 50
    retry_budget_percent: Annotated[
        int, kinds.count("Retries stay below this percentage of a target's attempts, above a small floor.", 1, 100)
    ] = 20

    retention: Annotated[
        timedelta,
        kinds.duration("How long the database keeps finished runs and their history.", "1h", "36525d"),
    ] = timedelta(days=30)
    archive_url: Annotated[
        str | None,
        kinds.archive("Where history is kept as files before the database removes it; needs `duetime[archive]`."),
    ] = None
    archive_retention: Annotated[
        timedelta, kinds.duration("How long the archive keeps a day of history.", "1d", "36525d")
    ] = timedelta(days=365)
    archive_after: Annotated[
        timedelta,
        kinds.duration("How long after its end a day of history is archived.", "0s", "36525d"),
    ] = timedelta(hours=1)
    archive_endpoint: Annotated[str | None, kinds.server("The URL of S3-compatible storage that is not Amazon's.")] = (
        None
    )
    archive_region: Annotated[str, kinds.text("The region of the bucket.")] = "us-east-1"
    archive_access_key: Annotated[
        str | None,
        kinds.secret("The access key of the storage. Default: as the AWS SDK finds it (variables, profile, instance)."),
    ] = None
    archive_secret_key: Annotated[str | None, kinds.secret("The secret key of `archive_access_key`.")] = None
    dead_letter_retention: Annotated[
        timedelta,
        kinds.duration("How long dead letters are kept for inspection and replay.", "1h", "36525d"),
    ] = timedelta(days=90)
    usage_retention: Annotated[
        timedelta,
        kinds.duration("How long the daily usage of tenants is kept.", "1d", "36525d"),
    ] = timedelta(days=800)
    idempotency_retention: Annotated[
        timedelta,
        kinds.duration("Minimum retention of an idempotency key; it is kept as long as its job.", "1h", "36525d"),
    ] = timedelta(days=1)
    max_payload: Annotated[int, kinds.size("Maximum size of a job's arguments.", 1, 64 * 1024**2)] = 256 * 1024
    max_batch: Annotated[int, kinds.size("Maximum body size of a batch request.", 64 * 1024, 1024**3)] = 32 * 1024**2
    max_stored_payload: Annotated[int, kinds.size("Maximum size of a stored payload.", 1, 64 * 1024**2)] = 10 * 1024**2
    body_timeout: Annotated[
        timedelta, kinds.duration("Maximum time for a request's body to arrive.", "100ms", "10m")
    ] = timedelta(seconds=10)
    header_timeout: Annotated[
        timedelta, kinds.duration("Maximum time for a request's headers to arrive.", "100ms", "10m")
    ] = timedelta(seconds=10)
    response_timeout: Annotated[
        timedelta,
        kinds.duration(
            "Maximum time for a client to take what is ready of a response (at most 64 KiB). A slower client is"
            " disconnected.",
            "100ms",
            "10m",
        ),
    ] = timedelta(seconds=30)
    max_connections: Annotated[
        int,
        kinds.count("Maximum connections of a server; 0: as many as its open-file limit allows.", 0, 100_000),
    ] = 0
    max_connections_per_address: Annotated[
        int, kinds.count("Maximum connections per client address; 0: half of all.", 0, 100_000)
    ] = 0
    reads_per_second: Annotated[
        int, kinds.count("Read requests of a tenant per second and server; 0: no limit.", 0, 10**9)
    ] = 1_000
    changes_per_second: Annotated[
        int,
        kinds.count(
            "Write requests, other than submissions, of a tenant per second and server; 0: no limit.",
            0,
            10**9,
        ),
    ] = 500
    worker_requests_per_second: Annotated[
        int, kinds.count("Requests of a tenant's workers per second and server; 0: no limit.", 0, 10**9)
    ] = 5_000
    event_streams: Annotated[
        int, kinds.count("Maximum open event streams of a tenant per server; 0: no limit.", 0, 10**9)
    ] = 200
    long_polls: Annotated[
        int, kinds.count("Maximum waiting claims of a tenant's workers per server; 0: no limit.", 0, 10**9)
    ] = 10_000
    key_share: Annotated[
        int, kinds.count("The share of these tenant limits that one key may use, in percent.", 1, 100)
    ] = 50
    key_submission_share: Annotated[
        int,
        kinds.count("The share of its tenant's `submissions_per_second` that one key may use, in percent.", 1, 100),
    ] = 100
    limits_url: Annotated[
        str | None,
        kinds.redis_server(
            "The Redis in which all servers count submissions against the limits of tenants, instead of in the"
            " database; needs `duetime[redis]`."
        ),
    ] = None
    failed_logins: Annotated[
        int,
        kinds.count(
            "Failed authentications per minute and address before its requests are refused without checking"
            " the key; 0: no limit.",
            0,
            10**9,
        ),
    ] = 300
    max_result: Annotated[int, kinds.size("Maximum size of a run's result.", 1, 64 * 1024**2)] = 64 * 1024
    max_log_lines: Annotated[int, kinds.count("Maximum log lines stored per attempt.", 0, 100_000)] = 200

    session_lifetime: Annotated[timedelta, kinds.duration("Maximum lifetime of a browser session.", "5m", "30d")] = (
        timedelta(hours=12)
    )
    session_idle: Annotated[
        timedelta, kinds.duration("How long an unused browser session stays valid.", "5m", "30d")
    ] = timedelta(hours=2)
    oidc_providers: Annotated[
        Path | None,
        kinds.file("The TOML file of identity providers for single sign-on (docs/sso.md); needs `public_url`."),
    ] = None
    key_lifetime: Annotated[
        timedelta,
        kinds.duration(
            "The default lifetime of an API key; 0s: it never expires. A key expires no later than the key that"
            " created it.",
            "0s",
            "36525d",
        ),
    ] = timedelta(days=90)
    trusted_proxies: Annotated[
        tuple[str, ...],
        kinds.networks("Networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted."),
    ] = ()

    encryption_keys: Annotated[
        tuple[str, ...],
        kinds.encryption_keys("The keys that encrypt stored data: signing keys, secrets, payloads, content."),
    ] = ()
    stream_queues: Annotated[
        tuple[str, ...],
        kinds.stream_queues("Queues of the tenant `default` that go through a stream, set when a node starts."),
    ] = ()
    key_provider: Annotated[
        str | None,
        kinds.key_provider("The provider that wraps data keys, which then replace the first encryption key."),
    ] = None
    key_provider_key: Annotated[str, kinds.text("The name of the wrapping key at an HTTP key provider.")] = "duetime"
    key_provider_token: Annotated[str | None, kinds.secret("The bearer token for an HTTP key provider.")] = None
    unknown_tasks: Annotated[
        Literal["accept", "refuse"],
        kinds.choice(
            "Jobs for a task that no live worker provides: accept with a warning, or refuse.", "accept", "refuse"
        ),
    ] = "accept"

    targets: Annotated[
        Literal["on", "off"],
        kinds.choice(
            "Whether servers execute targets: HTTP calls, gRPC calls, messages to brokers, commands and Jobs of"
            " Kubernetes.",
            "on",
            "off",
        ),
    ] = "on"
    target_slots: Annotated[int, kinds.count("Maximum concurrent calls of a process.", 1, 100_000)] = 500
    target_timeout: Annotated[
        timedelta, kinds.duration("The timeout of a call or a command whose job has none.", "100ms", "7d")
    ] = timedelta(seconds=30)
    max_response: Annotated[int, kinds.size("How much of a response is stored.", 0, 1024**2)] = 16 * 1024
    allowed_networks: Annotated[
        tuple[str, ...],
        kinds.networks("Non-public networks that may be called."),
    ] = ()
    kafka_clusters: Annotated[
        tuple[str, ...],
        kinds.hosts("Servers of the Kafka clusters that jobs may publish to and be created from."),
    ] = ()
    cloud_access: Annotated[
        Path | None,
        kinds.file(
            "The TOML file of the tenants that may use this service's own credentials of AWS, Google and Kubernetes."
            " Default: none."
        ),
    ] = None
    shell_commands: Annotated[
        Path | None, kinds.file("The TOML file of commands that jobs may run. Default: no commands.")
    ] = None
    shell_slots: Annotated[int, kinds.count("Maximum concurrent commands of a process.", 1, 10_000)] = 4
    kubernetes_slots: Annotated[
        int, kinds.count("Maximum Jobs of Kubernetes that a process tracks at once.", 1, 100_000)
    ] = 200
    smtp_url: Annotated[
        str | None,
        kinds.mail_server("The mail server for notifications; it logs in over an encrypted connection only."),
    ] = None
    mail_from: Annotated[str | None, kinds.text("The sender address of notification emails.")] = None
    public_url: Annotated[
        str | None,
        kinds.server(
            "The public URL of this service, for browsers and completion links. With https, cookies of"
            " its host are `Secure`."
        ),
    ] = None

    lanes_per_tenant: Annotated[
        int,
        kinds.count(
            "Maximum lanes of a tenant per day: each combination of queue, priority, task and host of a"
            " call is a lane.",
            1,
            10_000_000,
        ),
    ] = 10_000

    pool_size: Annotated[int, kinds.count("Connections to PostgreSQL per process.", 1, 1_000)] = 8
    prepared_statements: Annotated[
        Literal["on", "off"],
        kinds.choice(
            "Use prepared statements; `off` for a transaction pooler that does not support them.", "on", "off"
        ),
    ] = "on"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        kinds.choice("The lowest level that is logged.", "debug", "info", "warning", "error"),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        kinds.choice(
            "`text` for people, `json` for one object per line, `auto` for text on a terminal.",
            "auto",
            "text",
            "json",
        ),
    ] = "auto"
    metrics_port: Annotated[
        int | None,
        kinds.count(
            "A port of `host` that serves metrics to scrapes with `metrics_token`; 0 picks a free one.",
            0,
            65_535,
            default="off",
        ),
    ] = None
    metrics_token: Annotated[
        str | None,
        kinds.secret(
            "The token that a scrape of `metrics_port` sends as `Authorization: Bearer …`; without it, metrics are"
            " served on a loopback address only."
        ),
    ] = None
    metrics_queues: Annotated[
        int,
        kinds.count(
            "Queues with metrics of their own; those of all others are added up. 0: no such metrics.", 0, 10_000
        ),
    ] = 100
    traces: Annotated[
        Literal["on", "off"],
        kinds.choice("Export OpenTelemetry spans as the OTEL_* variables say; needs `duetime[otel]`.", "on", "off"),
    ] = "off"
    canary: Annotated[
        timedelta,
        kinds.duration("How often a node runs a canary job through the whole path; 0s: never.", "0s", "1h"),
    ] = timedelta(minutes=1)

    def __post_init__(self) -> None:
        for name in _NOT_TEXT:
            if isinstance(value := getattr(self, name), str):
                msgspec.structs.force_setattr(self, name, _read(name, _Given(name, value)))

    @property
    def sqlite_file(self) -> Path | None:
        """The embedded database's file, or None on PostgreSQL."""
        return _sqlite_file(self.database_url, self.data_dir)

    @property
    def sealing_keys(self) -> list[tuple[str, bytes]]:
        """The encryption keys with their names; the first one encrypts."""
        return [kinds.decoded_key(key) for key in self.encryption_keys]

    @property
    def has_encryption(self) -> bool:
        """Whether there is a key to encrypt with."""
        return bool(self.encryption_keys) or self.key_provider is not None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, kind.show(getattr(self, name))) for name, kind in _KINDS.items()]

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Described(NamedTuple):
    """The documentation of one setting."""

    name: str
    variable: str
    default: str
    accepts: str
    description: str


class _Given(NamedTuple):
    """A given value, and its source."""

    source: str
    value: object


@lru_cache
def _sqlite_file(database_url: str | None, data_dir: Path) -> Path | None:
    """Remembered, because every submission to an embedded file asks for it."""
    if database_url is None:
        return data_dir / "duetime.db"
    _, is_sqlite, path = database_url.partition("sqlite:///")
    return Path(path) if is_sqlite else None


def _kinds() -> dict[str, kinds.Kind]:
    hints = get_type_hints(Settings, include_extras=True)
    return {name: get_args(hints[name])[1] for name in Settings.__struct_fields__}


_KINDS = _kinds()
_NOT_TEXT = [
    name
    for name, hint in get_type_hints(Settings).items()
    if hint not in (str, str | None) and get_origin(hint) is not Literal
]
"""The settings whose values are no text, though text may be given."""
_NEEDS = {
    "tls_key": "tls_cert",
    "tls_client_ca": "tls_cert",
    "client_key": "client_cert",
    "archive_endpoint": "archive_url",
    "archive_access_key": "archive_secret_key",
    "archive_secret_key": "archive_access_key",
}
"""Settings that require another one."""
_OF_SERVER = ("url", "key")


def secret_variables() -> list[str]:
    """The variables whose values, or parts of them, are never shown; PostgreSQL's password and AWS's keys have their
    own."""
    hidden = [_variable(name) for name, kind in _KINDS.items() if kind.secret or kind.show is not kinds.show_all]
    return [*hidden, "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]


def describe() -> list[Described]:
    """The documentation of every setting, in the order of `Settings`."""
    defaults = msgspec.structs.asdict(Settings())
    return [
        Described(
            name,
            _variable(name),
            kind.default or ("none" if defaults[name] is None else kind.write(defaults[name])),
            kind.accepts,
            kind.description,
        )
        for name, kind in _KINDS.items()
    ]


def load(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Read and validate every source; flags win over variables, variables over the file, the file over defaults.

    `file` must exist when it is named, here or by DUETIME_CONFIG; ./duetime.toml is read if it exists. A flag that is
    None, or a variable that is empty, counts as not given. Relative paths start from the working directory, whatever
    their source. A source that names a database or a data folder, and no server, replaces the server of weaker sources,
    with its key.
    """
    given: dict[str, _Given] = {}
    for source in (_from_file(file, environ), _from_environ(environ), _from_flags(flags)):
        if "url" not in source and ("database_url" in source or "data_dir" in source):
            given = {name: value for name, value in given.items() if name not in _OF_SERVER}
        given |= source
    settings = Settings(**{name: _read(name, value) for name, value in given.items()})
    _check_together(settings, given)
    return settings


def _from_file(file: Path | None, environ: Mapping[str, str]) -> dict[str, _Given]:
    named = file or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    path = named or DEFAULT_FILE
    if not named and not path.exists():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        by = f", named by {CONFIG_VARIABLE}," if named and not file else ""
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SettingsError(f"the settings file {path}{by} cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not TOML: {error}") from error
    for key in content:
        _known(key, _KINDS, f"{path} sets {key!r}, which is not a setting")
    return {name: _Given(f"{name} in {path}", value) for name, value in content.items()}


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    names = {_variable(name): name for name in _KINDS}
    ours = [key for key in environ if key.startswith(PREFIX) and not key.startswith(_TEST_PREFIX)]
    linked = [key for key in ours if _is_service_link(key, environ[key])]
    for key in linked:
        if key in names:
            raise SettingsError(
                f"{key} is {environ[key]!r}: Kubernetes set it because of a Service's name",
                field=names[key],
                remedy=f"set enableServiceLinks: false in the pod, or {key} to a port, or rename the Service",
            )
    ours = [key for key in ours if key not in linked]
    for key in ours:
        _known(key, [*names, CONFIG_VARIABLE], f"the variable {key} is not a setting")
    return {names[key]: _Given(key, environ[key]) for key in ours if key in names and environ[key].strip()}


def _is_service_link(key: str, value: str) -> bool:
    """Whether Kubernetes gave this variable to the pod, as it does for each Service: a Service named duetime-server
    adds DUETIME_SERVER_SERVICE_HOST, DUETIME_SERVER_PORT and more, which the operator did not set."""
    return bool(_SERVICE_LINK.search(key) or (key.endswith("_PORT") and _SERVICE_ADDRESS.match(value)))


def _from_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given:
        _known(name, _KINDS, f"the flag {_flag(name)} is not a setting")
    return {name: _Given(_flag(name), value) for name, value in given.items()}


def _known(name: str, names: Iterable[str], complaint: str) -> None:
    if name in (known := list(names)):
        return
    close = difflib.get_close_matches(name, known, n=1)
    raise SettingsError(complaint, remedy=f"did you mean {close[0]}?" if close else f"one of {', '.join(known)}")


def _read(name: str, given: _Given) -> Any:
    kind = _KINDS[name]
    try:
        return kind.read(given.value)
    except ValueError as error:
        shown = "invalid" if kind.secret else repr(kind.show(given.value))
        raise SettingsError(
            f"{given.source} is {shown}: {error}",
            field=name,
            remedy=f"accepted: {kind.accepts}",
        ) from None


def _check_together(settings: Settings, given: Mapping[str, _Given]) -> None:
    if settings.lease < 2 * settings.heartbeat:
        lease, heartbeat = (
            f"{name} is {format_duration(getattr(settings, name))} "
            f"({given[name].source if name in given else 'the default'})"
            for name in ("lease", "heartbeat")
        )
        raise SettingsError(
            f"{lease} and {heartbeat}, but one late heartbeat must not cost a worker its runs",
            field="lease",
            remedy="make lease at least twice heartbeat",
        )

    if settings.replica_url is not None and settings.sqlite_file is not None:
        raise SettingsError(
            f"{given['replica_url'].source} is set, but the database is a SQLite file, which has no replicas",
            field="replica_url",
            remedy="set database_url to a PostgreSQL database, or remove replica_url",
        )
    for name, needed in _NEEDS.items():
        if getattr(settings, name) is not None and getattr(settings, needed) is None:
            raise SettingsError(
                f"{given[name].source} is set, but {needed} is not",
                field=name,
                remedy=f"set {needed}, or remove {name}",
            )


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
