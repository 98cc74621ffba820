"""``python -m bench.kill9``: repeated kill -9 of a `klamm up` under load.

Each cycle starts `klamm up` on the same data directory, checks that all acknowledged data is there,
adds load, and kills it at a random moment: while it starts, serves, rotates its journal or ends.
After each kill no process, lock or port may be left. docs/failures.md lists the
checks.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.chaos_checker import Checker
from bench.chaos_judge import Judge
from bench.kill9_model import Model, Operations
from bench.live_cluster import (
    Api,
    Up,
    free_port,
    leftovers,
    output_of,
)
from bench.live_ledger import Produced, compare
from bench.live_load import ProducerLoad, read_all
from bench.live_run import INTERRUPTED, Outcome, conclude, new_parser, sayer
from klamm.zk.waiting import wait_until

EXAMPLES = """
examples:
  python -m bench.kill9 --kills 200 --seed 7
  python -m bench.kill9 --kills 200 --seed 7 --segments --cluster-seed 7 --json

exit codes: 0 no violation, 10 safety violated (data lost or leftovers), 11 a restart did not
serve, 1 could not be run, 130 Ctrl-C
"""
LOAD_TOPICS = ("load-0", "load-1")
PARTITIONS = 3
RATE = 150.0
GONE_TIMEOUT_S = 5.0
SERVE_TIMEOUT_S = 90.0
CATCH_UP_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 120.0
ROTATION_TIMEOUT_S = 3.0
JOURNAL_SEGMENT_BYTES = 32_768
"""So small that the journal is rotated several times in each cycle."""
READ_EVERY = 10
"""In how many cycles everything is read once; in the others only the logs' ends are compared."""
MOMENTS = {"serving": 55, "startup": 20, "shutdown": 15, "rotation": 10}


@dataclass
class KillsOutcome(Outcome):
    """Results of all cycles."""

    kills: Counter[str] = field(default_factory=Counter)
    serve_s: list[float] = field(default_factory=list)
    first_acknowledged_s: list[float] = field(default_factory=list)
    gone_s: list[float] = field(default_factory=list)
    rows: int = 0
    acknowledged: int = 0


