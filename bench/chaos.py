"""``python -m bench.chaos``: random failures on a real `klamm up`, checked from outside.

`klamm up` runs in a separate process, as a user runs it. The harness acts only through its HTTP API
and signals to its ZooKeeper, and judges only from znodes (read with kazoo), HTTP answers and /proc.
It imports no module of klamm. docs/failures.md lists the checks.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.chaos_actions import LOG_DIRS, Chaos
from bench.chaos_checker import Checker
from bench.chaos_judge import Sweep
from bench.chaos_watch import Watch
from bench.live_cluster import (
    Api,
    Up,
    leftovers,
    output_of,
)
from bench.live_ledger import compare
from bench.live_load import ConsumerLoad, ProducerLoad, read_all
from bench.live_run import INTERRUPTED, Outcome, conclude, new_parser, sayer
from klamm.zk.waiting import wait_until

EXAMPLES = """
examples:
  python -m bench.chaos --minutes 30 --seed 7 --brokers 6
  python -m bench.chaos --minutes 5 --seed 1 --segments --json
  python -m bench.chaos --minutes 1 --plant isr     # the checker must end this with exit code 10

exit codes: 0 no violation, 10 safety violated, 11 liveness violated, 1 could not be run,
130 Ctrl-C
"""
LOAD_TOPICS = ("load-0", "load-1", "load-2")
PARTITIONS = 4
UP_TIMEOUT_S = 90.0
HEAL_TIMEOUT_S = 120.0
CONVERGE_TIMEOUT_S = 120.0
DECIDE_TIMEOUT_S = 90.0
READ_TIMEOUT_S = 180.0
PROGRESS_S = 10.0
JOURNAL_SEGMENT_BYTES = 512 << 10
LOG_BYTES_MAX = 4 * JOURNAL_SEGMENT_BYTES
"""Size limit of the journal and of each Kafka-like log: the current file, one that is being
compressed, and the compressed ones that are kept, with room for one more."""
LOGS_OF_A_BROKER = 2
CONTROLLER_MARGIN_S = 5.0


@dataclass
class ChaosOutcome(Outcome):
    """Result of a run. ``figures`` are for the table, in their order."""

    figures: dict[str, Any] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge and print the result."""
    options = _parse(arguments)
    say = sayer(as_json=options.json)
    with contextlib.ExitStack() as stack:
        data_dir = options.data_dir
        if data_dir is None:
            data_dir = Path(tempfile.mkdtemp(prefix="klamm-chaos-"))
        outcome = ChaosOutcome()
        try:
            run = stack.enter_context(_opened(options, data_dir, say))
            run.go(outcome)
        except KeyboardInterrupt:
            say("interrupted: ending the cluster")
            stack.close()
            return INTERRUPTED
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        stack.close()
        run.judge_end(outcome)
    settings = {name: getattr(options, name) for name in ("seed", "minutes", "brokers", "segments")}
    return conclude(outcome, outcome.figures, settings, options, data_dir, say)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser("chaos", __doc__, EXAMPLES)
    parser.add_argument("--minutes", type=float, default=5.0, help="duration (%(default)s)")
    parser.add_argument("--brokers", type=int, default=6, help="at least 4 (%(default)s)")
    parser.add_argument("--rate", type=float, default=40.0, help="records/s a topic (%(default)s)")
    parser.add_argument("--session-timeout-ms", type=int, default=4_000, help="(%(default)s)")
    parser.add_argument("--zookeeper", help="HOST:PORT/CHROOT of an existing server")
    parser.add_argument(
        "--plant",
        choices=sorted(PLANTS),
        help="write a fault into ZooKeeper halfway that the checker must find",
    )
    options = parser.parse_args(arguments)
    if options.brokers < 4:
        parser.error("--brokers: at least 4, so that three replicas can move")
    return options


