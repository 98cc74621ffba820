"""Disk faults in simulated clusters: invariants, and drills that detect violations."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.segment import LogSegment
from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import NotFound
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.actions.steps import KillAll
from klamm.lab.drill import Drill, Step
from klamm.lab.drills.library import named_drill
from klamm.lab.drivers.real_driver import RealDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, Verdict, play, verdict_of
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.clock import VirtualClock
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.disks import ClusterDisks, simulated_disk
from klamm.world.journal.journal import FileJournal, MemoryJournal
from klamm.world.journal.journal_guard import JournalGuard
from klamm.world.real.cluster import RealCluster
from klamm.world.simulated.world import SimulatedWorld
from tests.journal_bytes import journal_bytes
from tests.sim.worlds import active_controller

SEEDS = range(6)
MORE_SEEDS = range(6, 26)
HEAD = """
drill: d
about: x
cluster:
  segments: true
  config: {log.dirs: 'd0,d1', log.flush.interval.messages: 25, min.insync.replicas: 2}
  topics: {t: [[0, 1, 2], [1, 2, 0]]}
steps:
"""


def run(drill: Drill, seed: int = 0) -> tuple[Verdict, bytes]:
    """Run a drill; return its result and the journal."""
    world = drill.simulated_world(NO_QUIRKS, seed)
    verdict = verdict_of(play(drill, SimulatedDriver(world)))
    return verdict, journal_bytes(world.journal.rows)


def first_controller(seed: int) -> int:
    """Who becomes the controller in a run of this seed."""
    world = parse_drill(HEAD + "  - wait: 1s\n", "d.yaml").simulated_world(NO_QUIRKS, seed)
    *_, _ = play(parse_drill(HEAD + "  - wait: 1s\n", "d.yaml"), SimulatedDriver(world))
    return active_controller(world).config.broker_id


def random_faults(seed: int, *, is_missed: bool = True) -> Drill:
    """Any fault of any disk while records are produced, then restarts, one after the other.

    ``is_missed``: a controller that loses its power starts after it has left the ISR.
    """
    rng = random.Random(seed)
    steps = "  - produce: {t-0: 100, t-1: 100}\n"
    broker, log_dir = rng.randrange(3), rng.choice(["d0", "d1"])
    kind, after = rng.choice(list(FaultKind)), rng.choice([0, 200, 5_000])
    times = rng.choice(["", ", times: 1"])
    fault = f"broker: {broker}, log_dir: {log_dir}, kind: {kind}, after_bytes: {after}{times}"
    steps += f"  - fail_disk: {{{fault}}}\n"
    steps += "  - produce: {t-0: 300, t-1: 300}\n"
    end = rng.choice([f"kill: {broker}", f"power_off: {broker}", "kill_all"])
    steps += "    until: {acknowledged: {t-0: 400, t-1: 400}}\n"
    steps += f"  - heal_disks\n  - {end}\n"
    others = [one for one in range(3) if one != broker]
    if is_missed and end == f"power_off: {first_controller(seed)}":
        steps += f"  - until: {{isr: {{t-0: {others}, t-1: {others}}}}}\n"
    begin = "up_again" if end == "kill_all" else f"start: {broker}"
    steps += f"  - {begin}\n  - until: {{isr: {{t-0: [0, 1, 2], t-1: [0, 1, 2]}}}}\n"
    steps += f"  - kill: {others}\n  - until: {{leader: {{t-0: {broker}, t-1: {broker}}}}}\n"
    steps += "  - start: dead\n  - produce: {t-0: 10, t-1: 10}\n"
    steps += "    until: {consumed: {t-0: 410, t-1: 410}}\n"
    return parse_drill(HEAD + steps, f"seed {seed}")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_fault_loses_nothing_that_was_acknowledged(seed: int) -> None:
    verdict, _ = run(random_faults(seed), seed)
    assert verdict.failures == ()


@pytest.mark.slow
def test_more_random_faults_lose_nothing_that_was_acknowledged() -> None:
    failed = {s: found for s in MORE_SEEDS if (found := run(random_faults(s), s)[0]).failures}
    assert failed == {}


@pytest.mark.parametrize("seed", [21, 57])
def test_a_controller_that_was_gone_unnoticed_loses_records_as_in_kafka(seed: int) -> None:
    """A weakness of Kafka 2.8.2, and the only one that the random faults avoid.

    Broker epochs (KIP-380) are in the controller's memory alone. The active controller loses power
    and registers again before the next one has read /brokers/ids: no controller sees that it was
    gone. It stays in the ISR and leads on without what it had not flushed, and its followers
    truncate theirs. Only KRaft stores broker epochs and unclean shutdowns: KIP-903 (KAFKA-14139),
    KIP-966.
    """
    verdict, journal = run(random_faults(seed, is_missed=False), seed)
    assert verdict.outcome is Outcome.STUCK
    rows = [json.loads(line) for line in journal.splitlines()]
    truncated = [row for row in rows if row["kind"] == Kind.LOG_TRUNCATED]
    assert {row["leader"] for row in truncated} == {first_controller(seed)}


@pytest.mark.parametrize("name", ["disk-full", "fsync-failure", "power-loss-tears-a-write"])
def test_the_same_seed_gives_the_same_journal(name: str) -> None:
    assert run(named_drill(name), 3) == run(named_drill(name), 3)


# Code that is broken on purpose: the drill that ships for it fails.


def ignoring(method: Callable[..., None]) -> Callable[..., None]:
    """The method, with errors of its disk swallowed."""

    def ignore(*args: object) -> None:
        with suppress(OSError):
            method(*args)

    return ignore


def test_a_failed_fsync_that_is_ignored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogSegment, "flush", ignoring(LogSegment.flush))
    verdict, _ = run(named_drill("fsync-failure"))
    assert verdict.outcome is Outcome.STUCK


def test_a_directory_that_is_served_although_it_fails_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LogManager, "handle_log_dir_failure", lambda *_: None)
    for name in ("disk-full", "disk-errors", "fsync-failure"):
        assert run(named_drill(name))[0].outcome is Outcome.STUCK


def test_a_torn_write_that_is_taken_over_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are loaded as after a clean shutdown, without checking their batches."""

    def recover(segment: LogSegment) -> None:
        segment.load()

    monkeypatch.setattr(LogSegment, "recover", recover)
    assert run(named_drill("power-loss-tears-a-write"))[0].outcome is not Outcome.PASSED


