"""The processes of a run: Kafka's controllers and the fake brokers, none of which outlives it.

It must not know what is measured. A controller is a whole 2.8.2 broker that hosts no partition.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from bench.kafka.cpu import child_pid
from bench.kafka.locate import compile_java
from bench.kafka.scenarios import FIRST_BROKER
from klamm.cluster.errors import EnvironmentProblem
from klamm.world.kafka.jars import require_kafka_libs
from klamm.world.kafka.processes import BrokerProcess, SupervisedProcess
from klamm.zk.java import find_java
from klamm.zk.ports import FREE_PORTS
from klamm.zk.waiting import wait_until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
PORT_TRIES = 50
CONTROLLER_HEAP_MB = 4096
FAKES_HEAP_MB = 2048

_HERE = Path(__file__).resolve().parent
_LOG_CONFIG = _HERE / "log4j.properties"
# What Kafka's own start script passes.
_JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


class SupervisedController(SupervisedProcess):
    """A process with a controller, which ends with the process that started it.

    ``started``: what it prints when it has started. Raises EnvironmentProblem when it does not
    start.
    """

    def __init__(
        self, broker_id: int, folder: Path, command: Sequence[str], started: str, log: Path
    ) -> None:
        super().__init__(f"controller {broker_id}", folder, "server.out")
        self.broker_id = broker_id
        self.controller_log = log
        self.run(command)
        try:
            self._wait_until_started(started)
            assert self._process is not None
            pid = child_pid(self._process.pid)
            assert pid is not None, "it said that it had started"
            self.pid = pid
        except BaseException:
            self.end()
            raise

    def _wait_until_started(self, started: str) -> None:
        wait_until(lambda: started in self.log or not self.is_running, START_TIMEOUT_S)
        if started not in self.log:
            raise EnvironmentProblem(f"{self.name} did not start", hint=f"see {self.out}")

    def kill(self) -> None:
        """As kill -9; returns when it is gone. Its session lives on. May be called twice."""
        self.end()


class RealController(SupervisedController):
    """A Kafka 2.8.2 broker, started; the first of them is elected controller.

    ``settings``: lines for its server.properties, beside those a run needs.
    """

    def __init__(
        self, broker_id: int, port: int, connect: str, folder: Path, settings: Sequence[str] = ()
    ) -> None:
        folder.mkdir(parents=True)
        config = folder / "server.properties"
        lines = [
            f"broker.id={broker_id}",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"zookeeper.connect={connect}",
            f"log.dirs={folder / 'data'}",
            # What moves by itself would disturb the figures.
            "auto.leader.rebalance.enable=false",
            "controlled.shutdown.enable=false",
            "log.cleaner.dedupe.buffer.size=2097152",
            "reserved.broker.max.id=2000",
            *settings,
        ]
        config.write_text("".join(f"{line}\n" for line in lines))
        command = [
            str(find_java().executable),
            f"-Xms{CONTROLLER_HEAP_MB}m",
            f"-Xmx{CONTROLLER_HEAP_MB}m",
            *_JVM_FLAGS,
            f"-Dkafka.logs.dir={folder}",
            f"-Dlog4j.configuration={_LOG_CONFIG.as_uri()}",
            "-cp",
            f"{require_kafka_libs()}/*",
            "kafka.Kafka",
            str(config),
        ]
        super().__init__(
            broker_id, folder, command, BrokerProcess.STARTED, folder / "controller.log"
        )


class AskedProcess:
    """A process that answers one line of JSON to each line it is sent, and one when it is ready.

    ``with AskedProcess("fake brokers", command, log) as process: process.ask("stats")``. It ends
    with the process that started it. Raises EnvironmentProblem when it does not start.
    """

    def __init__(
        self, name: str, command: Sequence[str], log_path: Path, cwd: Path | None = None
    ) -> None:
        self._name = name
        self.log_path = log_path
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        try:
            self._read("start")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ask(self, command: str) -> dict[str, Any]:
        """Send one command and return its answer. Raises EnvironmentProblem when it failed."""
        assert self._process.stdin is not None
        # If it is gone, the missing answer says so.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        return self._read(command)

    def _read(self, command: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": self._last_words()}
        if "failed" in answer:
            raise EnvironmentProblem(
                f"{self._name}, {command}: {answer['failed']}", hint=f"see {self.log_path}"
            )
        return answer

    def _last_words(self) -> str:
        self._process.wait(STOP_TIMEOUT_S)
        lines = self.log_path.read_text(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return f"it ended: {said[-1]}" if said else "it ended without a word"

    def kill(self) -> None:
        """As kill -9; may be called twice."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()


class FakeBrokers(AskedProcess):
    """The brokers that host the partitions: they answer every request at once (fake/*.java).

    ``with FakeBrokers(5, first_port, connect, folder) as fakes: fakes.ask("drop 2")``.
    """

    def __init__(self, count: int, first_port: int, connect: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        libs = require_kafka_libs()
        classes = folder / "classes"
        compile_java(sorted((_HERE / "fake").glob("*.java")), classes)
        command = [
            str(find_java().executable),
            f"-Xmx{FAKES_HEAP_MB}m",
            "-XX:+UseSerialGC",
            "-cp",
            f"{classes}:{libs}/*",
            "fake.FakeBrokers",
            connect,
            str(FIRST_BROKER),
            str(count),
            str(first_port),
        ]
        super().__init__("fake brokers", command, folder / "fakes.log")


def free_ports(count: int) -> int:
    """The first of ``count`` ports on loopback that are free and follow one another."""
    for _ in range(PORT_TRIES):
        first = random.choice(FREE_PORTS[:-count])
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise EnvironmentProblem(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