class Run:
    """One cluster under chaos, from its first answer to its end."""

    def __init__(
        self, options: argparse.Namespace, up: Up, api: Api, say: Callable[[str], None]
    ) -> None:
        self.options, self.up, self.api, self._say = options, up, api, say
        status = api.get("/status").body
        self.connect: str = status["zookeeper"]["connect"]
        self.checker = Checker(self.connect, lambda line: say(f"VIOLATION {line}"))
        self.watch = Watch(up)
        self._session_s = options.session_timeout_ms / 1000
        self._producers: list[ProducerLoad] = []
        self._consumers: dict[str, ConsumerLoad] = {}
        self.chaos: Chaos | None = None

    def go(self, outcome: ChaosOutcome) -> None:
        """Run everything up to the cluster's end."""
        self.checker.start()
        self._create_load_topics()
        self.watch.start()
        rate = self.options.rate
        self._producers = [ProducerLoad(self.api, topic, rate) for topic in LOAD_TOPICS]
        self._consumers = {topic: ConsumerLoad(self.api, topic) for topic in LOAD_TOPICS}
        self.chaos = Chaos(
            self.up,
            self.checker,
            self.options.seed,
            self.options.brokers,
            list(LOAD_TOPICS),
            self._session_s,
            self._say,
        )
        self.chaos.start()
        self._wait()
        self.chaos.close()
        if self.up.process.poll() is None:
            self._say("no more failures: healing everything")
            outcome.liveness += self.chaos.heal_all(HEAL_TIMEOUT_S)
            self._judge_convergence(outcome)
            self._judge_records(outcome)
        else:
            outcome.liveness.append("klamm up ended by itself during the chaos")
        self._judge_what_was_watched(outcome)
        self._fill_figures(outcome)

    def _create_load_topics(self) -> None:
        configs = {"min.insync.replicas": "2"}
        shape = {"num_partitions": PARTITIONS, "replication_factor": 3, "configs": configs}
        topics = [{"name": name, **shape} for name in LOAD_TOPICS]
        answer = self.api.post("/topics", {"topics": topics, "timeout_ms": 30_000})
        if not answer.is_ok or any(one["code"] != "NONE" for one in answer.body["topics"]):
            raise RuntimeError(f"the topics could not be created: {answer.text!r}")

    def _wait(self) -> None:
        """Wait for the time or the cluster's end; print progress every ten seconds."""
        begun_s = time.monotonic()
        ends_s = begun_s + self.options.minutes * 60
        plant_s = begun_s + self.options.minutes * 30 if self.options.plant else None
        told_s = begun_s
        while (now_s := time.monotonic()) < ends_s and self.up.process.poll() is None:
            if plant_s is not None and now_s > plant_s:
                plant_s = None
                PLANTS[self.options.plant](self)
                self._say(f"planted: {self.options.plant}")
            if now_s - told_s >= PROGRESS_S:
                told_s = now_s
                self._say(self._progress(ends_s - now_s))
            time.sleep(0.1)

    def _progress(self, left_s: float) -> str:
        judge, watch = self.checker.judge, self.watch
        assert self.chaos is not None
        usage = watch.usage[-1][1] if watch.usage else None
        taken = ""
        if usage is not None:
            taken = f", {usage.rss_mb:.0f} MB, {usage.threads} threads, {usage.descriptors} fds"
        read = sum(one.consumed.count for one in self._consumers.values())
        return (
            f"== {left_s:.0f} s left, {self.chaos.done.total()} actions, "
            f"{judge.samples:,} samples, {len(judge.violations)} violations, "
            f"{sum(one.acknowledged for one in self._producers):,} acknowledged, {read:,} read, "
            f"controller {watch.controller}{taken}"
        )

    # -- judging

    def _judge_convergence(self, outcome: ChaosOutcome) -> None:
        left: list[str] = []
        begun_s = told_s = time.monotonic()

        def is_whole() -> bool:
            nonlocal left, told_s
            left = self._what_is_left()
            if left and time.monotonic() - told_s >= PROGRESS_S:
                told_s = time.monotonic()
                self._say(f"== {len(left)} things are left to do: {', '.join(left[:3])}")
            return not left

        if not wait_until(is_whole, CONVERGE_TIMEOUT_S):
            outcome.liveness += [f"not within {CONVERGE_TIMEOUT_S:g} s: {one}" for one in left[:20]]
        outcome.figures["converged in s"] = round(time.monotonic() - begun_s, 1)

    def _what_is_left(self) -> list[str]:
        sweep = self.checker.sweep()
        left = self.checker.what_is_left(sweep, range(self.options.brokers))
        if left or sweep is None:
            return left
        return what_brokers_know_otherwise(self.api, sweep)

    def _judge_records(self, outcome: ChaosOutcome) -> None:
        for load in self._producers:
            load.end()
        for load in self._producers:
            if not load.wait(DECIDE_TIMEOUT_S):
                outcome.liveness.append(f"{load.topic}: records stay undecided")
        acknowledged = 0
        for load in self._producers:
            count = load.acknowledged
            acknowledged += count
            live = self._consumers[load.topic]
            _await_all_read(live, count)
            live.end()
            again = read_all(self.api, load.topic, count, READ_TIMEOUT_S)
            outcome.safety += compare(load.topic, load.produced, again)
            live_faults = compare(load.topic, load.produced, live.consumed)
            outcome.safety += [f"read meanwhile: {fault}" for fault in live_faults]
        read = sum(one.consumed.count for one in self._consumers.values())
        producers = [one for load in self._producers for one in load.produced]
        outcome.figures["records acknowledged"] = acknowledged
        outcome.figures["records read"] = read
        outcome.figures["records in doubt"] = sum(p.in_doubt + p.undecided for p in producers)
        outcome.figures["records failed"] = sum(p.failed for p in producers)

    def _judge_what_was_watched(self, outcome: ChaosOutcome) -> None:
        assert self.chaos is not None
        self.watch.close()
        self.checker.close()
        outcome.safety += self.checker.judge.violations
        if self.checker.failure is not None:
            outcome.safety.append(self.checker.failure)
        outcome.liveness += self.watch.overlap_faults(
            self.chaos.open_disturbances(), self._session_s + CONTROLLER_MARGIN_S
        )
        outcome.liveness += [f"an answer of 500: {one}" for one in self.api.faults[:20]]
        outcome.liveness += [f"an answer of 500: {one}" for one in self.watch.faults[:20]]
        outcome.liveness += [f"inside a broker: {one}" for one in self.watch.broker_errors[:20]]
        for name, largest, bound in self._log_sizes():
            if largest > bound:
                outcome.liveness.append(f"{name} takes {largest:.1f} of {bound:.1f} MB")
        for name, growth in self.watch.growths().items():
            if not growth.is_flat:
                outcome.liveness.append(f"{name} grows: {growth.rise:.1f} of {growth.bound:.1f}")

    def _fill_figures(self, outcome: ChaosOutcome) -> None:
        assert self.chaos is not None
        judge, watch, figures = self.checker.judge, self.watch, outcome.figures
        figures["actions"] = self.chaos.done.total()
        figures["actions by kind"] = dict(sorted(self.chaos.done.items()))
        figures["refused by kind"] = dict(sorted(self.chaos.refused.items()))
        figures["sweeps"] = judge.sweeps
        figures["samples of state znodes"] = judge.samples
        figures["sweeps without an answer"] = self.checker.blind_sweeps
        figures["controllers elected"] = len(watch.controllers)
        figures["overlaps seen, all matched with a pause"] = len(watch.overlaps)
        figures["slowest /status in s"] = round(watch.slowest_status_s, 2)
        figures["HTTP answers"] = self.api.answers
        figures["HTTP requests without an answer"] = self.api.unanswered
        for name, growth in watch.growths().items():
            figures[f"{name} from, to"] = [round(growth.first, 1), round(growth.last, 1)]
            figures[f"{name} rise (bound)"] = f"{growth.rise:.1f} ({growth.bound:.1f})"
        for name, largest, bound in self._log_sizes():
            figures[f"{name} MB, largest (bound)"] = f"{largest:.1f} ({bound:.1f})"
        zookeeper_mb = [usage.zookeeper_rss_mb for _, usage in watch.usage]
        figures["ZooKeeper MB, largest"] = round(max(zookeeper_mb, default=0.0))

    def _log_sizes(self) -> list[tuple[str, float, float]]:
        """Return name, largest size and bound of each rotated log, in MB."""
        bound = LOG_BYTES_MAX / 1e6
        usage = [usage for _, usage in self.watch.usage]
        return [
            ("journal", max((one.journal_mb for one in usage), default=0.0), bound),
            (
                "Kafka-like logs",
                max((one.logs_mb for one in usage), default=0.0),
                bound * self.options.brokers * LOGS_OF_A_BROKER,
            ),
        ]

    def judge_end(self, outcome: ChaosOutcome) -> None:
        """Report leftovers after an orderly end of the cluster."""
        code = self.up.process.returncode
        if code != INTERRUPTED:
            outcome.liveness.append(f"klamm up ended with {code}: {self.up.tail()}")
        ports = [self.api.port]
        if not wait_until(lambda: not leftovers(self.up.data_dir, ports), 10.0):
            outcome.safety += [f"left: {one}" for one in leftovers(self.up.data_dir, ports)]

    def close(self) -> None:
        """End every thread."""
        if self.chaos is not None:
            self.chaos.close()
        for producer in self._producers:
            producer.wait(0.0)
        for consumer in self._consumers.values():
            consumer.end()
        self.watch.close()
        self.checker.close()


