"""Candidates that may not be elected: after failed failovers, or while candidacy is on hold."""

from __future__ import annotations

import itertools

from klamm.cluster.errors import KlammError
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.controller.candidacy import FAILED_FAILOVERS_MAX, Candidacy
from klamm.controller.events import Reelect
from klamm.world.clock import VirtualClock
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Create, Delete
from klamm.zk.znodes import TopicZNode
from tests.sim.worlds import active_controller, three_brokers
from tests.unit.controller.cluster import Cluster

ALL = (0, 1, 2)
ID = "s3nWlBdbSrOVXGRSwPAkdA"


def topic_with_id(topic: str) -> Create:
    assignment = {TopicPartition(topic, 0): ReplicaAssignment((0, 1))}
    return Create(TopicZNode.path(topic), TopicZNode.encode(ID, assignment))


def failing_cluster(given_up: list[KlammError]) -> Cluster:
    """Three candidates that fail every failover: with quirk C2 a duplicate topic id fails it."""
    cluster = Cluster(quirks=Quirks(malformed_znode_fails_the_event=True))
    cluster.candidacy = Candidacy(cluster.clock, given_up.append)
    for topic in ("a", "b"):
        create = topic_with_id(topic)
        cluster.admin.create(create.path, create.data)
    cluster.start(*ALL, candidates=ALL)
    return cluster


def elections(cluster: Cluster) -> list[int]:
    """When controllers were elected."""
    return [row.t_ms for row in cluster.rows(Kind.CONTROLLER_ELECTED)]


def test_failed_failovers_come_at_growing_intervals_across_candidates() -> None:
    given_up: list[KlammError] = []
    cluster = failing_cluster(given_up)
    for _ in range(60):
        cluster.advance(1_000)
    times = elections(cluster)
    # 60 seconds of one failover every 5 seconds, and the first few that come faster.
    assert 10 <= len(times) <= 18
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(earlier <= later for earlier, later in itertools.pairwise(pauses))
    assert cluster.candidacy.failed_failovers == len(times)
    (error,) = given_up
    assert f"{FAILED_FAILOVERS_MAX} consecutive failovers failed" in error.message
    assert "already belongs to another topic" in error.message


def test_each_failure_doubles_the_pause_and_the_eighth_gives_up_once() -> None:
    given_up: list[KlammError] = []
    clock = VirtualClock()
    candidacy = Candidacy(clock, given_up.append)
    pauses = []
    for number in range(1, 10):
        candidacy.failover_failed(f"failure {number}")
        pauses.append(candidacy.pause_ms())
        assert len(given_up) == (number >= 8)
    assert pauses == [250, 500, 1_000, 2_000, 4_000, *[5_000] * 4]
    (error,) = given_up
    assert str(error).startswith(
        "no controller can take over: 8 consecutive failovers failed; last error: failure 8"
    )
    assert error.hint == "see the brokers' controller.log; fix the cause and run klamm up again"
    clock.advance_to(clock.monotonic_ms() + 5_001)
    assert candidacy.pause_ms() == 0


def test_a_failover_that_succeeds_forgets_those_that_failed() -> None:
    cluster = failing_cluster([])
    cluster.advance(1_000)
    assert cluster.candidacy.failure is not None
    cluster.admin.delete(TopicZNode.path("b"))
    cluster.advance(10_000)
    assert cluster.active.context.all_topics == {"a"}
    assert (cluster.candidacy.failed_failovers, cluster.candidacy.failure) == (0, None)


def test_events_during_a_pause_set_one_timer() -> None:
    cluster = failing_cluster([])
    controller = cluster.controllers[0]
    assert cluster.candidacy.pause_ms() > 0
    for _ in range(3):
        controller.events.put(Reelect())
        cluster.run()
    assert [timer[2] for timer in controller.events._timers] == [Reelect()]


def test_the_simulated_world_pauses_on_virtual_time() -> None:
    world = three_brokers(quirks=Quirks(malformed_znode_fails_the_event=True))
    store = world.open_store()
    store.write([[topic_with_id("a")], [topic_with_id("b")], [Delete("/controller")]])
    world.run_for(60_000)
    elected = [row for row in world.journal.rows if row.kind == Kind.CONTROLLER_ELECTED]
    assert 5 <= len(elected) <= 20
    store.write([[Delete(TopicZNode.path("b"))]])
    world.run_for(10_000)
    assert active_controller(world).context.all_topics == {"a"}


def test_no_controller_is_elected_while_the_candidacy_is_on_hold() -> None:
    cluster = Cluster().start(*ALL, candidates=ALL)
    (t0,) = cluster.create_topic("t", (0, 1))
    cluster.candidacy.hold = "the disk is full"
    for controller in cluster.controllers.values():
        controller.on_candidacy_changed()
    cluster.advance(60_000)
    assert not cluster.active_among(*ALL)
    assert cluster.admin.get_controller_id() is None
    assert cluster.rows(Kind.CONTROLLER_RESIGNED)
    cluster.candidacy.hold = None
    for controller in cluster.controllers.values():
        controller.on_candidacy_changed()
    cluster.run()
    assert cluster.active.context.epoch == 2
    assert cluster.state(t0).leader == 0
    cluster.assert_nothing_failed()


def test_a_broker_that_is_no_candidate_yet_is_not_elected_when_a_hold_ends() -> None:
    world = SimulatedWorld(ClusterSpec(broker_ids=ALL))
    world.start(0, holds_controller=True)
    world.run_for(1_000)
    controller = world.nodes[0].node.controller
    assert controller is not None
    controller.on_candidacy_changed()
    world.run_for(10_000)
    assert not controller.is_active
    world.begin_candidacy(0)
    world.run_for(1_000)
    assert controller.is_active
