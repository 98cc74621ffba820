"""Invariants after every event: each finds a violation planted into a running cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from klamm.brokers.kafka_apis import ControlApis
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.quirks import NO_QUIRKS, Quirks, parse_quirks
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import (
    Address,
    AlterIsrResponse,
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.types import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from klamm.controller import on_alter_isr
from klamm.controller.events import TopicChange
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.checks.watching import Watcher
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, Verdict, play, verdict_of
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Check, Create, Delete, SetData
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.sim.faults import cut_off
from tests.sim.worlds import active_controller, create_topic, state_of

T0 = TopicPartition("t", 0)
CLIENT = Address("client", 0)


class Planted:
    """Brokers 0 to 2 with t-0 on all and d-0 on broker 2; 0 is the controller, and leads t-0.

    Records are acknowledged, and every invariant holds so far."""

    def __init__(self, quirks: Quirks) -> None:
        self.world = world = SimulatedWorld(ClusterSpec(broker_ids=(0, 1, 2), quirks=quirks))
        self.watcher = Watcher(world, list(INVARIANTS))
        self._sent = 0
        for broker_id in world.spec.broker_ids:
            world.start(broker_id)
            world.run_for(1_000)
        create_topic(world, "t", {0: (0, 1, 2)})
        create_topic(world, "d", {0: (2,)})
        world.run_for(1_000)
        world.transport.register(CLIENT, lambda _: None)
        self.produce(0, 5)
        # Broker 1 rejoins the ISR.
        world.kill(1)
        world.run_for(10_000)
        world.start(1)
        world.run_for(5_000)
        assert self.watcher.violations == []
        assert self.state().isr == (0, 2, 1)
        assert self.partition(0).high_watermark == 5

    def produce(self, broker_id: int, count: int = 1) -> None:
        """Send a batch to a broker."""
        self._sent += 1
        body = ProduceRequest(-1, 30_000, {T0: CountedBatch(count, count * 100)})
        self.world.transport.send(Message(CLIENT, Address("broker", broker_id), self._sent, body))

    def state(self) -> LeaderAndIsr:
        """What ZooKeeper has of t-0."""
        return state_of(self.world, *T0)

    def partition(self, broker_id: int) -> Partition:
        """A replica of t-0."""
        return self.world.nodes[broker_id].node.broker.replica_manager.partitions[T0]

    def write(self, *operations: Any, broker_id: int = 0) -> None:
        """Write in one transaction of a broker's session."""
        self.world.nodes[broker_id].store.write([operations])

    def write_state(
        self,
        leader: int = 0,
        isr: tuple[int, ...] = (0, 2, 1),
        epoch: int | None = None,
        controller_epoch: int = 1,
        broker_id: int = 0,
    ) -> None:
        """Write the state of t-0; ``epoch`` None: the present leader epoch."""
        epoch = self.state().leader_epoch if epoch is None else epoch
        data = TopicPartitionStateZNode.encode(LeaderAndIsr(leader, epoch, isr), controller_epoch)
        self.write(SetData(TopicPartitionStateZNode.path(T0), data), broker_id=broker_id)

    @property
    def epoch(self) -> int:
        """The leader epoch of t-0 in ZooKeeper."""
        return self.state().leader_epoch

    def write_topic(self, topic: str, **fields: object) -> None:
        """Change fields of a topic znode."""
        path = f"/brokers/topics/{topic}"
        node = json.loads(self.world.server.tree.nodes[path].data or b"")
        self.write(SetData(path, json.dumps(node | fields).encode()))

    def delete_topic(self, topic: str) -> None:
        """Delete the znodes of a topic with one partition."""
        root = f"/brokers/topics/{topic}"
        below = ("/partitions/0/state", "/partitions/0", "/partitions", "")
        self.write(*(Delete(f"{root}{path}") for path in below))

    def queue(self, broker_id: int, request: ControlRequest) -> None:
        """Let the controller queue a request."""
        for tap in self.world.request_taps:
            tap(broker_id, request)

    def leader_and_isr(self, broker_id: int, **fields: Any) -> None:
        """Queue a LeaderAndIsr request with the present state of t-0, changed as ``fields`` say."""
        now = self.state()
        values: dict[str, Any] = {
            "topic_partition": T0,
            "controller_epoch": 1,
            "leader": now.leader,
            "leader_epoch": now.leader_epoch,
            "isr": now.isr,
            "zk_version": now.zk_version,
            "replicas": (0, 1, 2),
        }
        broker_epoch = fields.pop("broker_epoch", self.broker_epoch(broker_id))
        state = LeaderAndIsrPartitionState(**values | fields)
        self.queue(broker_id, LeaderAndIsrRequest(0, 1, broker_epoch, (state,), {}, ()))

    def broker_epoch(self, broker_id: int) -> int:
        """The broker epoch of a broker."""
        return self.world.nodes[broker_id].node.broker.broker_epoch

    def change_state(self, broker_id: int, **fields: Any) -> None:
        """Change what a broker knows of t-0, and give it an event that names t-0."""
        partition = self.partition(broker_id)
        assert partition.state is not None
        partition.state = msgspec.structs.replace(partition.state, **fields)
        self.touch(broker_id)

    def touch(self, broker_id: int) -> None:
        """Give a broker an event that names t-0."""
        self.produce(broker_id)
        self.world.run_for(100)

    def truncate(self, broker_id: int) -> None:
        """Let a replica lose its records."""
        log = self.partition(broker_id).log
        assert log is not None
        log.truncate_to(0)


