"""Nothing acknowledged is lost: any sequence of produce, ends of brokers, elections and networks.

A broker that loses what it had not flushed is tolerated while another member of the ISR lives: a
record acknowledged with acks -1 survives while one member of the ISR does.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.data_requests import Acks
from runtime.transport import NetworkFaults
from tests.sim.replication import IDS, Cluster
from zk.kafka_zk_client import KafkaZkClient

BROKERS = st.sampled_from(IDS)
ACKS: st.SearchStrategy[Acks] = st.sampled_from((-1, -1, 1, 0))
SMALL_SEGMENTS = {"log.segment.bytes": "4000", "log.index.size.max.bytes": "1200"}
WAITS_MS = st.sampled_from((1, 5, 50, 700, 8_000, 50_000))


class Replication(RuleBasedStateMachine):
    """Faults may overlap, but for the losses of unflushed records."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = self.make()
        self.world = self.cluster.world
        self.paused: list[int] = []

    def make(self) -> Cluster:
        return Cluster()

    @rule(broker_id=BROKERS, count=st.integers(1, 20), acks=ACKS)
    def produce(self, broker_id: int, count: int, acks: Acks) -> None:
        self.cluster.produce(broker_id, count, acks)

    @rule(count=st.integers(1, 20))
    def produce_to_the_leader(self, count: int) -> None:
        leader = self.cluster.state().leader
        if leader >= 0:
            self.cluster.produce(leader, count)

    @rule(wait_ms=WAITS_MS)
    def wait(self, wait_ms: float) -> None:
        self.world.run_for(wait_ms)

    @rule(broker_id=BROKERS, stops_cleanly=st.booleans())
    def end(self, broker_id: int, stops_cleanly: bool) -> None:
        if broker_id in self.world.nodes and broker_id not in self.paused:
            (self.world.stop if stops_cleanly else self.world.kill)(broker_id)

    @rule(broker_id=BROKERS)
    def stop_the_machine(self, broker_id: int) -> None:
        isr = self.cluster.state().isr
        others = [b for b in isr if b != broker_id and b in self.world.nodes]
        if broker_id not in self.world.nodes or self.paused or not others:
            return
        self.world.kill(broker_id, loses_unflushed=True)
        assert self.world.run_until(lambda: broker_id not in self.cluster.state().isr)

    @rule(broker_id=BROKERS)
    def start(self, broker_id: int) -> None:
        if broker_id not in self.world.nodes:
            self.world.start(broker_id)

    @rule(broker_id=BROKERS)
    def pause(self, broker_id: int) -> None:
        if broker_id in self.world.nodes and not self.paused:
            self.world.pause(broker_id)
            self.paused.append(broker_id)

    @precondition(lambda self: self.paused)
    @rule()
    def resume(self) -> None:
        self.world.resume(self.paused.pop())

    @rule(broker_id=BROKERS)
    def expire_session(self, broker_id: int) -> None:
        running = self.world.nodes.get(broker_id)
        if running is not None and running.node.broker.broker_epoch >= 0:
            self.world.expire_session(broker_id)

    @rule(isolated=st.sampled_from(((), (0,), (1,), (2,))))
    def cut_off(self, isolated: tuple[int, ...]) -> None:
        self.world.transport.isolated = isolated

    @rule(seed=st.integers(0, 20))
    def change_the_network(self, seed: int) -> None:
        self.world.transport.faults = NetworkFaults.drawn(random.Random(seed))

    @rule()
    def move_the_controller(self) -> None:
        store = self.world.open_store()
        KafkaZkClient(store).delete("/controller")
        store.close()

    @invariant()
    def nothing_is_broken(self) -> None:
        self.cluster.check()

    def teardown(self) -> None:
        while self.paused:
            self.world.resume(self.paused.pop())
        self.cluster.heal()


class FileReplication(Replication):
    """The same with logs of files, in a folder that is removed at the end."""

    def make(self) -> Cluster:
        self.folder = Path(tempfile.mkdtemp(prefix="klamm-replication-"))
        return Cluster(segments=self.folder, config=SMALL_SEGMENTS)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.cluster.close()
            shutil.rmtree(self.folder)


TestReplication = Replication.TestCase
TestFileReplication = FileReplication.TestCase


def _settings(max_examples: int) -> settings:
    return settings(
        max_examples=max_examples,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


TestReplication.settings = _settings(30)
TestFileReplication.settings = _settings(8)
