"""Brokers of Kafka 2.8.2, run from its jars, for tests of klamm's controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from klamm.world.kafka.processes import BrokerProcess
from tests.waiting import wait_until

_START_S: Final = 90.0
_STOP_S: Final = 60.0
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


class KafkaBroker(BrokerProcess):
    """A broker with two log directories. It ends with the process that started it."""

    def __init__(
        self, broker_id: int, port: int, connect: str, folder: Path, settings: Sequence[str] = ()
    ) -> None:
        self.log_dirs = [folder / "d0", folder / "d1"]
        lines = (
            f"broker.id={broker_id}",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"zookeeper.connect={connect}",
            f"log.dirs={','.join(map(str, self.log_dirs))}",
            *_SETTINGS,
            *settings,
        )
        super().__init__(broker_id, port, folder, dict(line.split("=", 1) for line in lines))

    @property
    def address(self) -> str:
        """HOST:PORT of the broker."""
        return f"127.0.0.1:{self.port}"

    def await_start(self) -> None:
        """Wait until the broker has started."""
        wait_until(lambda: self.has_started, _START_S, f"broker {self.broker_id} starts")

    def restart(self) -> None:
        """Start the broker, and wait until it has started."""
        self.start()
        self.await_start()

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and wait until its controlled shutdown has ended."""
        self.begin_stop()
        assert self.await_end(_STOP_S)
        self.end()