def _isr_of_the_dead(cluster: Planted) -> None:
    cluster.world.kill(2)
    cluster.world.run_for(10_000)
    cluster.write_state(isr=(0, 1, 2))


def _isr_of_the_shut_down(cluster: Planted) -> None:
    cluster.world.shut_down(2)
    assert cluster.world.run_until(lambda: 2 not in cluster.state().isr)
    assert cluster.world.run_until(lambda: 2 in cluster.watcher._history.shut_down)
    cluster.write_state(isr=(0, 1, 2))


def _unclean_election(cluster: Planted) -> None:
    cluster.write_state(isr=(0,))
    cluster.write_state(leader=1, isr=(1,), epoch=cluster.epoch + 1)


def _isr_that_an_election_grows(cluster: Planted) -> None:
    cluster.write_state(isr=(0, 1))
    cluster.write_state(isr=(0, 1, 2), epoch=cluster.epoch + 1)


def _early_end_of_a_reassignment(cluster: Planted) -> None:
    cluster.write_topic("d", partitions={"0": [0, 2]}, adding_replicas={"0": [0]})
    cluster.write_topic("d", partitions={"0": [0, 2]}, adding_replicas={})


def _deletion_in_a_reassignment(cluster: Planted) -> None:
    cluster.write_topic("d", partitions={"0": [2, 0]}, adding_replicas={"0": [0]})
    cluster.delete_topic("d")


def _older_epoch(cluster: Planted) -> None:
    cluster.leader_and_isr(1, leader_epoch=9)
    cluster.leader_and_isr(1)


def _stop_without_a_new_epoch(cluster: Planted) -> None:
    stop = StopReplicaPartitionState(T0, cluster.epoch, True)
    cluster.queue(1, StopReplicaRequest(0, 1, cluster.broker_epoch(1), (stop,)))


def _request_of_another_controller(cluster: Planted) -> None:
    cluster.queue(2, UpdateMetadataRequest(1, 1, cluster.broker_epoch(2), (), (), {}))


def _send(cluster: Planted, controller_epoch: int, broker_epoch: int) -> None:
    alive = tuple(cluster.world.spec.broker_info(n) for n in (0, 1, 2))
    body = UpdateMetadataRequest(0, controller_epoch, broker_epoch, (), alive, {})
    message = Message(Address("controller", 0), Address("broker", 1), 12_345, body)
    cluster.world.transport.send(message)
    cluster.world.run_for(100)


def _stale_controller(cluster: Planted) -> None:
    manager = cluster.world.nodes[1].node.broker.replica_manager
    _send(cluster, 7, cluster.broker_epoch(1))
    manager.controller_epoch = 0
    _send(cluster, 1, cluster.broker_epoch(1))


def _stale_registration(cluster: Planted) -> None:
    _send(cluster, 1, cluster.broker_epoch(1) - 1)


def _shutdown(cluster: Planted) -> None:
    cluster.world.shut_down(2)
    cluster.world.run_for(2_000)


def _isolation(cluster: Planted) -> None:
    cluster.world.transport.faults = (cut_off(cluster.world, 2),)
    cluster.produce(0, 5)
    cluster.world.run_for(60_000)