class Kill9:
    """All cycles on one data directory. ``model`` and ``produced``: the acknowledged state."""

    def __init__(
        self, options: argparse.Namespace, data_dir: Path, say: Callable[[str], None]
    ) -> None:
        self.outcome = KillsOutcome()
        self.judge = Judge()
        self.options, self._say = options, say
        self._data_dir = data_dir
        self._output = output_of(data_dir)
        self._random = random.Random(options.seed)
        self._port = free_port()
        self._connect = ""
        self.model = Model()
        self.produced: dict[str, list[Produced]] = {topic: [] for topic in LOAD_TOPICS}
        self._cycle = 0
        self._place = 0

    def go(self) -> None:
        """Run every cycle, and a last one without a kill."""
        for number in range(1, self.options.kills + 1):
            self._cycle = number
            moment = self._random.choices(list(MOMENTS), list(MOMENTS.values()))[0]
            self._kill_at(moment)
            self.outcome.kills[moment] += 1
            self._say_progress(moment)
            if self.outcome.exit_code and self.options.stop:
                return
        self._cycle += 1
        with self._up() as up:
            api = self._served(up)
            if api is not None:
                self._verify(up, api, reads=True)
                self._converge(up, api)
            code = up.end()
            if code != INTERRUPTED:
                self.outcome.liveness.append(f"the last klamm up ended with {code}: {up.tail()}")
        self._check_nothing_is_left()

    # -- one cycle

    def _kill_at(self, moment: str) -> None:
        with self._up() as up:
            if moment == "startup":
                usual_s = statistics.median(self.outcome.serve_s or [4.0])
                time.sleep(self._random.uniform(0.0, 1.1 * usual_s))
            else:
                api = self._served(up)
                if api is not None:
                    self._verify(up, api, reads=self._cycle % READ_EVERY == 0)
                    self._under_load(up, api, moment)
            up.kill()
        self._check_nothing_is_left()

    def _up(self) -> Up:
        options = self.options
        words = ["--brokers", str(options.brokers), "--port", str(self._port)]
        words += ["--session-timeout-ms", str(options.session_timeout_ms)]
        words += ["--journal-segment-bytes", str(JOURNAL_SEGMENT_BYTES)]
        if options.segments:
            words.append("--segments")
        if options.cluster_seed is not None:
            words += ["--seed", str(options.cluster_seed)]
        return Up(self._data_dir, [*words, *options.up_argument], self._output)

    def _served(self, up: Up) -> Api | None:
        """Wait until it serves; None if it does not, which is a violation."""
        try:
            api = up.wait_until_serving(SERVE_TIMEOUT_S)
        except RuntimeError as error:
            self.outcome.liveness.append(f"cycle {self._cycle}: {error}")
            return None
        self.outcome.serve_s.append(time.monotonic() - up.started_s)
        self._connect = api.get("/status").body["zookeeper"]["connect"]
        return api

    def _under_load(self, up: Up, api: Api, moment: str) -> None:
        """Add load until the drawn moment, then kill it."""
        with self._checked(up, api):
            loads = [ProducerLoad(api, topic, RATE, max_undecided=20) for topic in LOAD_TOPICS]
            operations = Operations(
                api, self.model, self._random.random(), LOAD_TOPICS, self.options.brokers
            )
            begun_s = time.monotonic()
            if wait_until(lambda: all(one.acknowledged for one in loads), CATCH_UP_TIMEOUT_S):
                self.outcome.first_acknowledged_s.append(time.monotonic() - begun_s)
            else:
                self.outcome.liveness.append(f"cycle {self._cycle}: nothing is acknowledged")
            self._await(up, moment)
            up.kill()
            operations.close()
            for load in loads:
                load.on_kill()
                self.outcome.acknowledged += load.acknowledged
                self.produced[load.topic] += load.produced
        self._note_faults(api)

    def _await(self, up: Up, moment: str) -> None:
        if moment == "rotation":
            before = self._journal_files()
            wait_until(lambda: self._journal_files() != before, ROTATION_TIMEOUT_S)
            return
        time.sleep(self._random.uniform(0.1, 1.5))
        if moment == "shutdown":
            up.process.send_signal(self._random.choice((signal.SIGINT, signal.SIGTERM)))
            time.sleep(self._random.uniform(0.0, 0.5))

    def _journal_files(self) -> list[str]:
        return sorted(path.name for path in self._data_dir.glob("journal*"))

    @contextlib.contextmanager
    def _checked(self, up: Up, api: Api) -> Iterator[Checker]:
        """Return a checker on this cycle's ZooKeeper that continues the former ones."""
        checker = Checker(self._connect, judge=self.judge)
        checker.start()
        try:
            checker.sweep()
            yield checker
        finally:
            checker.close()

    # -- what must be there after a restart

    def _verify(self, up: Up, api: Api, *, reads: bool) -> None:
        if self._cycle_made_topics(api):
            return
        where = f"cycle {self._cycle}: "
        self.outcome.safety += [where + one for one in self.model.what_is_missing(api)]
        self._verify_journal(api)
        if not self.options.segments:
            for produced in self.produced.values():
                produced.clear()  # such records live in memory alone, as the docs say
        elif reads:
            for topic, produced in self.produced.items():
                count = sum(one.acknowledged_count for one in produced)
                consumed = read_all(api, topic, count, READ_TIMEOUT_S)
                self.outcome.safety += [where + one for one in compare(topic, produced, consumed)]
        else:
            self.outcome.safety += [where + one for one in self._ends_that_are_missing(api)]
        self._note_faults(api)

    def _cycle_made_topics(self, api: Api) -> bool:
        """Create the load topics if an earlier kill came before their creation."""
        listed = api.get("/topics")
        if not listed.is_ok or set(LOAD_TOPICS) <= set(listed.body["topics"]):
            return False
        if any(self.produced.values()):
            return False  # they were there: the model says that they are missing
        topics = [
            {"name": name, "num_partitions": PARTITIONS, "replication_factor": 3}
            for name in LOAD_TOPICS
            if name not in listed.body["topics"]
        ]
        answer = api.post("/topics", {"topics": topics, "timeout_ms": 20_000})
        if answer.is_ok and not any(one["code"] != "NONE" for one in answer.body["topics"]):
            for name in LOAD_TOPICS:
                self.model.topics[name] = PARTITIONS
        return True

    def _ends_that_are_missing(self, api: Api) -> list[str]:
        """Return logs that end before acknowledged records."""
        wanted: dict[tuple[str, int], int] = {}
        for topic, produced in self.produced.items():
            for one in (stretch for producer in produced for stretch in producer.acknowledged):
                key = (topic, one.partition)
                wanted[key] = max(wanted.get(key, 0), one.end)
        missing: list[str] = []

        def are_there() -> bool:
            nonlocal missing
            ends = {
                (topic, int(number)): end
                for topic in LOAD_TOPICS
                for number, end in self._log_ends(api, topic).items()
            }
            missing = [
                f"{topic}-{number} ends at {ends.get((topic, number))}, {end} was acknowledged"
                for (topic, number), end in wanted.items()
                if ends.get((topic, number), -1) < end
            ]
            return not missing

        return [] if wait_until(are_there, CATCH_UP_TIMEOUT_S) else missing

    def _log_ends(self, api: Api, topic: str) -> dict[str, int]:
        opened = api.post("/consumers", {"topic": topic, "start": "end"})
        if not opened.is_ok:
            return {}
        path = f"/consumers/{opened.body['id']}"
        api.post(f"{path}/poll", {"wait_ms": 200})
        closed = api.post(f"{path}/close")
        ends: dict[str, int] = closed.body["positions"] if closed.is_ok else {}
        return ends

    def _verify_journal(self, api: Api) -> None:
        """Read the journal from the last cycle's position and check it."""
        where = f"cycle {self._cycle}: /journal?after={self._place}"
        kinds: set[str] = set()
        while True:
            answer = api.get(f"/journal?after={self._place}")
            if not answer.is_ok:
                self.outcome.safety.append(f"{where}: {answer.status} {answer.message}")
                return
            for row in answer.body["rows"]:
                self.outcome.rows += 1
                if not isinstance(row, dict) or not {"v", "run_id", "kind", "t_ms"} <= row.keys():
                    self.outcome.safety.append(f"{where}: a torn row: {row!r:.200}")
                else:
                    kinds.add(row["kind"])
            self.outcome.safety += [f"{where}: {one}" for one in answer.body.get("damaged", ())]
            self._place = answer.body["next"]
            if not answer.body["rows"]:
                break
        if "run_start" not in kinds:
            self.outcome.safety.append(f"{where}: this run's start is not in it")

    def _converge(self, up: Up, api: Api) -> None:
        left: list[str] = []
        with self._checked(up, api) as checker:

            def is_whole() -> bool:
                nonlocal left
                left = checker.what_is_left(checker.sweep(), range(self.options.brokers))
                return not left

            if not wait_until(is_whole, CATCH_UP_TIMEOUT_S):
                self.outcome.liveness += left[:10]
        self.outcome.safety += self.judge.violations

    # -- what must be gone after a kill

    def _check_nothing_is_left(self) -> None:
        begun_s = time.monotonic()
        left: list[str] = []

        def is_gone() -> bool:
            nonlocal left
            left = leftovers(self._data_dir, [self._port, *_ports_of(self._connect)])
            return not left

        if wait_until(is_gone, GONE_TIMEOUT_S):
            self.outcome.gone_s.append(time.monotonic() - begun_s)
        else:
            self.outcome.safety += [f"cycle {self._cycle}: left: {one}" for one in left]

    def _note_faults(self, api: Api) -> None:
        self.outcome.safety += [f"cycle {self._cycle}: {fault}" for fault in api.faults[:5]]
        api.faults.clear()

    # -- showing

    def _say_progress(self, moment: str) -> None:
        serve = f"{self.outcome.serve_s[-1]:.1f} s" if self.outcome.serve_s else "-"
        self._say(
            f"{self._cycle} of {self.options.kills}: killed at {moment}; last start took {serve}, "
            f"{self.outcome.acknowledged:,} acknowledged, {len(self.outcome.safety)} safety, "
            f"{len(self.outcome.liveness)} liveness"
        )

    def figures(self) -> dict[str, Any]:
        """The table."""
        outcome = self.outcome
        return {
            "kills": outcome.kills.total(),
            "kills by moment": dict(sorted(outcome.kills.items())),
            "restarts that served": len(outcome.serve_s),
            "start until it serves, median and longest in s": _median_and_longest(outcome.serve_s),
            "first record acknowledged after, in s": _median_and_longest(
                outcome.first_acknowledged_s
            ),
            "all gone after a kill, in s": _median_and_longest(outcome.gone_s),
            "records acknowledged": outcome.acknowledged,
            "topics and configs compared": self.model.compared,
            "journal rows read": outcome.rows,
            "samples of state znodes": self.judge.samples,
        }


def _ports_of(connect: str) -> list[int]:
    """The ports of ``HOST:PORT,HOST:PORT/CHROOT``; none of an empty one."""
    hosts = connect.partition("/")[0].split(",")
    return [int(host.rpartition(":")[2]) for host in hosts if host]


def _median_and_longest(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    return [round(statistics.median(values), 2), round(max(values), 2)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge and print the result."""
    options = parse(arguments)
    say = sayer(as_json=options.json)
    data_dir = options.data_dir or Path(tempfile.mkdtemp(prefix="klamm-kill9-"))
    run = Kill9(options, data_dir, say)
    try:
        run.go()
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    settings = {name: getattr(options, name) for name in ("seed", "segments", "cluster_seed")}
    return conclude(run.outcome, run.figures(), settings, options, data_dir, say)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = new_parser("kill9", __doc__, EXAMPLES)
    parser.add_argument("--kills", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--brokers", type=int, default=3, help="at least 3 (%(default)s)")
    parser.add_argument("--session-timeout-ms", type=int, default=1_000, help="(%(default)s)")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    options = parser.parse_args(arguments)
    if options.brokers < 3:
        parser.error("--brokers: at least 3, for topics of three replicas")
    return options


if __name__ == "__main__":
    sys.exit(main())
