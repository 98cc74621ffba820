"""Clusters as context managers: a simulated one, and one on a real ZooKeeper.

Each call is compiled and executed like a step of a drill (lab/language/): methods and drills take
the same arguments and mean the same. A simulated cluster runs only during calls.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self, TypedDict, Unpack

from klamm.cluster.counting import are, brokers_text
from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.journal import JOURNAL_FILE, JournalRow
from klamm.cluster.quirks import parse_quirks
from klamm.cluster.records import Record
from klamm.cluster.suggestions import suggestion
from klamm.cluster.types import TopicPartition
from klamm.cluster.version import klamm_version
from klamm.interrupts import temporary_folder
from klamm.lab.actions.steps import Wait
from klamm.lab.actions.table import ACTIONS
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.drill import Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.language.clusters import assignment_text
from klamm.lab.language.language import parse_drill
from klamm.lab.language.reading import DrillReader
from klamm.lab.language.step_language import StepCompiler
from klamm.lab.page.page import Headline, run_page
from klamm.lab.page.trace import RunTrace
from klamm.lab.python.actions import Actions, Conditions, Value, Words
from klamm.lab.python.arguments import (
    call_text,
    check_broker_count,
    check_bytes,
    check_configs,
    check_function,
    check_is_text,
    drill_text,
    path,
    quirk_words,
    whole_number,
)
from klamm.lab.python.clients import ConsumedRecord, RecordProducers, read_partition
from klamm.lab.python.errors import ClusterError, ErrorsAsClusterErrors
from klamm.lab.run.drill_run import Outcome, Verdict, final_verdict, judge_step
from klamm.lab.run.runner import ScenarioRunner
from klamm.lab.run.worlds import World, Worlds
from klamm.report.values import Tone
from klamm.tools.command_result import CommandResult
from klamm.zk.ensemble import require_size
from klamm.zk.kazoo_session import parse_address
from klamm.zk.store import ResultCode
from klamm.zk.znodes import BrokerIdsZNode, TopicZNode

__tracebackhide__ = True
"""Tells pytest to omit the functions of this file from tracebacks."""
_WITHIN_MS: Final = 30_000
WITHIN: Final = f"{_WITHIN_MS // 1_000}s"
_NAME: Final = "cluster"
_NOT_IN_DRILLS: Final = ("seed", "quirks", "data_dir")
_ELSEWHERE: Final = {
    "topics": "create topics with create_topic, inside the with statement",
    "zookeeper": "use klamm.LocalCluster",
    "zookeeper_servers": "use klamm.LocalCluster",
}
"""Hints for options that only drills or other clusters have."""


class ClusterOptions(TypedDict, total=False):
    """Options of a cluster. Words of the drill language have the same meaning as in drills.

    For those that may be None, None means the default.
    """

    seed: int
    """Seed of all random choices, by default 0. In a simulated cluster, the same seed and the same
    calls give the same journal."""
    controllers: Sequence[int] | None
    """Ids of the controller candidates, by default all brokers."""
    racks: Sequence[str] | None
    """Names of racks, assigned to the brokers in turn."""
    session_timeout: str | None
    """ZooKeeper session timeout of the brokers, by default 3s."""
    config: Mapping[str, str | int | bool] | None
    """Broker configs by Kafka's names."""
    segments: bool
    """If False, brokers keep only the offsets of records, in memory: `preload` is possible, but
    `send` and `consume` are not. By default, brokers keep records in segment files."""
    quirks: Sequence[str]
    """Known bugs of Kafka 2.8.2 to reproduce, such as KAFKA-13972; 2.8.2 means all of them."""
    data_dir: str | Path | None
    """Empty directory for the journal and other files, by default a temporary directory."""


class _Started(NamedTuple):
    """The parts of a cluster that has been started."""

    driver: ScenarioDriver
    runner: ScenarioRunner
    producers: RecordProducers
    trace: RunTrace