def _lost_records_of_a_follower(cluster: Planted) -> None:
    cluster.truncate(1)
    cluster.touch(0)


def _lost_records_of_the_leader(cluster: Planted) -> None:
    cluster.truncate(0)
    cluster.touch(0)


def _other_records(cluster: Planted) -> None:
    cluster.truncate(1)
    log: Any = cluster.partition(1).log
    log.append_analytically(77, 5, 100, 0)
    cluster.touch(0)


def _high_watermark(cluster: Planted, value: int) -> None:
    partition = cluster.partition(0)
    # The leader waits until its followers fetch again.
    partition.high_watermark, partition.known = value, ()
    cluster.touch(0)


def _second_leader(cluster: Planted) -> None:
    cluster.change_state(1, leader=1)


def _older_applied_epoch(cluster: Planted) -> None:
    cluster.change_state(1, leader_epoch=9)
    cluster.change_state(1, leader_epoch=0)


def _event(cluster: Planted) -> None:
    """Let the controller process an event in which nothing has changed."""
    active_controller(cluster.world).events.put(TopicChange())
    cluster.world.run_for(100)


def _unsent_request(cluster: Planted) -> None:
    active_controller(cluster.world).batch.add_update_metadata_request_for_brokers((1,), ())
    _event(cluster)


def _fenced_write(cluster: Planted) -> None:
    cluster.write(SetData("/controller_epoch", b"2"))
    _isolation(cluster)


def _unknown_live_brokers(cluster: Planted) -> None:
    cluster.queue(2, UpdateMetadataRequest(0, 1, cluster.broker_epoch(2), (), (), {}))
    _event(cluster)


def _failed_log_dir_of_the_dead(cluster: Planted) -> None:
    cluster.world.kill(2)
    cluster.world.run_for(10_000)
    failure = b'{"version": 1, "broker": 2, "event": 1}'
    cluster.write(Create("/log_dir_event_notification/log_dir_event_0000000009", failure))
    cluster.world.run_for(100)


def _remember(cluster: Planted, leader: int) -> None:
    """Change the leader of t-0 in the memory of the controller."""
    known = LeaderAndIsr(leader, cluster.epoch, cluster.state().isr, cluster.state().zk_version)
    leadership = LeaderIsrAndControllerEpoch(known, 1)
    active_controller(cluster.world).context.put_partition_leadership_info(T0, leadership)


def _leaderless_partition(cluster: Planted) -> None:
    cluster.write_state(leader=-1, epoch=cluster.epoch + 1)
    _remember(cluster, -1)
    _event(cluster)


def _imbalance(cluster: Planted) -> None:
    context = active_controller(cluster.world).context
    context.partitions_being_reassigned.add(TopicPartition("d", 0))
    _remember(cluster, 1)
    cluster.world.run_for(300_000)


def _log_without_the_epoch(cluster: Planted) -> None:
    cluster.change_state(0, leader_epoch=9)
    log: Any = cluster.partition(0).log
    log.epochs = ()
    body = AlterIsrResponse(Errors.NONE, {T0: Errors.FENCED_LEADER_EPOCH})
    message = Message(Address("controller", 0), Address("broker", 0), 12_345, body)
    cluster.world.transport.send(message)
    cluster.world.run_for(100)


