"""Nobody is ahead of the truth by a law: any ends, pauses, cuts, networks, elections."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.data_requests import ProduceRequest
from cluster.records import CountedBatch
from cluster.requests import Address, Message
from runtime.transport import NetworkFaults
from tests.sim.constant_rates import IDS, GrowingCluster, T
from zk.kafka_zk_client import KafkaZkClient

BROKERS = st.sampled_from(IDS)
WAITS_MS = st.sampled_from((0.5, 3, 20, 60, 700, 8_000, 50_000))


class ConstantRates(RuleBasedStateMachine):
    """Faults may overlap; a record every half millisecond, so that few of them matter."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = GrowingCluster(records_per_s=2_000.0)
        self.world = self.cluster.world
        self.paused: list[int] = []

    @rule(wait_ms=WAITS_MS)
    def wait(self, wait_ms: float) -> None:
        self.world.run_for(wait_ms)

    @rule(broker_id=BROKERS, stops_cleanly=st.booleans())
    def end(self, broker_id: int, stops_cleanly: bool) -> None:
        if broker_id in self.world.nodes and broker_id not in self.paused:
            (self.world.stop if stops_cleanly else self.world.kill)(broker_id)

    @rule(broker_id=BROKERS)
    def start(self, broker_id: int) -> None:
        if broker_id not in self.world.nodes:
            self.world.start(broker_id)

    @rule(broker_id=BROKERS)
    def shut_down(self, broker_id: int) -> None:
        if broker_id in self.world.nodes and not self.paused:
            self.world.shut_down(broker_id)
            self.world.run_for(30_000)

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
    def heal_the_network(self) -> None:
        self.world.transport.heal()

    @rule(broker_id=BROKERS)
    def produce_a_batch(self, broker_id: int) -> None:
        request = ProduceRequest(-1, 30_000, {T[0]: CountedBatch(5, 500)})
        message = Message(Address("client", 7), Address("broker", broker_id), 1, request)
        self.world.transport.send(message)

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


TestConstantRates = ConstantRates.TestCase
TestConstantRates.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
