"""What holds of the state machines and the context after any sequence of moves and failures."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, repeat
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.requests import LeaderAndIsrRequest
from klamm.cluster.types import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import (
    ControlledShutdownElection,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import (
    apply_partition_state_changes,
    initialize_partition_states,
    plan_partition_state_changes,
)
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import (
    apply_replica_state_changes,
    initialize_replica_states,
    plan_replica_state_changes,
)
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from tests.unit.statemachines.build import snapshot

BROKERS = tuple(range(1, 6))
TOPICS = ("a", "b", "c")
PARTITIONS = [TopicPartition(topic, number) for topic in TOPICS for number in range(3)]

broker_ids = st.sampled_from(BROKERS)
replicas = st.lists(broker_ids, min_size=1, max_size=4, unique=True).map(tuple)
partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=6, unique=True)
topics = st.sampled_from(TOPICS)
elections = st.sampled_from(
    [
        OfflineElection(),
        OfflineElection(allow_unclean=True),
        ReassignElection(),
        PreferredReplicaElection(),
        ControlledShutdownElection(),
    ]
)
fates = st.lists(st.sampled_from(["stored", "failed", "retry"]), max_size=6)


def written(
    creates: dict[TopicPartition, LeaderAndIsr],
    updates: dict[TopicPartition, LeaderAndIsr],
    known: Collection[TopicPartition],
    fate: list[str],
) -> WriteOutcome:
    """Each write meets its fate, those beyond the list are stored: created with version 0, updated
    with the next version. What is known has a znode, so it cannot be created."""
    outcome = WriteOutcome({}, [])
    for tp, end in zip([*creates, *updates], chain(fate, repeat("stored")), strict=False):
        if end == "failed" or (tp in creates and tp in known):
            outcome.finished[tp] = StateChangeFailed("NONODE or NODEEXISTS")
        elif tp in creates:
            outcome.finished[tp] = creates[tp]
        elif end == "retry":
            outcome.retry.append(tp)
        else:
            outcome.finished[tp] = updates[tp].with_zk_version(updates[tp].zk_version + 1)
    return outcome


class Moves(RuleBasedStateMachine):
    """A controller's life without a ZooKeeper: any move is tried in any state."""

    def __init__(self) -> None:
        super().__init__()
        self.context = ControllerContext(controller_id=1)
        self.batch = ControllerBrokerRequestBatch(self.context, 1)

    @initialize(ids=st.sets(broker_ids, min_size=3), led=st.lists(replicas, min_size=9, max_size=9))
    def start(self, ids: set[int], led: list[tuple[int, ...]]) -> None:
        self.context.epoch = 1
        self.context.set_live_brokers({Broker(broker_id): broker_id for broker_id in ids})
        for tp, replicas in zip(PARTITIONS, led, strict=True):
            self.assign([tp], replicas)
        self.initialize_states()
        self.move_partitions(PARTITIONS, PartitionState.ONLINE, OfflineElection(), [])

    @rule(broker_id=broker_ids)
    def broker_comes(self, broker_id: int) -> None:
        self.context.add_live_brokers({Broker(broker_id): broker_id})

    @rule(broker_id=broker_ids)
    def broker_goes(self, broker_id: int) -> None:
        self.context.remove_live_brokers([broker_id])
        self.context.remove_shutting_down_brokers([broker_id])

    @rule(broker_id=broker_ids)
    def broker_shuts_down(self, broker_id: int) -> None:
        self.context.add_shutting_down_broker(broker_id)

    @rule(broker_id=broker_ids, failed=partitions)
    def directory_fails(self, broker_id: int, failed: list[TopicPartition]) -> None:
        self.context.replicas_on_offline_dirs[broker_id] = set(failed)

    @rule(broker_id=broker_ids)
    def directory_is_repaired(self, broker_id: int) -> None:
        self.context.replicas_on_offline_dirs.pop(broker_id, None)

    @rule(tps=partitions, to=replicas)
    def assign(self, tps: list[TopicPartition], to: tuple[int, ...]) -> None:
        for tp in tps:
            self.context.all_topics.add(tp.topic)
            self.context.update_partition_full_replica_assignment(tp, ReplicaAssignment(to))

    @rule(tps=partitions, to=replicas)
    def reassign(self, tps: list[TopicPartition], to: tuple[int, ...]) -> None:
        for tp in tps:
            if tp in self.context.assignments:
                assignment = self.context.assignments[tp].reassign_to(to)
                self.context.update_partition_full_replica_assignment(tp, assignment)

    @rule(topic=topics)
    def queue_deletion(self, topic: str) -> None:
        self.context.queue_topic_deletion([topic])

    @rule(topic=topics)
    def begin_deletion(self, topic: str) -> None:
        self.context.begin_topic_deletion([topic])

    @rule(topic=topics)
    def remove(self, topic: str) -> None:
        self.context.remove_topic(topic)
        left = [tp for tp in PARTITIONS if tp.topic == topic]
        for held in (self.context.assignments, self.context.leaderships):
            assert not any(tp in held for tp in left)

    @rule()
    def initialize_states(self) -> None:
        initialize_partition_states(self.context)
        initialize_replica_states(self.context)

    @rule(tps=partitions, to=st.sampled_from(PartitionState), election=elections, fate=fates)
    def move_partitions(
        self, tps: list[TopicPartition], to: PartitionState, election: Any, fate: list[str]
    ) -> None:
        context = self.context
        tps = [tp for tp in tps if tp in context.assignments]
        before, states = snapshot(context), {tp: context.partition_state(tp) for tp in tps}
        plan = plan_partition_state_changes(context, tps, to, election)
        assert snapshot(context) == before, "planning changes nothing"
        creates = {tp: created.leader_and_isr for tp, created in plan.creates.items()}
        results = written(creates, plan.leader_and_isrs, context.leaderships, fate)
        outcome = apply_partition_state_changes(context, plan, self.batch, results)

        moved = {change.topic_partition for change in outcome.changes}
        ends = [*moved, *outcome.failures, *outcome.invalid, *outcome.retries]
        assert sorted(ends) == sorted(tps)
        for tp in tps:
            legal = states[tp] in partition_state.PREVIOUS[to]
            assert (tp in outcome.invalid) is not legal
            assert context.partition_state(tp) is (to if tp in moved else states[tp])
            self.check_written(tp, before["leaderships"].get(tp))
        if not moved:
            assert snapshot(context) == before and self.batch.is_empty
        self.send()

    @rule(broker_id=broker_ids, tps=partitions, to=st.sampled_from(ReplicaState), fate=fates)
    def move_replicas(
        self, broker_id: int, tps: list[TopicPartition], to: ReplicaState, fate: list[str]
    ) -> None:
        context = self.context
        tps = [tp for tp in tps if tp in context.assignments]
        before = snapshot(context)
        states = {tp: context.replica_state(broker_id, tp) for tp in tps}
        plan = plan_replica_state_changes(context, broker_id, tps, to)
        assert snapshot(context) == before, "planning changes nothing"
        outcome = apply_replica_state_changes(
            context, plan, self.batch, written({}, plan.updates, (), fate)
        )

        moved = {tp for group in outcome.changes for tp in group.partitions}
        ends = [*moved, *outcome.failures, *outcome.invalid, *outcome.retries, *plan.asked]
        assert sorted(ends) == sorted(tps)
        for tp in tps:
            legal = states[tp] in replica_state.PREVIOUS[to]
            assert (tp in outcome.invalid) is not legal
            assert context.replica_state(broker_id, tp) is (to if tp in moved else states[tp])
            self.check_written(tp, before["leaderships"].get(tp))
        assert set(plan.asked) <= context.replicas_on_offline_dirs.get(broker_id, set())
        if not (moved or outcome.retries or outcome.failures or plan.asked):
            assert self.batch.is_empty
        self.send()

    def check_written(self, tp: TopicPartition, before: Any) -> None:
        """A write raises the leader epoch by one, keeps a member in the ISR and a leader of it."""
        after = self.context.partition_leadership_info(tp)
        if after is None or before is None:
            assert (
                after is None
                or after.leader_and_isr.leader_epoch == after.leader_and_isr.zk_version == 0
            )
            return
        state, old = after.leader_and_isr, before.leader_and_isr
        assert state.isr
        assert state.leader == -1 or state.leader in state.isr
        assert state.leader_epoch - old.leader_epoch == state.zk_version - old.zk_version
        assert state.zk_version - old.zk_version in (0, 1)
        assert (state == old) is (state.zk_version == old.zk_version)

    def send(self) -> None:
        """What is sent of a leader is what the context holds of it."""
        for _, request in self.batch.drain():
            if isinstance(request, LeaderAndIsrRequest):
                for sent in request.partition_states:
                    known = self.context.leaderships[sent.topic_partition].leader_and_isr
                    assert known == LeaderAndIsr(
                        sent.leader, sent.leader_epoch, sent.isr, sent.zk_version
                    )
        assert self.batch.is_empty
        self.batch.new_batch()

    @invariant()
    def counts_are_as_counted_afresh(self) -> None:
        assert self.context.counts() == self.context.recount()

    @invariant()
    def indices_are_as_the_assignments(self) -> None:
        context = self.context
        for broker_id in BROKERS:
            on_broker = {tp for tp, a in context.assignments.items() if broker_id in a.replicas}
            assert set(context.replicas_on_broker(broker_id)) == on_broker
        for topic in TOPICS:
            of_topic = {tp for tp in context.assignments if tp.topic == topic}
            assert set(context.partitions_for_topic(topic)) == of_topic


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=100, stateful_step_count=60)