def test_an_election_without_a_journal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JournalGuard, "run_event", lambda guard: guard.inbox.clear())
    assert run(named_drill("journal-disk-full"))[0].outcome is Outcome.STUCK


# Logs in memory.


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_directory_in_memory_fails_at_once_with_the_same_error(kind: FaultKind) -> None:
    world = named_drill("log-dir-failure").simulated_world(NO_QUIRKS, 0)
    driver = SimulatedDriver(world)
    for broker_id in world.spec.broker_ids:
        driver.cluster.start(broker_id)
    world.run_for(2_000)
    driver.cluster.disks.fail(1, "d1", DiskFault(kind))
    world.run_for(1_000)
    (row,) = [row for row in world.journal.rows if row.kind == Kind.LOG_DIR_FAILED]
    assert kind.reason in (row.detail or "")
    dirs = world.nodes[1].node.broker.replica_manager.log_dirs
    assert list(dirs.offline) == ["d1"]

    def restarted() -> list[str]:
        world.kill(1)
        world.start(1)
        world.run_for(10_000)
        return list(world.nodes[1].node.broker.replica_manager.log_dirs.offline)

    assert restarted() == ["d1"]
    disks = driver.cluster.disks
    disks.slow(1, "d1", 100)
    slow = {"broker": 1, "log_dir": "d1", "kind": "slow", "bytes_per_s": 100}
    assert disks.describe() == [{"broker": 1, "log_dir": "d1", "kind": kind}, slow]
    disks.heal()
    assert disks.describe() == []
    assert restarted() == []


def test_a_fault_that_has_struck_as_often_as_it_should_is_no_longer_listed(tmp_path: Path) -> None:
    spec = ClusterSpec(broker_ids=(1,), segments=tmp_path, config={"log.dirs": "d1"})
    world = SimulatedWorld(spec)
    stores, path = world.log_stores, tmp_path / "journal"
    with closing(FileJournal(path, disk=stores.disk)) as journal:
        disks = ClusterDisks(spec, stores, world.copying, journal, lambda *_: None, lambda _: None)
        disks.fail(1, "d1", DiskFault(FaultKind.EIO, times=1))
        disks.fail_journal(DiskFault(FaultKind.EIO, times=1))
        assert len(disks.describe()) == 2
        for failing in (tmp_path / "1" / "d1", path):
            with pytest.raises(OSError, match="Input/output error"):
                stores.disk.stat(failing)
        assert disks.describe() == []


def test_a_directory_in_memory_fails_in_the_next_process_too() -> None:
    world = SimulatedWorld(ClusterSpec(broker_ids=(1,), config={"log.dirs": "d1,d2"}))
    world.disks.fail(1, "d1", DiskFault(FaultKind.EIO))
    world.kill_all()
    world.start(1)
    world.run_for(1_000)
    assert list(world.nodes[1].node.broker.replica_manager.log_dirs.offline) == ["d1"]


def test_a_journal_in_memory_is_refused_until_its_disk_is_healed() -> None:
    world = named_drill("log-dir-failure").simulated_world(NO_QUIRKS, 0)
    for broker_id in world.spec.broker_ids:
        world.start(broker_id)
    world.run_for(2_000)
    world.disks.fail_journal(DiskFault(FaultKind.ENOSPC))
    assert world.disks.describe() == [{"journal": True, "kind": FaultKind.ENOSPC}]
    world.kill(1)
    world.run_for(10_000)
    assert world.guard.failure is not None and "No space left" in world.guard.failure.message
    world.disks.heal()
    assert world.disks.describe() == []
    world.run_for(2_000)
    assert world.guard.failure is None


