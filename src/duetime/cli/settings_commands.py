"""Commands that work on the settings: their flags, and how their errors are shown."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from duetime.cli import options
from duetime.cli.app_loader import load_settings
from duetime.cli.output import clear_errors
from duetime.process.privacy import keep_secrets_private

DATABASE = {"database_url": options.DatabaseUrl, "data_dir": options.DataDir}
EXECUTORS = {"slots": options.Slots, "threads": options.Threads, "processes": options.Processes}
SERVER = {
    "host": options.Host,
    "port": options.Port,
    "tls_cert": options.TlsCert,
    "tls_key": options.TlsKey,
    "tls_client_ca": options.TlsClientCa,
}
CLIENT = {
    "url": options.Url,
    "key": options.Key,
    "server_ca": options.ServerCa,
    "client_cert": options.ClientCert,
    "client_key": options.ClientKey,
}
LOGGING = {"log_level": options.LogLevel}


def settings_command(*flags: dict[str, Any], private: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Turn a function of settings into a command. It gets --config, --json and these flags, and its errors become one
    line and an exit code. `private` hides the secrets of its process before anything that takes time."""
    of_settings = {name: kind for group in flags for name, kind in group.items()}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        settings, *own, json = signature.parameters.values()

        @functools.wraps(function)
        def command(config: Any, json: bool, **given: Any) -> None:
            if private:
                keep_secrets_private()
            with clear_errors(json=json):
                loaded = load_settings(config, **{name: _flag(given.pop(name)) for name in of_settings})
                function(loaded, **given, json=json)

        added = [
            settings.replace(name=name, annotation=kind, default=None)
            for name, kind in {"config": options.Config, **of_settings}.items()
        ]
        last = json.replace(annotation=options.Json, default=False)
        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*own, *added, last)]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def _flag(value: Any) -> Any:
    """A flag that may be repeated is a list; without a value it is not given."""
    return tuple(value) or None if isinstance(value, list) else value