PLANTS: Mapping[str, Callable[[Planted], None]] = {
    "isr-is-not-empty": lambda c: c.write_state(leader=-1, isr=(), epoch=c.epoch + 1),
    "leader-is-in-isr": lambda c: c.write_state(isr=(1, 2)),
    "isr-grows-by-assigned-replicas": lambda c: c.write_state(isr=(0, 1, 2, 7)),
    "isr-grows-by-live-brokers": _isr_of_the_dead,
    "shut-down-brokers-stay-out": _isr_of_the_shut_down,
    "leader-epoch-rises-by-one": lambda c: c.write_state(epoch=c.epoch + 2),
    "leader-change-raises-epoch": lambda c: c.write_state(leader=1),
    "epoch-has-one-leader": lambda c: c.write_state(leader=1),
    "elections-are-clean": _unclean_election,
    "elections-do-not-grow-the-isr": _isr_that_an_election_grows,
    "states-have-the-current-epoch": lambda c: c.write_state(controller_epoch=0),
    "only-the-elected-write": lambda c: c.write_state(broker_id=1),
    "election-is-one-transaction": lambda c: c.write(SetData("/controller_epoch", b"2")),
    "controller-epoch-rises-by-one": lambda c: c.write(SetData("/controller_epoch", b"3")),
    "topic-id-is-kept": lambda c: c.write_topic("t", topic_id="another"),
    "partitions-are-kept": lambda c: c.write_topic("t", partitions={}),
    "moving-replicas-are-replicas": lambda c: c.write_topic("t", adding_replicas={"0": [7]}),
    "reassignments-end-in-sync": _early_end_of_a_reassignment,
    "replicas-change-by-reassignment": lambda c: c.write_topic("t", partitions={"0": [0, 1]}),
    "deletion-waits-for-replicas": lambda c: c.delete_topic("d"),
    "deletion-waits-for-reassignments": _deletion_in_a_reassignment,
    "requests-carry-stored-states": lambda c: c.leader_and_isr(1, isr=(0,)),
    "requests-have-their-controllers-epoch": _request_of_another_controller,
    "metadata-comes-first": lambda c: c.leader_and_isr(1, broker_epoch=12_345),
    "leader-and-isr-goes-to-replicas": lambda c: c.leader_and_isr(1, replicas=(0, 2)),
    "sent-epochs-do-not-decrease": _older_epoch,
    "stop-replica-has-a-new-epoch": _stop_without_a_new_epoch,
    "shutdown-stops-followers": _shutdown,
    "stale-controllers-are-refused": _stale_controller,
    "stale-broker-epochs-are-refused": _stale_registration,
    "accepted-isrs-are-stored": _isolation,
    "batches-are-sent": _unsent_request,
    "fenced-controllers-resign": _fenced_write,
    "brokers-know-live-brokers": _unknown_live_brokers,
    "offline-replicas-stay-offline": _failed_log_dir_of_the_dead,
    "online-partitions-have-leaders": _leaderless_partition,
    "preferred-leaders-are-elected": _imbalance,
    "weak-isr": _lost_records_of_a_follower,
    "strong-isr": _lost_records_of_a_follower,
    "isr-reaches-high-watermark": _lost_records_of_a_follower,
    "maximal-isr-covers-the-isr": lambda c: c.change_state(0, isr=(0,)),
    "high-watermark-is-in-the-log": lambda c: _high_watermark(c, 1_000),
    "high-watermark-follows-the-isr": _isolation,
    "leaders-know-their-epoch": _log_without_the_epoch,
    "leader-was-elected": _second_leader,
    "applied-epoch-does-not-decrease": _older_applied_epoch,
    "log-matching": _other_records,
    "leader-completeness": _lost_records_of_the_leader,
    "high-watermark-does-not-decrease": lambda c: _high_watermark(c, 0),
    "one-broker-leads-an-epoch": _second_leader,
}
QUIRKS = {
    "shutdown-stops-followers": "C7",
    "fenced-controllers-resign": "C5",
    "offline-replicas-stay-offline": "C10",
    "preferred-leaders-are-elected": "KAFKA-10149",
    "high-watermark-follows-the-isr": "KAFKA-13091",
}
"""Violations that are a known bug of Kafka 2.8.2."""