class ScriptedCluster(Actions):
    """A cluster of simulated brokers that Python code starts, breaks and checks.

    ``replay``: the line that repeats the run. Each ClusterError contains it.
    """

    IS_REAL: ClassVar[bool]
    OWN_OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Options that only this kind of cluster has."""
    _zookeeper: str | None = None

    def __init__(self, brokers: int | Sequence[int] = 3, **options: Unpack[ClusterOptions]) -> None:
        given = {"brokers": brokers, **options}
        self.replay = call_text(type(self).__name__, given)
        self._stack = contextlib.ExitStack()
        self._started: _Started | None = None
        self._is_closed = False
        words = {
            name: value
            for name, value in options.items()
            if name not in _NOT_IN_DRILLS and value is not None and value != {}
        }
        drill = {
            "drill": _NAME,
            "about": "A cluster on which Python code acts.",
            "cluster": {"segments": True, "brokers": brokers, **words},
            "steps": ["heal_all"],
        }
        with self._errors(_NAME):
            check_broker_count(brokers)
            _check_names(options, ("brokers", *ClusterOptions.__annotations__, *self.OWN_OPTIONS))
            self._data_dir = path("data_dir", options.get("data_dir"))
            quirks = parse_quirks(quirk_words(options.get("quirks", ())))
            self._drill = parse_drill(drill_text(drill), _NAME)
            self._spec = self._drill.spec(quirks, whole_number("seed", options.get("seed", 0), 0))

    def __enter__(self) -> Self:
        with self._errors(_NAME), contextlib.ExitStack() as stack:
            if self._started is not None and not self._is_closed:
                raise UsageError("the cluster is already running")
            folder = stack.enter_context(self._folder())
            world = World.ZOOKEEPER if self.IS_REAL else World.SIMULATION
            worlds = stack.enter_context(
                Worlds(folder, klamm_version(), world=world, zookeeper=self._zookeeper)
            )
            driver = stack.enter_context(worlds.open(self._spec, _NAME))
            trace = RunTrace(driver)
            driver.watch(tuple(INVARIANTS))
            runner, producers = ScenarioRunner(driver), RecordProducers(driver)
            self._started = _Started(driver, runner, producers, trace)
            self._is_closed = False
            stack.callback(self._mark_closed)
            self._run(self._drill.steps[0])
            self._stack = stack.pop_all()
            # Python would destroy the threads and files of a running cluster in any order.
            atexit.register(self._stack.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        atexit.unregister(self._stack.close)

    def _mark_closed(self) -> None:
        self._is_closed = True

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        if self._data_dir is None:
            with temporary_folder("klamm-") as folder:
                yield folder
            return
        if not self._data_dir.exists():
            raise UsageError(f"data_dir {self._data_dir} does not exist")
        if not self._data_dir.is_dir() or any(self._data_dir.iterdir()):
            raise UsageError(f"data_dir {self._data_dir} is not an empty directory")
        yield self._data_dir

    @property
    def _running(self) -> _Started:
        if self._is_closed:
            hint = "act on it in the with statement; later only journal, page() and elapsed_ms work"
            raise ClusterError("the cluster has been closed", replay=self.replay, hint=hint)
        return self._seen

    @property
    def _seen(self) -> _Started:
        """The parts of the cluster, whose journal can be read even if it has been closed."""
        if self._started is None:
            raise ClusterError(
                "the cluster has not been started",
                replay=self.replay,
                hint="start it in a with statement: with klamm.SimulatedCluster() as cluster",
            )
        return self._started

    # -- actions

    def act(self, word: str, value: Value = None, /, **arguments: Value) -> None:
        with self._errors(str(word)):
            if not isinstance(word, str) or word not in ACTIONS:
                hint = suggestion(str(word), ACTIONS, "klamm drill schema describes all actions")
                raise UsageError("not an action of drills", hint=hint)
            if arguments and value is not None:
                raise UsageError("give either a value or named arguments")
        given = {name: given for name, given in arguments.items() if given is not None}
        self._step(word, {word: given or value})

    def run(self, command: Words, files: Mapping[str, Value] | None = None) -> CommandResult:
        """Run one of Kafka's tools, e.g. `topics --zookeeper {zk} --list`. Return its output.

        In the command, `{zk}` and `{bootstrap}` stand for the cluster, and `{file:NAME}` for a file
        with the contents `files[NAME]`. Raises ClusterError if the exit code is not 0.
        """
        result = self._step("run", {"run": command, **({"files": files} if files else {})})
        assert result is not None, "a tool has a result"
        return result

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        replicas: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str | int] | None = None,
    ) -> None:
        """Create a topic, and wait until each partition has a leader.

        By default, it has 1 partition with 1 replica. Instead of `partitions` and
        `replication_factor`, `replicas` lists the replicas of each partition; the first one becomes
        leader.
        """
        with self._errors("create_topic"):
            check_is_text("topic", topic)
            check_configs(config)
            if replicas is not None and (partitions, replication_factor) != (None, None):
                hint = "omit partitions and replication_factor, which replicas determines"
                raise UsageError(
                    "replicas is given with a number of partitions or replicas", hint=hint
                )
            count = whole_number("partitions", 1 if partitions is None else partitions, 1)
            factor = 1 if replication_factor is None else replication_factor
            whole_number("replication_factor", factor, 1)
        command = ["topics", "--zookeeper", "{zk}", "--create", "--topic", topic]
        if replicas is None:
            command += ["--partitions", str(count), "--replication-factor", str(factor)]
        else:
            with self._errors("create_topic"):
                reader = self._reader("create_topic")
                items = reader.items(reader.compose(drill_text(replicas)), "replicas")
                if not all([reader.brokers(item) for item in items]) or not items:
                    hint = "as in replicas=[[0, 1], [1, 2]]"
                    raise UsageError("each partition needs at least one replica", hint=hint)
            command += ["--replica-assignment", assignment_text(replicas)]
        for name, value in (config or {}).items():
            command += ["--config", f"{name}={value}"]
        self._step("create_topic", {"run": command})
        names = [f"{topic}-{n}" for n in range(len(replicas or range(count)))]
        with self._errors("create_topic"):
            self._await_leaders(names)

    def _await_leaders(self, partitions: Sequence[str]) -> None:
        driver, view = self._running.driver, self._running.runner.view

        def leaderless() -> list[str]:
            return [tp for tp in partitions if getattr(view.state(tp), "leader", -1) < 0]

        if not driver.run_until(lambda: not leaderless(), _WITHIN_MS):
            tp, *_ = leaderless()
            registered = view.children(BrokerIdsZNode.path)
            gone = [id_ for id_ in view.replicas(tp) or () if str(id_) not in registered]
            why = f": {brokers_text(gone)} {are(gone)} not registered" if gone else ""
            text = f"the topic was created, but {tp} has no leader after {WITHIN}{why}"
            raise KlammError(text, definite=False)
        driver.quiesce()

    def send(
        self,
        partition: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timeout_ms: int = 30_000,
    ) -> int:
        """Send one record with acks=all, and return its offset.

        While the leader refuses to store the record, it is sent again. Raises ClusterError if the
        record is not acknowledged within the timeout; the error's `definite` is False if the record
        may be stored all the same.
        """
        with self._errors("send"):
            driver, runner, producers, _ = self._running
            tp = self._partition("send", partition)
            check_bytes("value", value)
            check_bytes("key", key)
            whole_number("timeout_ms", timeout_ms, 1)
            runner.target.check_may_produce(tp)
            record = Record(int(driver.cluster.clock.now_ms()), key, value)
            return producers.send(tp, record, timeout_ms)

    def consume(self, partition: str) -> list[ConsumedRecord]:
        """Return all committed records of a partition, from the first one on."""
        with self._errors("consume"):
            driver, runner, *_ = self._running
            tp = self._partition("consume", partition)
            if runner.view.read(TopicZNode.path(tp.topic)).code is ResultCode.NONODE:
                raise KlammError(f"topic {tp.topic} does not exist")
            if runner.view.replicas(str(tp)) is None:
                raise KlammError(f"{tp}: the partition does not exist")
            return read_partition(driver, tp)

    # -- conditions and checks

    def until(
        self,
        condition: Callable[[], bool] | None = None,
        /,
        *,
        within: str = WITHIN,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Run the cluster until a function returns True, or until all conditions hold in turn.

        Raises ClusterError if this takes longer than `within`, e.g. `500ms`, `30s` or `2min`.
        """
        if condition is None:
            self._step("until", {"until": self._given("until", conditions), "within": within})
            return
        with self._errors("until"):
            check_function(condition)
            if conditions:
                raise UsageError("give either a function or conditions by name")
            (wait,) = self._compiled("until", {"wait": within}).actions
            assert isinstance(wait, Wait)
            if not self._running.driver.run_until(condition, wait.duration_ms):
                raise KlammError(f"the condition did not hold within {within}")

    def expect(self, **conditions: Unpack[Conditions]) -> None:
        """Run the cluster until it is idle. Raises ClusterError if a condition does not hold."""
        self._step("expect", {"expect": self._given("expect", conditions)})

    def check(self) -> None:
        """Run the cluster until it is idle, and check it as at the end of a drill.

        Controller and brokers must agree with ZooKeeper, and acknowledged records must be there. In
        a simulated cluster, all invariants of docs/hunt.md are also checked after every event; a
        violation raises ClusterError in the call that runs the cluster.
        """
        with self._errors("check"):
            verdict = final_verdict(self._drill, self._running.driver)
            if verdict.outcome is not Outcome.PASSED:
                raise KlammError(_failures(verdict))

    @property
    def journal(self) -> Sequence[JournalRow]:
        """All journal rows so far (see docs/journal.md)."""
        return self._seen.driver.rows

    @property
    def journal_path(self) -> Path | None:
        """The file in `data_dir` to which the journal is written when the cluster is closed."""
        return self._data_dir and self._data_dir / f"1-{_NAME}" / JOURNAL_FILE

    def page(self, title: str = "The run so far", error: BaseException | None = None) -> str:
        """Return a page (HTML) that shows the run so far, with its journal.

        `error`: what made the run fail, if it failed. The page is about the partitions that it
        names.
        """
        driver, trace = self._seen.driver, self._seen.trace
        text = "" if error is None else str(error) or type(error).__name__
        first = text.partition("\n")[0]
        facts = [("world", "real" if self.IS_REAL else f"simulated, seed {self._spec.seed}")]
        facts += [("error", f"{type(error).__name__}: {text}")] if error is not None else []
        head = Headline(
            title,
            first or "No failure.",
            Tone.GOOD if error is None else Tone.BAD,
            (*facts, ("repeat it with", self.replay)),
            driver.elapsed_ms,
            first or "here",
            words=first,
            row=error.row if isinstance(error, ClusterError) else None,
        )
        return run_page(head, trace)

    @property
    def elapsed_ms(self) -> float:
        """Age of the cluster in milliseconds: virtual time in a simulated cluster."""
        return self._seen.driver.elapsed_ms

    def _given(self, call: str, conditions: Conditions) -> Conditions:
        with self._errors(call):
            if not conditions:
                raise UsageError("no condition is given", hint=f'e.g. {call}(leader={{"t-0": 2}})')
        return conditions

    def _step(self, name: str, fields: Mapping[str, object]) -> CommandResult | None:
        with self._errors(name):
            return self._run(self._compiled(name, fields))

    def _compiled(self, name: str, fields: Mapping[str, object]) -> Step:
        reader = self._reader(name)
        return StepCompiler(reader, is_tolerant=False).step(reader.compose(drill_text(fields)))

    def _reader(self, call: str) -> DrillReader:
        reader = DrillReader(call)
        reader.cluster = self._spec
        return reader

    def _partition(self, call: str, name: str) -> TopicPartition:
        reader = DrillReader(call)
        return reader.partition(reader.compose(drill_text(name)), "the argument")

    def _run(self, step: Step) -> CommandResult | None:
        driver, runner, *_ = self._running
        result = runner.run_step(step)
        verdict = judge_step(result, driver.elapsed_ms)
        if verdict is not None:
            raise KlammError(_failures(verdict))
        return result.tool

    def _errors(self, call: str) -> ErrorsAsClusterErrors:
        return ErrorsAsClusterErrors(call, self.replay)