@contextlib.contextmanager
def _opened(
    options: argparse.Namespace, data_dir: Path, say: Callable[[str], None]
) -> Iterator[Run]:
    output = output_of(data_dir)
    with Up(data_dir, _up_arguments(options), output) as up:
        say(f"klamm up is process {up.pid}, its output is {output}")
        run = Run(options, up, up.wait_until_serving(UP_TIMEOUT_S), say)
        say(f"it serves at {up.url()}, ZooKeeper is {run.connect}")
        try:
            yield run
        finally:
            run.close()


def _up_arguments(options: argparse.Namespace) -> list[str]:
    words = ["--brokers", str(options.brokers), "--port", "0"]
    words += ["--session-timeout-ms", str(options.session_timeout_ms)]
    words += ["--journal-segment-bytes", str(JOURNAL_SEGMENT_BYTES)]
    words += ["--journal-retention-bytes", str(JOURNAL_SEGMENT_BYTES)]
    words += ["--config", f"log.dirs={','.join(LOG_DIRS)}"]
    if options.segments:
        words.append("--segments")
    if options.cluster_seed is not None:
        words += ["--seed", str(options.cluster_seed)]
    if options.zookeeper is not None:
        words += ["--zookeeper", options.zookeeper]
    return [*words, *options.up_argument]