def test_the_seed_decides_what_a_failing_disk_keeps() -> None:
    def kept(seed: int) -> int:
        disk = simulated_disk(VirtualClock(), seed, is_in_memory=True)
        disk.create("/file")
        disk.arm("/file", DiskFault(FaultKind.SHORT_WRITE))
        with pytest.raises(OSError, match="No space left"):
            disk.write_at("/file", 0, bytes(10_000))
        disk.heal_all()
        return disk.stat("/file").size_bytes

    first = [kept(seed) for seed in range(5)]
    assert [kept(seed) for seed in range(5)] == first
    assert len(set(first)) > 1


def test_a_log_directory_must_be_one_of_the_brokers() -> None:
    world = named_drill("log-dir-failure").simulated_world(NO_QUIRKS, 0)
    with pytest.raises(NotFound, match="broker 1 has no log directory 'd7'") as refused:
        world.disks.fail(1, "d7", DiskFault(FaultKind.EIO))
    assert refused.value.hint == "it has d1, d2"


def test_the_process_of_a_cluster_is_not_killed_while_records_are_only_in_its_memory() -> None:
    drill = parse_drill(
        HEAD
        + "  - produce: {t-0: 100}\n    until: {acknowledged: {t-0: 100}}\n"
        + "  - kill_all\n  - up_again\n  - until: {isr: {t-0: [0, 1, 2]}}\n",
        "d.yaml",
    )
    cluster = dataclasses.replace(drill.cluster, segments=None)
    verdict, _ = run(msgspec.structs.replace(drill, cluster=cluster))
    assert verdict.outcome is Outcome.FAILED
    assert "the logs of this cluster are in memory" in verdict.failures[0].seen


def test_faults_of_machines_outlive_the_process_of_a_real_cluster(chroot: str) -> None:
    journal = MemoryJournal()
    with RealCluster(ClusterSpec(broker_ids=(0,)), chroot, journal) as cluster:
        driver = RealDriver(cluster, journal)
        cluster.start(0)
        cluster.clocks[0].skew_ms = 5_000
        cluster.disks.slow(0, None, 1_000)
        cluster.disks.fail_journal(DiskFault(FaultKind.ENOSPC))
        faults = cluster.disks.describe()
        ScenarioRunner(driver).run_step(Step("killed", (KillAll(),)))
        killed = driver.cluster
        assert (len(killed.nodes), killed.clocks[0].skew_ms) == (0, 5_000)
        assert len(faults) == 2
        assert killed.disks.describe() == faults


def test_a_restart_of_the_cluster_that_finds_a_running_broker_starts_no_other() -> None:
    drill = parse_drill(
        "drill: d\nabout: x\ntolerant: true\n"
        "cluster: {brokers: 3, controllers: [0], topics: {t: [[1, 2]]}}\n"
        "steps:\n"
        "  - delay: {between: [0, zookeeper], ms: 400}\n"
        "  - kill_all\n  - wait: 1s\n  - start: 1\n  - up_again\n  - heal_all\n"
        "  - {until: {healthy: true}, within: 60s}\n",
        "d.yaml",
    )
    verdict, _ = run(drill, seed=7769)
    assert verdict.outcome is Outcome.PASSED, verdict


def test_a_machine_whose_disk_fails_can_lose_power() -> None:
    drill = parse_drill(
        HEAD
        + "  - produce: {t-0: 100}\n    until: {acknowledged: {t-0: 100}}\n"
        + "  - fail_disk: {broker: 1, kind: eio}\n  - power_off: 1\n"
        + "  - heal_all\n  - until: {healthy: true, consumed: {t-0: 100}}\n",
        "d.yaml",
    )
    verdict, _ = run(drill)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())


def test_a_broker_whose_disk_fails_in_the_event_that_ends_its_shutdown_ends_once() -> None:
    drill = parse_drill(
        """\
drill: d
about: Both timers are due when the broker resumes.
checks: false
cluster:
  controllers: [0]
  segments: true
  session_timeout: 60s
  config:
    controlled.shutdown.max.retries: 1
    controlled.shutdown.retry.backoff.ms: 1000
    replica.high.watermark.checkpoint.interval.ms: 35000
    replica.lag.time.max.ms: 100000
  topics:
    t: [[0, 1]]
steps:
  - {produce: {t-0: 10}, until: {acknowledged: {t-0: 10}}}
  - pause: 0
  - stop: 1
  - wait: 30500ms
  - fail_disk: {broker: 1, kind: eio}
  - pause: 1
  - wait: 10s
  - resume: 1
  - wait: 1s
""",
        "d.yaml",
    )
    world = drill.simulated_world(NO_QUIRKS, 0)
    verdict = verdict_of(play(drill, SimulatedDriver(world)))
    assert (verdict.failures, sorted(world.nodes)) == ((), [0, 2])
