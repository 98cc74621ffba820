"""Brokers of Kafka 2.8.2, run from its jars, for tests of klamm's controller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.kafka.cpu import child_pid
from bench.kafka.locate import require_kafka_libs
from klamm.zk.java import find_java
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[1]
_SUPERVISOR: Final = ROOT / "zk" / "supervisor.py"
_LOG_CONFIG: Final = ROOT / "bench" / "kafka" / "log4j.properties"
_STARTED: Final = "started (kafka.server.KafkaServer)"
_START_S: Final = 90.0
_STOP_S: Final = 60.0
_JVM: Final = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
INTERNAL_TOPICS: Final = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "transaction.state.log.min.isr=1",
)
"""Configs that brokers and klamm's controller need alike."""
_SETTINGS: Final = (
    *INTERNAL_TOPICS,
    "auto.create.topics.enable=false",
    "auto.leader.rebalance.enable=false",
    "zookeeper.session.timeout.ms=3000",
    "replica.lag.time.max.ms=5000",
    "replica.high.watermark.checkpoint.interval.ms=500",
    # A throttled replica gets one batch before the throttle has an effect.
    "replica.fetch.max.bytes=4096",
    "log.cleaner.dedupe.buffer.size=2097152",
    "num.io.threads=3",
    "num.network.threads=2",
    "background.threads=2",
    "group.initial.rebalance.delay.ms=0",
    "controlled.shutdown.retry.backoff.ms=200",
)


class KafkaBroker:
    """One broker with two log directories. It ends with the process that started it."""

    def __init__(
        self, broker_id: int, port: int, connect: str, folder: Path, settings: Sequence[str] = ()
    ) -> None:
        self.broker_id = broker_id
        self.port = port
        self.log_dirs = [folder / "d0", folder / "d1"]
        self._folder = folder
        self._out = folder / "server.out"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        lines = (
            f"broker.id={broker_id}",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"zookeeper.connect={connect}",
            f"log.dirs={','.join(map(str, self.log_dirs))}",
            *_SETTINGS,
            *settings,
        )
        self._config = folder / "server.properties"
        self._config.write_text("\n".join(lines))

    @property
    def address(self) -> str:
        """HOST:PORT of the broker."""
        return f"127.0.0.1:{self.port}"

    def begin_start(self) -> None:
        """Start the broker without waiting for it."""
        command = [
            str(find_java().executable),
            *_JVM,
            f"-Dkafka.logs.dir={self._folder}",
            f"-Dlog4j.configuration={_LOG_CONFIG.as_uri()}",
            "-cp",
            f"{require_kafka_libs()}/*",
            "kafka.Kafka",
            str(self._config),
        ]
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self._folder,
                start_new_session=True,
            )

    def await_start(self) -> None:
        """Wait until the broker has started."""
        wait_until(self._has_started, _START_S, f"broker {self.broker_id} starts: {self._out}")

    def start(self) -> None:
        """Start the broker, and wait until it has started."""
        self.begin_start()
        self.await_start()

    def _has_started(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log()[-2000:]
        return _STARTED in self.log()

    def log(self) -> str:
        """Return what the broker has logged since its last start."""
        return self._out.read_text(errors="replace")

    def kill(self) -> None:
        """End the broker with SIGKILL. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_STOP_S)

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and wait until its controlled shutdown has ended."""
        process, self._process = self._process, None
        assert process is not None and process.stdin is not None
        pid = child_pid(process.pid)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        process.wait(_STOP_S)
        process.stdin.close()