def what_brokers_know_otherwise(api: Api, sweep: Sweep) -> list[str]:
    """Return differences between a broker's metadata and ZooKeeper."""
    wrong: list[str] = []
    for broker in sweep.brokers:
        answer = api.get(f"/brokers/{broker}/metadata")
        if not answer.is_ok:
            wrong.append(f"broker {broker} does not return its metadata: {answer.message}")
            continue
        known = {
            (one["topic"], one["partition"]): (one["leader"], one["leader_epoch"], set(one["isr"]))
            for one in answer.body["partitions"]
        }
        kept = {
            partition: (state.leader, state.leader_epoch, set(state.isr))
            for partition, state in sweep.states.items()
        }
        for partition in sorted(known.keys() | kept.keys()):
            if known.get(partition) != kept.get(partition):
                wrong.append(
                    f"broker {broker} knows {partition} as {known.get(partition)}, "
                    f"ZooKeeper has {kept.get(partition)}"
                )
        if sorted(answer.body["live_brokers"]) != sorted(sweep.brokers):
            wrong.append(f"broker {broker} knows brokers {answer.body['live_brokers']}")
    return wrong


def _await_all_read(consumer: ConsumerLoad, count: int) -> None:
    wait_until(lambda: consumer.is_at_the_end and consumer.consumed.count >= count, READ_TIMEOUT_S)


# Faults for the checker


def _first_state() -> str:
    return f"/brokers/topics/{LOAD_TOPICS[0]}/partitions/0/state"


def _plant_isr(run: Run) -> None:
    run.checker.plant(_first_state(), lambda state: {**state, "isr": [*state["isr"], 99]})


def _plant_leader(run: Run) -> None:
    run.checker.plant(_first_state(), lambda state: {**state, "leader": 98})


def _plant_leader_epoch(run: Run) -> None:
    run.checker.plant(
        _first_state(), lambda state: {**state, "leader_epoch": state["leader_epoch"] - 1}
    )


def _plant_controller_epoch(run: Run) -> None:
    run.checker.plant(
        _first_state(), lambda state: {**state, "controller_epoch": state["controller_epoch"] - 1}
    )


PLANTS: dict[str, Callable[[Run], None]] = {
    "isr": _plant_isr,
    "leader": _plant_leader,
    "leader-epoch": _plant_leader_epoch,
    "controller-epoch": _plant_controller_epoch,
}


if __name__ == "__main__":
    sys.exit(main())
