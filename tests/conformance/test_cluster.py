"""What every world's cluster does when it is started, killed, stopped, paused and damaged.

Runs on simulated brokers in virtual time, on a real ZooKeeper, and on brokers of Kafka 2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.kafka.locate import SKIP_REASON
from klamm.cluster.errors import WrongState
from klamm.cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from klamm.lab.conditions.view import ClusterView
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.run.worlds import World, Worlds
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.kafka.cluster import KafkaCluster
from klamm.world.kafka.jars import kafka_libs
from klamm.zk.kafka_zk_client import KafkaZkClient

TP = TopicPartition("t", 0)
SPEC = ClusterSpec(
    broker_ids=(0, 1, 2),
    session_timeout_ms=3_000,
    config={"auto.leader.rebalance.enable": "false", "log.dirs": "d0,d1"},
)
PATIENCE_MS = 60_000
KAFKA = (
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
)
pytestmark = pytest.mark.timeout(120)


class Rig:
    """A cluster with the partition t-0 on all brokers, whose preferred leader is broker 0."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self.driver = driver
        self.cluster = driver.cluster
        self.view = ClusterView(driver)
        self.zk = KafkaZkClient(driver.store)
        self.cluster.begin_start_all()
        for broker_id in SPEC.broker_ids:
            self.cluster.begin_candidacy(broker_id)
        self.await_(lambda: self.registered() == {0, 1, 2} and self.controller() is not None)
        self.zk.create_topic_assignment("t", None, {TP: ReplicaAssignment((0, 1, 2))})
        self.await_(lambda: self.leader() == 0 and self.isr() == {0, 1, 2})

    def await_(self, condition: Callable[[], bool]) -> None:
        """Let time pass until a condition holds."""
        assert self.driver.run_until(condition, PATIENCE_MS), condition

    def registered(self) -> set[int]:
        return {int(one) for one in self.zk.get_children("/brokers/ids")}.intersection({0, 1, 2})

    def controller(self) -> int | None:
        return self.zk.get_controller_id()

    def leader(self) -> int:
        state = self.view.state("t-0")
        return NO_LEADER if state is None else state.leader

    def isr(self) -> set[int]:
        state = self.view.state("t-0")
        return set() if state is None else {*state.isr}


@pytest.fixture(
    params=[
        World.SIMULATION,
        pytest.param(World.ZOOKEEPER, marks=pytest.mark.slow),
        pytest.param(World.KAFKA, marks=KAFKA),
        pytest.param(World.KAFKA_WITH_KLAMM, marks=KAFKA),
    ]
)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Every test runs in each world."""
    world: World = request.param
    place = None if world is World.SIMULATION else request.getfixturevalue("chroot")
    with (
        Worlds(tmp_path, "0", world=world, zookeeper=place) as worlds,
        worlds.open(SPEC, "conformance") as driver,
    ):
        yield Rig(driver)
        assert driver.cluster.errors in ([], ())


def test_a_killed_broker_stays_registered_until_its_session_expires_and_then_loses_its_partitions(
    rig: Rig,
) -> None:
    rig.cluster.kill(0)
    assert 0 not in rig.cluster.nodes
    assert 0 in rig.registered(), "the session has not expired"
    rig.await_(lambda: rig.leader() in (1, 2) and rig.isr() == {1, 2})
    assert rig.registered() == {1, 2}
    rig.cluster.start(0)
    rig.await_(lambda: rig.isr() == {0, 1, 2})
    assert rig.leader() in (1, 2), "nothing makes it the leader again"


def test_a_controlled_shutdown_moves_the_leadership_before_the_broker_ends(rig: Rig) -> None:
    rig.cluster.shut_down(0)
    rig.await_(lambda: 0 not in rig.cluster.nodes and 0 not in rig.registered())
    assert rig.leader() in (1, 2)
    assert rig.isr() == {1, 2}
    assert rig.view.state("t-0").leader_epoch >= 1  # type: ignore[union-attr]


def test_a_paused_broker_loses_its_session_and_rejoins_the_isr_when_it_is_resumed(rig: Rig) -> None:
    rig.cluster.pause(0)
    assert rig.cluster.paused_broker_ids == {0}
    rig.await_(lambda: rig.leader() in (1, 2))
    rig.cluster.resume(0)
    assert rig.cluster.paused_broker_ids == set()
    rig.await_(lambda: rig.isr() == {0, 1, 2} and rig.registered() == {0, 1, 2})


def test_a_killed_cluster_elects_a_controller_and_leaders_when_it_starts_again(rig: Rig) -> None:
    epoch = rig.zk.get_controller_epoch()
    rig.cluster.kill_all()
    assert not rig.cluster.nodes
    rig.await_(lambda: not rig.registered())
    rig.cluster.begin_start_all()
    for broker_id in SPEC.broker_ids:
        rig.cluster.begin_candidacy(broker_id)
    rig.await_(lambda: rig.registered() == {0, 1, 2} and rig.controller() is not None)
    rig.await_(lambda: rig.isr() == {0, 1, 2} and rig.leader() != NO_LEADER)
    # klamm's controller of Kafka's brokers is a separate process, which survives.
    survives = isinstance(rig.cluster, KafkaCluster) and bool(rig.cluster.controllers)
    assert (rig.zk.get_controller_epoch() == epoch) == survives


def test_an_action_on_a_broker_in_the_wrong_state_is_refused_and_changes_nothing(rig: Rig) -> None:
    with pytest.raises(WrongState, match="broker 0 is already running"):
        rig.cluster.start(0)
    rig.cluster.kill(0)
    for act in (
        rig.cluster.kill,
        rig.cluster.shut_down,
        rig.cluster.pause,
        rig.cluster.resume,
        lambda broker_id: rig.cluster.fail_log_dir(broker_id, "d0"),
    ):
        with pytest.raises(WrongState, match="broker 0 is not running"):
            act(0)
    assert {*rig.cluster.nodes} == {1, 2}


def test_a_broker_without_a_failed_log_directory_has_none_and_a_restart_ends_the_failure(
    rig: Rig,
) -> None:
    assert rig.cluster.failed_log_dir_broker_ids == frozenset()
    rig.cluster.fail_log_dir(0, "d0")
    rig.await_(lambda: rig.cluster.failed_log_dir_broker_ids == {0})
    rig.cluster.kill(0)
    assert rig.cluster.failed_log_dir_broker_ids == frozenset()
    rig.cluster.start(0)
    rig.await_(lambda: rig.isr() == {0, 1, 2})
    assert rig.cluster.failed_log_dir_broker_ids == frozenset()
