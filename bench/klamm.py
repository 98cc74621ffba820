"""``run_klamm``: klamm's figures, taken by the same steps and the same clock as Kafka's.

The topics are written, the states read back and the time taken by bench/kafka, from this process;
klamm runs in another one (klamm_process.py). It must not reach into that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.kafka.peer import Options, Peer
from bench.kafka.processes import AskedProcess
from bench.kafka.run import DEFAULT_STEPS, do_steps, folder_for, parse_steps
from bench.kafka.scenarios import FIRST_BROKER
from bench.kafka.steps import Result
from bench.raw_store import raw_store_rates
from klamm.world.journal.kafka_logs import CONTROLLER_LOG

_ROOT = Path(__file__).resolve().parents[1]


class KlammProcess(AskedProcess):
    """One klamm: the controller on the first broker, and all brokers, in one process.

    ``traced``: it counts the bytes of every object, which makes it several times slower.
    """

    broker_id = FIRST_BROKER

    def __init__(self, connect: str, brokers: int, folder: Path, traced: bool) -> None:
        folder.mkdir(parents=True)
        self.controller_log = folder / f"broker-{self.broker_id}" / CONTROLLER_LOG
        command = [
            sys.executable,
            "-m",
            "bench.klamm_process",
            connect,
            str(brokers),
            str(folder),
            *(["--traced"] if traced else []),
        ]
        super().__init__("klamm", command, folder / "klamm.out", _ROOT)


class KlammPeer(Peer):
    """klamm as ``klamm up`` runs it: the controller and its brokers share a process."""

    product = "klamm"

    def __init__(self, options: Options, *, traced: bool = False) -> None:
        super().__init__(options)
        self._traced = traced

    def _start(self, stack: ExitStack) -> None:
        self._process = stack.enter_context(
            KlammProcess(
                self.zookeeper.connect_string,
                self.options.brokers,
                self.options.work_dir / "klamm",
                self._traced,
            )
        )
        self.controller = self.brokers = self._process

    def applied(self) -> dict[str, Any]:
        """Every broker's metadata cache and replicas against the state znodes."""
        return self._process.ask("applied")


def run_klamm(
    partitions: int,
    partitions_per_topic: int,
    brokers: int,
    steps: Sequence[str] = DEFAULT_STEPS,
    *,
    work_dir: Path | None = None,
    raw_store: bool = False,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """As ``run_kafka``; with ``raw_store`` the store's own rates follow, on the same server."""
    plan = parse_steps(steps, partitions, partitions_per_topic, brokers)
    with folder_for(work_dir) as folder:
        options = Options(partitions, partitions_per_topic, brokers, folder)
        with KlammPeer(options) as peer:
            results = do_steps(peer, plan, on_result)
            if raw_store:
                peer.controller.kill()
                for result in raw_store_rates(peer):
                    results.append(result)
                    if on_result is not None:
                        on_result(result)
    return results
