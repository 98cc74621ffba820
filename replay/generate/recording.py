"""Records the journal of a simulated cluster in episodes, from which a history is composed.

An episode contains failures, deletions, reassignments, elections and controller failovers. Between
two episodes the cluster is healthy and always in the same state: all brokers are alive, all
replicas are in sync, and partitions have their initial assignments and preferred leaders. Each
episode begins with a controller failover, after which no row refers to earlier rows. Episodes can
therefore be repeated in any order.

The anomalies that can happen in a cluster, such as an unclean election, are recorded separately.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Final

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    Address,
    AlterPartitionReassignmentsRequest,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    Request,
)
from klamm.cluster.types import NO_LEADER, ElectionType, TopicPartition
from klamm.replay.generate.layout import ANOMALOUS, DELETED, KEPT, Layout
from klamm.replay.generate.options import Planted
from klamm.statemachines.context import ControllerContext
from klamm.world.clients.batches import Counted
from klamm.world.clients.config import ProducerConfig
from klamm.world.clients.producer import Producer
from klamm.world.cluster import brokers_of
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.network import isolation
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.transport import RequestClient
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import ControllerZNode

FLAPS: Final = 12
_ELECTED: Final = Kind.CONTROLLER_ELECTED.value
_EVENT: Final = Kind.EVENT.value
_OPERATOR: Final = Address("client", 0)
_PRODUCER: Final = Address("client", 1)
_CHURNS: Final = 9
_CONTROLLER_SHARE: Final = 0.2
"""Fraction of the failures in which the controller fails."""
_MAX_DEAD: Final = 2
_TIMEOUT_MS: Final = 600_000
_DOWN_MS: Final = 60_000
"""Time between the end of the cluster's process and its restart; all sessions expire in it."""
_POLL_MS: Final = 250
_POLLS_MAX: Final = 2_000
_LAG_TIME_MS: Final = 4_000
_CONFIG: Final = {
    # With 2.8 topics have ids, which cannot be copied to other topics.
    "inter.broker.protocol.version": "2.7",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": str(_LAG_TIME_MS),
}


