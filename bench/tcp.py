"""``python -m bench.tcp``: the controllers of klamm and Kafka, over TCP to the same fake brokers.

`klamm controller run` and a Kafka 2.8.2 broker take turns as the controller. They have the same
ZooKeeper, topics, jobs and clock; see bench/README.md. Exit code 1 if a result is wrong, or if
klamm is not fast enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import JOBS, KAFKA, KLAMM, Job, Layout, Result, cpu_seconds, seconds
from bench.kafka.peer import KafkaPeer, Options
from bench.kafka.processes import SupervisedController
from bench.kafka.run import do_steps, folder_for, parse_steps, problems
from bench.kafka.table import HEADER, row
from bench.machine import machine
from bench.parts import PARTS, steps_for
from klamm.cluster.errors import KlammError
from klamm.world.journal.kafka_logs import CONTROLLER_LOG
from klamm.world.kafka.jars import require_kafka_libs
from klamm.world.kafka.processes import ControllerProcess, controller_command

PARTITIONS = (10_000, 100_000)
BROKERS = (5, 200)
PER_TOPIC = 100
MIN_RATIO = 1.5
COMPARED = (*JOBS, Job("isr_rejoin", "wall_s", MIN_RATIO))
TITLES = (
    "| brokers | partitions | job | klamm s | Kafka s | ratio | klamm CPU s | Kafka CPU s | ratio |"
)

_CLUSTER_ID = "/cluster/id"


class KlammOverTcp(KafkaPeer):
    """klamm's controller over TCP to the fake brokers."""

    product = KLAMM

    def _start_process(self, broker_id: int, port: int, folder: Path) -> SupervisedController:
        folder.mkdir(parents=True)
        if not self.client.kazoo.exists(_CLUSTER_ID):  # A broker of Kafka's would create it.
            self.client.kazoo.create(_CLUSTER_ID, b'{"version":"1","id":"bench"}', makepath=True)
        options = ["--config", "auto.leader.rebalance.enable=false"]
        connect = self.zookeeper.connect_string
        listener = f"127.0.0.1:{port}"
        command = controller_command(broker_id, connect, listener, folder, options)
        log = folder / "logs" / f"broker-{broker_id}" / CONTROLLER_LOG
        return SupervisedController(broker_id, folder, command, ControllerProcess.STARTED, log)


def bench(
    peer: type[KafkaPeer], layout: Layout, brokers: int, parts: Sequence[str]
) -> list[Result]:
    """Do the jobs of ``parts`` with one product, and print the results."""
    steps = steps_for(layout, KAFKA, parts)
    plan = parse_steps(steps, layout.partitions, layout.partitions_per_topic, brokers)
    with folder_for(None) as folder:
        options = Options(layout.partitions, layout.partitions_per_topic, brokers, folder)
        with peer(options) as started:
            return do_steps(started, plan, lambda result: print(row(result), flush=True))


def table(results: Sequence[Result], layout: Layout, brokers: int) -> list[tuple[str, float]]:
    """Rows of the Markdown table, with klamm's speed as a multiple of Kafka's."""
    rows = []
    for job in COMPARED:
        klamm, kafka = (_figures(results, product, layout, job) for product in (KLAMM, KAFKA))
        if not klamm:
            continue
        ratios = [theirs / ours for ours, theirs in zip(klamm, kafka, strict=True)]
        cells = (
            *(brokers, f"{layout.partitions:,}", job.step),
            *(f"{klamm[0]:.2f}", f"{kafka[0]:.2f}", f"{ratios[0]:.1f}"),
            *(f"{klamm[1]:.2f}", f"{kafka[1]:.2f}", f"{ratios[1]:.1f}"),
        )
        rows.append((f"| {' | '.join(map(str, cells))} |", ratios[0]))
    return rows


def _figures(results: Sequence[Result], product: str, layout: Layout, job: Job) -> list[float]:
    found = [figure(results, product, layout, job) for figure in (seconds, cpu_seconds)]
    return [value for value in found if value is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.tcp", description=__doc__)
    numbers: dict[str, Any] = {"type": int, "nargs": "+", "metavar": "N"}
    parser.add_argument("--partitions", **numbers, default=PARTITIONS, help="default: %(default)s")
    parser.add_argument("--brokers", **numbers, default=BROKERS, help="default: %(default)s")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="this part (and what it needs); repeatable"
    )
    options = parser.parse_args(arguments)
    rows: list[tuple[str, float]] = []
    wrong: list[str] = []
    print(f"on {machine()}\n\n{HEADER}", flush=True)
    try:
        require_kafka_libs()
        for partitions in options.partitions:
            layout = Layout(partitions, PER_TOPIC)
            for brokers in options.brokers:
                results: list[Result] = []
                for number, peer in enumerate((KlammOverTcp, KafkaPeer)):
                    done = bench(peer, layout, brokers, options.only or PARTS)
                    results += [{**result, "run": number} for result in done]
                wrong += [
                    f"{result['product']}, {result['step']}: {problem}"
                    for result in results
                    for problem in problems(result)
                ]
                rows += table(results, layout, brokers)
    except KlammError as error:
        print(f"error: {error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    print("\n".join(("", TITLES, "|---" * 9 + "|", *(line for line, _ in rows))))
    wrong += [f"less than {MIN_RATIO} times: {line}" for line, ratio in rows if ratio < MIN_RATIO]
    for line in wrong:
        print(f"FAILED: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