def break_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the code, for a violation that a changed state cannot show."""
    handle = ControlApis.handle
    if name == "stale-broker-epochs-are-refused":
        monkeypatch.setattr(ControlApis, "handle", lambda apis, asked, _: handle(apis, asked, -1))
    if name == "accepted-isrs-are-stored":
        monkeypatch.setattr(on_alter_isr, "_answer_without_writing", lambda *args: args[2])


def test_every_invariant_has_a_violation() -> None:
    assert list(PLANTS) == list(INVARIANTS)


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_planted_violation_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quirks = parse_quirks([QUIRKS[name]] if name in QUIRKS else [])
    cluster = Planted(quirks)
    break_code(name, monkeypatch)
    PLANTS[name](cluster)
    found = {violation.name for violation in cluster.watcher.violations}
    assert name in found, cluster.watcher.violations


ALLOWED = {
    "cluster": "config: {unclean.leader.election.enable: 'true'}, topics: {t: [[1, 2]]}",
    "topic": "topics: {t: {replicas: [[1, 2]], config: {unclean.leader.election.enable: 'true'}}}",
    "neither": "topics: {t: [[1, 2]]}",
}


@pytest.mark.parametrize("allowed", ALLOWED)
def test_unclean_elections_that_are_enabled_are_no_violation(allowed: str) -> None:
    drill = parse_drill(
        "drill: d\nabout: x\nalways: [elections-are-clean, elections-do-not-grow-the-isr]\n"
        f"cluster: {{{ALLOWED[allowed]}}}\n"
        "steps:\n  - kill: 2\n  - wait: 9s\n  - kill: 1\n  - wait: 9s\n  - start: 2\n  - wait: 9s\n"
        "  - expect: {leader: {t-0: %s}}\n" % ("-1" if allowed == "neither" else "2"),
        "d.yaml",
    )
    driver = SimulatedDriver(drill.simulated_world(parse_quirks([]), 0))
    verdict = [part for part in play(drill, driver) if isinstance(part, Verdict)][-1]
    assert verdict.outcome is Outcome.PASSED, verdict.failures


def test_replicas_that_a_tool_changed_are_restored() -> None:
    drill = parse_drill(
        "drill: d\nabout: x\nalways: all\ncluster: {topics: {t: [[0, 1]]}}\n"
        "steps:\n  - set_topic_partitions: {t-0: [1, 2]}\n    until: {replicas: {t-0: [0, 1]}}\n",
        "d.yaml",
    )
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    verdict = verdict_of(play(drill, driver))
    assert verdict.outcome is Outcome.PASSED, verdict.failures


@pytest.mark.parametrize(
    "step", ["wait: 9s", "{at: 9s, kill: 2}", "parallel: [wait: 9s, wait: 9s]"]
)
def test_a_violation_ends_a_drill_and_says_when(step: str) -> None:
    drill = parse_drill(
        "drill: d\nabout: x\nalways: [leader-is-in-isr, isr-is-not-empty]\n"
        f"cluster: {{topics: {{t: [[0, 1]]}}}}\nsteps:\n  - {step}\n",
        "d.yaml",
    )
    world = drill.simulated_world(NO_QUIRKS, 0)
    played = play(drill, SimulatedDriver(world))
    next(played)
    next(played)
    data = TopicPartitionStateZNode.encode(LeaderAndIsr(1, 1, (0,)), 1)
    world.nodes[0].store.write([[SetData(TopicPartitionStateZNode.path(T0), data)]])
    verdict = next(played)
    assert isinstance(verdict, Verdict)
    (failure,) = verdict.failures
    assert verdict.outcome is Outcome.UNSAFE
    assert failure.expected == ("always leader-is-in-isr: The leader of a partition is in its ISR.")
    assert failure.seen.startswith("t-0: the leader is not in the ISR: leader 1, epoch 1, ISR [0]")
    assert f"at 4.000 s, journal row {len(world.journal.rows)}" in failure.seen


def test_writes_of_tools_are_not_judged() -> None:
    cluster = Planted(NO_QUIRKS)
    store = cluster.world.open_store()
    store.write([[SetData("/brokers/topics/t", b'{"version": 3, "partitions": {}}')]])
    store.close()
    assert cluster.watcher.violations == []


def test_an_event_in_which_a_controller_crashed_is_not_held_against_the_next_one() -> None:
    cluster = Planted(NO_QUIRKS)
    world = cluster.world
    for broker_id in (1, 2):
        world.kill(broker_id)
    for tap in world.server.rejection_taps:
        tap(world.nodes[0].store.session_id, Check("/controller_epoch", 0))
    world.kill(0)
    world.run_for(10_000)
    world.start(0)
    world.run_for(10_000)
    assert active_controller(world).config.broker_id == 0
    assert cluster.watcher.violations == []


def test_a_broker_that_died_before_the_election_of_the_controller_joins_no_isr() -> None:
    cluster = Planted(NO_QUIRKS)
    cluster.world.kill(2)
    cluster.world.run_for(10_000)
    cluster.world.open_store().write([[Delete("/controller")]])
    cluster.world.run_for(1_000)
    assert cluster.watcher.violations == []
    new = active_controller(cluster.world)
    broker_id, epoch = new.config.broker_id, new.context.epoch
    isr = (*cluster.state().isr, 2)
    cluster.write_state(isr=isr, controller_epoch=epoch, broker_id=broker_id)
    assert cluster.watcher.violations[0][0] == "isr-grows-by-live-brokers"
