"""A real RabbitMQ: the folder that `DUETIME_TEST_RABBITMQ` names, the system's, or what `scripts/rabbitmq` unpacked."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.broker_server import BrokerServer
from tests.support.postgres import free_port

VARIABLE = "DUETIME_TEST_RABBITMQ"
_UNPACKED = Path(__file__).parents[2] / ".venv" / "rabbitmq"


class RabbitServer(BrokerServer):
    kind = "rabbitmq"
    many = 20
    counts_held = False

    def __init__(self) -> None:
        super().__init__()
        self._names, self._nodes = free_port(), free_port()

    @classmethod
    def missing(cls) -> str | None:
        if _root() is None:
            return f"RabbitMQ: not found; run scripts/rabbitmq, or set {VARIABLE} to the root of an installation"
        return None

    @property
    def address(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def command(self) -> Sequence[str]:
        # The name server would leave the group of processes if Erlang started it.
        names = f"epmd -port {self._names} -address 127.0.0.1 & exec rabbitmq-server"
        return ["/bin/sh", "-c", names]

    def environment(self) -> Mapping[str, str]:
        root = _root()
        assert root is not None
        erlang = root / "usr/lib/erlang"
        [runtime] = erlang.glob("erts-*/bin")
        [programs] = root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")
        folder = self.folder
        erl = folder / "bin/erl"
        erl.parent.mkdir(exist_ok=True)
        variables = f"ROOTDIR={erlang} BINDIR={runtime} EMU=beam PROGNAME=erl"
        erl.write_text(f'#!/bin/sh\nexport {variables}\nexec {runtime}/erlexec "$@"\n')
        erl.chmod(0o755)
        return {
            "PATH": os.pathsep.join([str(erl.parent), str(programs), str(runtime), os.environ["PATH"]]),
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "duetime@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._nodes),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            # Idle schedulers must not spin: the machine has other work.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
        }


def _root() -> Path | None:
    """The folder under which a RabbitMQ and its Erlang are, as Debian lays them out."""
    named = os.environ.get(VARIABLE)
    for root in [Path(named)] if named else [Path("/"), _UNPACKED]:
        if list(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")):
            return root
    return None
