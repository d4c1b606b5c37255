"""Apache Kafka, and ElasticMQ for the protocol of SQS: real servers, from the jars that
`scripts/jvm-servers` fetches."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Self

from tests.support.broker_server import BrokerServer
from tests.support.postgres import free_port

_HERE = Path(__file__).parent / "jvm"
_SMALL = ("-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaServer(BrokerServer):
    @classmethod
    def missing(cls) -> str | None:
        if _jars() is None:
            return "Kafka and SQS: run scripts/jvm-servers, which needs Java 17 and Maven, or root on Debian"
        return None


class KafkaServer(JavaServer):
    """A broker in KRaft mode, which is a controller too."""

    kind = "kafka"
    ordered = False
    partitioned = True
    many = 8

    def __init__(self, node: int = 1, controllers: Sequence[int] = (), **settings: str) -> None:
        """`controllers`: a port for each node of the cluster; without any, this is the only one."""
        super().__init__()
        controllers = controllers or [free_port()]
        voters = (f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controllers[node - 1]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": str(min(3, len(controllers))),
            "offsets.topic.num.partitions": "4",
            "log.cleaner.dedupe.buffer.size": "4194304",
            # Large clusters need patience; tests do not.
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "500",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **settings,
        }
        self._properties = self.folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        formatted = subprocess.run(
            _java("kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", str(self._properties)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if formatted.returncode:
            raise RuntimeError(f"Kafka's storage cannot be formatted:\n{formatted.stdout}{formatted.stderr}")

    @property
    def address(self) -> str:
        return self.address_with("partitions=3")

    def address_with(self, options: str) -> str:
        return f"kafka://127.0.0.1:{self.port}?{options}"

    def command(self) -> Sequence[str]:
        return _java("kafka.Kafka", str(self._properties))


class KafkaCluster:
    """Three brokers."""

    def __init__(self, **settings: str) -> None:
        controllers = [free_port() for _ in range(3)]
        with ThreadPoolExecutor() as pool:
            made = pool.map(lambda node: KafkaServer(node, controllers, **settings), (1, 2, 3))
            self.nodes = list(made)

    @property
    def address(self) -> str:
        return "kafka://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        with ThreadPoolExecutor() as pool:
            list(pool.map(KafkaServer.start, self.nodes))
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()


class SqsServer(JavaServer):
    kind = "sqs"
    ordered = False
    many = 20

    def __init__(self) -> None:
        super().__init__()
        self._settings = self.folder / "elasticmq.conf"
        self._settings.write_text(
            'include classpath("application.conf")\n'
            f'rest-sqs {{ bind-hostname = "127.0.0.1", bind-port = {self.port}, sqs-limits = strict }}\n'
            f'node-address {{ protocol = http, host = "127.0.0.1", port = {self.port}, context-path = "" }}\n'
            "rest-stats { enabled = false }\n"
            f'queues-storage {{ enabled = true, path = "{self.folder}/queues.conf" }}\n'
            f'messages-storage {{ enabled = true, uri = "jdbc:h2:{self.folder}/messages" }}\n'
        )

    @property
    def address(self) -> str:
        return f"sqs://test:test@127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return _java(f"-Dconfig.file={self._settings}", "org.elasticmq.server.Main")


@cache
def _jars() -> Path | None:
    """The folder of the jars, if they and Java are here."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = Path(os.environ.get("DUETIME_TEST_CACHE") or f"{cache_home}/duetime-tests")
    summed = subprocess.run(["cksum"], input=(_HERE / "pom.xml").read_bytes(), capture_output=True, check=True)
    folder = home / f"jvm-{summed.stdout.split()[0].decode()}"
    return folder if folder.is_dir() and shutil.which("java") else None


def _java(*arguments: str) -> list[str]:
    logs = f"-Dlogback.configurationFile={_HERE / 'logback.xml'}"
    return ["java", *_SMALL, logs, "-cp", f"{_jars()}/*", *arguments]
