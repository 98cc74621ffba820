"""Processes of a cluster: brokers of Kafka, and klamm's controller.

Each process ends with klamm, even if klamm is killed (zk/supervisor.py). Mirrors what
bin/kafka-server-start.sh does.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.journal import JOURNAL_FILE
from klamm.world.kafka.jars import require_kafka_libs
from klamm.zk.embedded import SUPERVISOR
from klamm.zk.java import find_java
from klamm.zk.ports import HOST

_LOG_CONFIG_NAME: Final = "log4j.properties"
_LOG_CONFIG: Final = """\
log4j.rootLogger=INFO, server
log4j.logger.kafka.controller=TRACE, controller
log4j.additivity.kafka.controller=false
log4j.logger.state.change.logger=INFO, stateChange
log4j.additivity.state.change.logger=false
log4j.appender.server=org.apache.log4j.ConsoleAppender
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.controller=org.apache.log4j.FileAppender
log4j.appender.controller.File=${kafka.logs.dir}/controller.log
log4j.appender.controller.layout=org.apache.log4j.PatternLayout
log4j.appender.controller.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.stateChange=org.apache.log4j.FileAppender
log4j.appender.stateChange.File=${kafka.logs.dir}/state-change.log
log4j.appender.stateChange.layout=org.apache.log4j.PatternLayout
log4j.appender.stateChange.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
# Small, because several brokers run on one machine, and quick to start.
_JVM: Final = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_END_TIMEOUT_S: Final = 20.0
_ERROR: Final = re.compile(r"^(\[[^]]*\] (ERROR|FATAL)|[Ee]rror:) ")
_IS_NO_EXCEPTION: Final = re.compile(r"$|\[|\s|hint: ")


class SupervisedProcess:
    """A process that ends with klamm. ``folder`` gets its output, in ``out``.

    ``STARTED``: what it prints when it has started."""

    STARTED: ClassVar[str]

    def __init__(self, name: str, folder: Path, out: str) -> None:
        self.name = name
        self.folder = folder
        self.out = folder / out
        self.is_paused = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """True if the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_started(self) -> bool:
        """True if it has printed that it started. Raises EnvironmentProblem if it has ended."""
        if not self.is_running:
            raise EnvironmentProblem(
                f"{self.name} ended: {self.end_reason()}",
                hint=f"its log, {self.out}, is only kept with --data-dir",
            )
        return self.STARTED in self.log

    @property
    def log(self) -> str:
        """What the process has printed since it was started."""
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    def run(self, command: Sequence[str]) -> None:
        """Start the process."""
        self.end()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.out.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                # Ctrl-C in a terminal must only reach klamm, which ends the process itself.
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        assert self._process is not None, f"{self.name} was not started"
        self._process.send_signal(number)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP)."""
        self.send(signal.SIGUSR1)
        self.is_paused = True

    def resume(self) -> None:
        """Let the process continue (SIGCONT)."""
        self.send(signal.SIGUSR2)
        self.is_paused = False

    def begin_end(self) -> None:
        """Begin to kill the process (SIGKILL), without waiting for its end."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def end(self) -> None:
        """Kill the process, and wait until it has ended; idempotent."""
        process = self._process
        if process is None:
            return
        self.begin_end()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # The supervisor hangs: kill it with its child, which is in the same process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._process, self.is_paused = None, False

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the process has ended by itself; return False after the timeout."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end_reason(self) -> str:
        """Return the first error that the process has printed, or else the last line."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        for line, following in pairwise((*lines, "")):
            error, count = _ERROR.subn("", line)
            if count:
                # A broker logs the exception on the next line.
                return error if _IS_NO_EXCEPTION.match(following) else f"{error}: {following}"
        return lines[-1] if lines else "no output"


class BrokerProcess(SupervisedProcess):
    """A broker of Kafka 2.8.2. ``properties``: its configs, in Kafka's names.

    ``node`` is None because klamm cannot inspect the broker, as it can inspect its own.
    """

    STARTED = "started (kafka.server.KafkaServer)"
    node: None = None

    def __init__(self, broker_id: int, port: int, folder: Path, properties: Mapping[str, str]):
        super().__init__(f"Kafka broker {broker_id}", folder, "server.out")
        self.broker_id = broker_id
        self.port = port
        self.is_stopping = False
        self._properties = properties

    def start(self) -> None:
        """Start the broker without waiting for it.

        Raises EnvironmentProblem without Kafka's jars, and JavaNotFound."""
        import javaproperties

        self.is_stopping = False
        java, libs = find_java().executable, require_kafka_libs()
        self.folder.mkdir(parents=True, exist_ok=True)
        log_config = self.folder / _LOG_CONFIG_NAME
        log_config.write_text(_LOG_CONFIG)
        config = self.folder / "server.properties"
        config.write_text(javaproperties.dumps(self._properties, timestamp=False))
        self.run(
            [
                str(java),
                *_JVM,
                f"-Dkafka.logs.dir={self.folder}",
                f"-Dlog4j.configuration={log_config.as_uri()}",
                *("-cp", f"{libs}/*", "kafka.Kafka", str(config)),
            ]
        )

    def begin_stop(self) -> None:
        """Begin a controlled shutdown (SIGTERM), without waiting for its end."""
        if self.is_paused:
            self.resume()
        self.is_stopping = True
        self.send(signal.SIGTERM)


class ControllerProcess(SupervisedProcess):
    """`klamm controller run` with the broker id ``controller_id``. ``options``: further options.

    It has started when its controller is elected."""

    STARTED = "(this process) is the controller"

    def __init__(
        self, controller_id: int, zookeeper: str, port: int, folder: Path, options: Sequence[str]
    ) -> None:
        super().__init__("klamm's controller", folder, "controller.out")
        self.controller_id = controller_id
        self._command = controller_command(
            controller_id, zookeeper, f"{HOST}:{port}", folder, ["--take-over", *options]
        )

    @property
    def journal(self) -> Path:
        """The file of the controller's journal."""
        return self.folder / JOURNAL_FILE

    def start(self) -> None:
        """Start the controller without waiting for it."""
        self.run(self._command)


def controller_command(
    controller_id: int, zookeeper: str, listener: str, folder: Path, options: Sequence[str]
) -> list[str]:
    """Return the command `klamm controller run` with these and further ``options``."""
    return [
        *(sys.executable, "-m", "klamm", "controller", "run", "--yes"),
        *("--zookeeper", zookeeper, "--listener", listener),
        *("--id", str(controller_id), "--data-dir", str(folder)),
        *options,
    ]