class SimulatedCluster(ScriptedCluster):
    """A cluster in one thread, with virtual time and a ZooKeeper in memory.

    The same seed and the same calls give the same journal. A wait takes milliseconds.
    """

    IS_REAL = False


class LocalCluster(ScriptedCluster):
    """Controllers and simulated brokers in this process, on a real ZooKeeper, in real time.

    ``zookeeper``: the address of an existing ZooKeeper, where the cluster gets a chroot that is
    removed at the end. By default, a ZooKeeper server is started as a separate process; this needs
    `klamm[zookeeper]`. ``zookeeper_servers``: start a private ensemble of 1, 3 or 5 servers, on
    which `kill_zookeeper` and similar actions are possible.
    """

    IS_REAL = True
    OWN_OPTIONS = ("zookeeper", "zookeeper_servers")

    def __init__(
        self,
        brokers: int | Sequence[int] = 3,
        *,
        zookeeper: str | None = None,
        zookeeper_servers: int | None = None,
        **options: Unpack[ClusterOptions],
    ) -> None:
        super().__init__(brokers, **options)
        own = {"zookeeper": zookeeper, "zookeeper_servers": zookeeper_servers}
        given = {name: value for name, value in own.items() if value is not None}
        self.replay = call_text(type(self).__name__, {"brokers": brokers, **given, **options})
        self._zookeeper = zookeeper
        with self._errors(_NAME):
            if len(given) > 1:
                hint = "zookeeper is an existing server, zookeeper_servers a number to start"
                raise UsageError("zookeeper and zookeeper_servers exclude each other", hint=hint)
            if zookeeper_servers is not None:
                servers = whole_number("zookeeper_servers", zookeeper_servers, 1)
                require_size(servers)
                self._spec = replace(self._spec, zookeeper_servers=servers)
            if zookeeper is not None:
                check_is_text("address of ZooKeeper", zookeeper)
                parse_address(zookeeper)


def _check_names(options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            hint = _ELSEWHERE.get(name) or suggestion(name, known)
            raise UsageError(f"unknown option '{name}'", hint=hint)


def _failures(verdict: Verdict) -> str:
    """Return the conditions that did not hold, each with everything that was seen instead."""
    seen: dict[str, list[str]] = {}
    for failure in verdict.failures:
        seen.setdefault(failure.expected, []).append(failure.seen)
    return "; ".join(f"expected {one}, seen {', '.join(lines)}" for one, lines in seen.items())
