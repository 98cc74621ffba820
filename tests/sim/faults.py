"""What may happen to a simulated cluster, as rules for hypothesis: ends, pauses, cuts, elections.

Says what goes wrong, not what must hold then: the cluster checks itself.
"""

from __future__ import annotations

import random
from typing import Generic, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.world.network import LinkFault, Traffic, isolation
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient

BROKERS = st.sampled_from((0, 1, 2))


def degraded(**rates: float) -> LinkFault:
    """Loss, repetition and reordering of all messages with records."""
    return LinkFault(is_degraded=True, only=Traffic.RECORDS, **rates)  # type: ignore[arg-type]


def cut_off(world: SimulatedWorld, *broker_ids: int) -> LinkFault:
    """The isolation of brokers from all others."""
    return isolation(broker_ids, world.spec.broker_ids)


def drawn_network(rng: random.Random) -> LinkFault:
    """Another network for another seed, mostly a good one."""
    return degraded(
        loss=rng.choice((0.0, 0.01, 0.1)),
        repetition=rng.choice((0.0, 0.01, 0.1)),
        reordering=rng.choice((0.0, 0.01, 0.3)),
    )


class CheckedCluster(Protocol):
    """Brokers 0 to 2 of a world, and whoever knows what must hold there."""

    world: SimulatedWorld

    def check(self) -> None:
        """Fail on what is broken now."""
        ...

    def heal(self) -> None:
        """End all faults, and fail unless the cluster recovers."""
        ...


C = TypeVar("C", bound=CheckedCluster)


class Faults(RuleBasedStateMachine, Generic[C]):
    """Faults of the cluster that ``make`` gives; they may overlap, but one broker is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.paused: list[int] = []
        self.cluster = self.make()
        self.world = self.cluster.world

    def make(self) -> C:
        """The cluster, fresh."""
        raise NotImplementedError

    @rule(broker_id=BROKERS, stops_cleanly=st.booleans())
    def end(self, broker_id: int, stops_cleanly: bool) -> None:
        if broker_id in self.world.nodes and broker_id not in self.paused:
            (self.world.stop if stops_cleanly else self.world.kill)(broker_id)

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
    def isolate(self, isolated: tuple[int, ...]) -> None:
        degrading = [fault for fault in self.world.transport.faults if fault.is_degraded]
        self.world.transport.faults = (cut_off(self.world, *isolated), *degrading)

    @rule(seed=st.integers(0, 20))
    def change_the_network(self, seed: int) -> None:
        cuts = [fault for fault in self.world.transport.faults if not fault.is_degraded]
        self.world.transport.faults = (*cuts, drawn_network(random.Random(seed)))

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