class GeneratedRecording:
    """A simulated cluster whose journal is recorded, with the topics KEPT and DELETED."""

    def __init__(self, layout: Layout) -> None:
        """Create the cluster. Nothing runs before ``creation``."""
        options = layout.options
        spec = ClusterSpec(
            broker_ids=tuple(range(1, layout.brokers + 1)), config=_CONFIG, seed=options.seed
        )
        self.assignments = {
            layout.recorded_name(base): replicas for base, replicas in enumerate(layout.assignments)
        }
        """Initial replicas of each partition."""
        self._movable = [tp for tp in self.assignments if tp.topic == KEPT and tp.partition % 2]
        self._brokers = layout.brokers
        self._failure_rate = options.failure_rate
        self._rng = random.Random(options.seed)
        self._world = world = SimulatedWorld(spec)
        self._store = world.open_store()
        self._client = RequestClient(_OPERATOR)
        self._clock = world.clock
        self._producer = Producer(_PRODUCER, spec.broker_ids, ProducerConfig(acks=1))
        world.add_client(self._producer)
        self._dead: dict[int, int] = {}
        """For each dead broker: number of the step in which the broker is started again."""
        self._moved: dict[TopicPartition, tuple[int, ...]] = {}
        self._missing = [topic for topic in (KEPT, DELETED) if self._of_topic(topic)]
        """Topics to create."""
        self._taken = 0

    def creation(self) -> list[JournalRow]:
        """Record the first episode: the brokers start and the topics are created."""
        cluster = self._world
        cluster.begin_start_all()
        for broker_id in cluster.spec.broker_ids:
            cluster.begin_candidacy(broker_id)
        self._wait(lambda: self._context() is not None)
        self._wait(lambda: len(self._known().live_or_shutting_down_broker_ids) == self._brokers)
        self._create_missing()
        return self._take()

    def failover(self) -> list[JournalRow]:
        """Record an episode that consists of only a controller failover."""
        self._move_controller()
        self._wait(self._is_healthy)
        return self._take()

    def restart(self) -> list[JournalRow]:
        """Record an episode in which the whole cluster is killed and started again.

        The first broker becomes the controller before the others are started, and finds most
        partitions without a live leader.
        """
        self._world.kill_all()
        self._world.run_for(_DOWN_MS)
        cluster = self._world
        first, *others = self._rng.sample(cluster.spec.broker_ids, self._brokers)
        cluster.start(first)
        self._wait(lambda: self._context() is not None)
        for broker in others:
            self._world.run_for(self._rng.randrange(500, 3_000))
            self._return(broker)
        self._heal()
        return self._take()

    def episode(self) -> list[JournalRow]:
        """Record the next episode: steps in random order, with random failures."""
        self._move_controller()
        steps = [self._churn] * _CHURNS + [self._elect, self._reassign, self._delete]
        self._rng.shuffle(steps)
        failing = [self._rng.random() < self._failure_rate for _ in steps]
        if self._failure_rate:
            # Every episode has a failure, even with a low rate.
            failing[self._rng.randrange(len(steps))] |= not any(failing)
        for n, step in enumerate(steps):
            for broker in [broker for broker, until in self._dead.items() if until <= n]:
                self._return(broker)
            self._world.run_for(self._rng.randrange(70_000, 150_000))
            if failing[n]:
                self._fail(n)
            else:
                step()
        self._heal()
        return self._take()

    def isr_changes(self) -> list[JournalRow]:
        """Record an episode without failures, reassignments and deletions: only ISRs change."""
        self._move_controller()
        for _ in range(_CHURNS):
            self._world.run_for(self._rng.randrange(70_000, 150_000))
            self._churn()
        self._wait(self._is_healthy)
        return self._take()

    def anomaly(self, kind: Planted) -> list[JournalRow]:
        """Record a controller failover, and an anomaly of the partition ANOMALOUS after it.

        Return the row about the controller, and those about this partition with their events: first
        its snapshot and its replicas at the failover. Other rows are left out: in the history, the
        anomaly affects no other partition, and no broker fails.

        ``kind``: UNCLEAN, LEADERLESS, STUCK or FLAPPING.
        """
        self._move_controller()
        while self._controller() in self.assignments[ANOMALOUS]:
            self._move_controller()
        self._wait(self._is_healthy)
        epoch = self._known().epoch
        if kind is Planted.FLAPPING:
            self._flap()
        elif kind is Planted.STUCK:
            self._begin_stuck_reassignment()
        else:
            self._lose_leader(is_unclean=kind is Planted.UNCLEAN)
        rows = [row for row in self._world.journal.rows[self._taken :] if row.epoch == epoch]
        self._heal()
        self._take()
        about = [row for row in rows if (row.topic, row.partition) == ANOMALOUS]
        events = {row.event_id for row in about}
        others = [
            row
            for row in rows
            if row.kind == _ELECTED or (row.kind == _EVENT and row.event_id in events)
        ]
        return sorted(about + others, key=lambda row: row.seq)

    # Steps

    def _churn(self) -> None:
        """Isolate some brokers until leaders remove them from the ISRs of some partitions."""
        alive = self._alive()
        cut = set(self._rng.sample(alive, max(1, len(alive) // 6)))
        behind: dict[TopicPartition, set[int]] = {}
        for tp, at in self._known().leaderships.items():
            lagging = cut.intersection(at.leader_and_isr.isr)
            is_led = at.leader_and_isr.leader not in (NO_LEADER, *cut)
            if tp.topic == KEPT and lagging and is_led and self._rng.random() < 0.6:
                behind[tp] = lagging
        self._lag(behind)
        self._world.run_for(self._rng.randrange(1_000, 3_000))
        self._catch_up(behind)

    def _lag(self, behind: Mapping[TopicPartition, set[int]]) -> None:
        """Isolate followers (broker ids keyed by partition) until they are not in the ISR.

        Records are produced only to these partitions; in the other partitions no replica lags.
        """
        self._isolate(set[int]().union(*behind.values()))
        for tp in behind:
            self._producer.send(tp, Counted(1, 1_000), self._clock.monotonic_ms())
        self._wait(lambda: all(behind[tp].isdisjoint(self._isr(tp)) for tp in behind))

    def _isolate(self, brokers: Collection[int]) -> None:
        """Stop replication between these brokers and all others."""
        cluster = self._world
        cluster.transport.faults = (isolation(brokers, cluster.spec.broker_ids),)

    def _catch_up(self, behind: Mapping[TopicPartition, set[int]]) -> None:
        """Undo ``_lag``, and wait until the followers are in the ISR again."""
        self._world.transport.heal()
        self._wait(lambda: all(behind[tp].issubset(self._isr(tp)) for tp in behind))

    def _elect(self) -> None:
        self._ask(ElectLeadersRequest(ElectionType.PREFERRED, None, _TIMEOUT_MS))

    def _reassign(self) -> None:
        """Undo an earlier reassignment. If there is none to undo, reassign some partitions."""
        if self._dead:
            return
        targets = {tp: self.assignments[tp] for tp in self._moved}
        self._moved.clear()
        if not targets:
            for tp in self._rng.sample(self._movable, -(-len(self._movable) // 10)):
                replicas = list(self.assignments[tp])
                others = [broker for broker in self._alive() if broker not in replicas]
                replicas[self._rng.randrange(len(replicas))] = self._rng.choice(others)
                targets[tp] = self._moved[tp] = tuple(replicas)
        if targets:
            self._ask(AlterPartitionReassignmentsRequest(targets))
        self._wait(lambda: not self._known().partitions_being_reassigned)

    def _delete(self) -> None:
        """Delete the topic DELETED, or create it again if it does not exist."""
        if self._missing or not self._of_topic(DELETED):
            self._create_missing()
            return
        self._missing = [DELETED]
        self._ask(DeleteTopicsRequest((DELETED,), _TIMEOUT_MS))

    def _fail(self, step: int) -> None:
        until = step + self._rng.randrange(1, 4)
        if self._rng.random() < _CONTROLLER_SHARE:
            if self._rng.random() < 0.5 or len(self._dead) >= _MAX_DEAD:
                self._move_controller()
            else:
                self._kill(self._controller(), until)
        elif len(self._dead) < _MAX_DEAD:
            others = [broker for broker in self._alive() if broker != self._controller()]
            self._kill(self._rng.choice(others), until)

    def _kill(self, broker: int, until: int) -> None:
        self._dead[broker] = until
        self._world.kill(broker)
        self._wait(
            lambda: (
                self._context() is not None
                and broker not in self._known().live_or_shutting_down_broker_ids
            )
        )

    def _return(self, broker: int) -> None:
        self._dead.pop(broker, None)
        self._world.start(broker)
        self._wait(lambda: broker in self._known().live_or_shutting_down_broker_ids)

    def _move_controller(self) -> None:
        epoch = self._known().epoch
        KafkaZkClient(self._store).delete(ControllerZNode.path)
        self._wait(lambda: self._context() is not None and self._known().epoch > epoch)

    def _heal(self) -> None:
        self._world.transport.heal()
        for broker in list(self._dead):
            self._return(broker)
        self._create_missing()
        if self._moved:
            self._reassign()
        self._wait(self._has_all_replicas_in_sync)
        self._elect()
        self._wait(self._is_healthy)

    def _create_missing(self) -> None:
        context = self._known()
        self._wait(lambda: not context.all_topics.intersection(self._missing))
        topics = tuple(
            CreatableTopic(topic, assignments={tp.partition: self.assignments[tp] for tp in tps})
            for topic in self._missing
            if (tps := self._of_topic(topic))
        )
        self._missing = []
        if topics:
            self._ask(CreateTopicsRequest(topics, _TIMEOUT_MS))
        self._wait(lambda: set(self._known().leaderships) == set(self.assignments))

    # Anomalies of the partition ANOMALOUS

    def _flap(self) -> None:
        behind = {ANOMALOUS: {self.assignments[ANOMALOUS][1]}}
        for _ in range(FLAPS):
            self._lag(behind)
            self._catch_up(behind)

    def _begin_stuck_reassignment(self) -> None:
        """Begin a reassignment to a broker that cannot replicate."""
        replicas = self.assignments[ANOMALOUS]
        added = min(set(self._alive()).difference(replicas))
        self._isolate([added])
        self._moved[ANOMALOUS] = (*replicas[:-1], added)
        self._ask(AlterPartitionReassignmentsRequest(dict(self._moved)))

    def _lose_leader(self, *, is_unclean: bool) -> None:
        """Restart the followers, which then do not catch up with the leader, and let it fail."""
        leader, *followers = self.assignments[ANOMALOUS]
        self._allow_unclean_elections(is_unclean)
        self._isolate(followers)
        for follower in followers:
            self._kill(follower, 0)
        for follower in followers:
            self._return(follower)
        self._kill(leader, 0)
        self._world.run_for(self._rng.randrange(1_000, 40_000))
        self._return(leader)
        self._heal()
        self._allow_unclean_elections(False)

    def _allow_unclean_elections(self, are_allowed: bool) -> None:
        config = {"unclean.leader.election.enable": str(are_allowed).lower()}
        KafkaZkClient(self._store).set_or_create_entity_configs("topics", KEPT, config)

    # State of the cluster

    def _of_topic(self, topic: str) -> list[TopicPartition]:
        return [tp for tp in self.assignments if tp.topic == topic]

    def _alive(self) -> list[int]:
        return sorted(broker.info.id for broker in brokers_of(self._world))

    def _context(self) -> ControllerContext | None:
        return self._world.controller_context

    def _known(self) -> ControllerContext:
        context = self._context()
        assert context is not None, "an active controller"
        return context

    def _controller(self) -> int:
        elected = (row for row in reversed(self._world.journal.rows) if row.kind == _ELECTED)
        return next(elected).controller

    def _isr(self, tp: TopicPartition) -> tuple[int, ...]:
        return self._known().leaderships[tp].leader_and_isr.isr

    def _has_all_replicas_in_sync(self) -> bool:
        leaderships = self._known().leaderships
        return all(
            tp in leaderships and set(leaderships[tp].leader_and_isr.isr) == set(replicas)
            for tp, replicas in self.assignments.items()
        )

    def _is_healthy(self) -> bool:
        leaderships = self._known().leaderships
        return self._has_all_replicas_in_sync() and all(
            leaderships[tp].leader_and_isr.leader == replicas[0]
            for tp, replicas in self.assignments.items()
        )

    def _ask(self, request: Request) -> None:
        """Send a request to the active controller, and wait for the response."""
        controller_id = KafkaZkClient(self._store).get_controller_id()
        assert controller_id is not None, "an active controller"
        to = Address("controller", controller_id)
        answer = self._client.send(self._world.transport, to, request)
        self._world.run_until(answer.done, timeout_ms=_TIMEOUT_MS)
        answer.result()

    def _wait(self, condition: Callable[[], bool]) -> None:
        for _ in range(_POLLS_MAX):
            if condition():
                return
            self._world.run_for(_POLL_MS)
        raise AssertionError("the simulated cluster did not reach the expected state")

    def _take(self) -> list[JournalRow]:
        self._world.run_for(60_000)
        rows = self._world.journal.rows[self._taken :]
        self._taken = len(self._world.journal.rows)
        first = min(row.epoch for row in rows if row.kind == _ELECTED)
        # A deposed controller may record its resignation after its successor was elected.
        return sorted((row for row in rows if row.epoch >= first), key=lambda row: row.epoch)
