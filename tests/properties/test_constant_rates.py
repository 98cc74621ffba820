"""No replica is ahead of its leader by a schedule: any ends, pauses, cuts, networks, elections."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import Address, Message
from tests.sim.constant_rates import GrowingCluster, T
from tests.sim.faults import BROKERS, Faults

WAITS_MS = st.sampled_from((0.5, 3, 20, 60, 700, 8_000, 50_000))


class ConstantRates(Faults[GrowingCluster]):
    """Faults may overlap; a record every half millisecond, so that few of them matter."""

    def make(self) -> GrowingCluster:
        return GrowingCluster(records_per_s=2_000.0)

    @rule(wait_ms=WAITS_MS)
    def wait(self, wait_ms: float) -> None:
        self.world.run_for(wait_ms)

    @rule(broker_id=BROKERS)
    def shut_down(self, broker_id: int) -> None:
        if broker_id in self.world.nodes and not self.paused:
            self.world.shut_down(broker_id)
            self.world.run_for(30_000)

    @rule()
    def heal_the_network(self) -> None:
        self.world.transport.heal()

    @rule(broker_id=BROKERS)
    def produce_a_batch(self, broker_id: int) -> None:
        request = ProduceRequest(-1, 30_000, {T[0]: CountedBatch(5, 500)})
        message = Message(Address("client", 7), Address("broker", broker_id), 1, request)
        self.world.transport.send(message)


TestConstantRates = ConstantRates.TestCase
TestConstantRates.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
