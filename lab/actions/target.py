"""The target of a scenario's actions: its cluster, its tools, and references to brokers."""

from __future__ import annotations

import random

from klamm.cluster.errors import KlammError, WrongState
from klamm.cluster.status import PAUSED
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.lab.actions.action import DEAD, ENDED, BrokerRef, InRack, IsrFollower
from klamm.lab.actions.tools import ScenarioTools
from klamm.lab.conditions.condition import Condition
from klamm.lab.conditions.conditions import evaluate_condition
from klamm.lab.conditions.view import ClusterView
from klamm.lab.drivers.driver import ONLY_PRODUCER, ScenarioDriver
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.world.cluster import Cluster
from klamm.zk.store import ResultCode, Store, WriteOp


class ScenarioTarget:
    """The target of the actions of one scenario.

    ``states``: the state (such as ``killed``) of each broker on which a step has acted."""

    def __init__(self, driver: ScenarioDriver, states: dict[int, str]) -> None:
        self.driver = driver
        self.view = ClusterView(driver)
        self.tools = ScenarioTools(driver.cluster.spec)
        self.states = states

    def wait_for(self, condition: Condition, timeout_ms: float = STEP_TIMEOUT_MS) -> bool:
        """Wait for a condition. Return False if it does not hold within ``timeout_ms``."""
        return self.driver.run_until(
            lambda: evaluate_condition(condition, self.view)[0], timeout_ms
        )

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.driver.cluster

    @property
    def store(self) -> Store:
        """The scenario's ZooKeeper session."""
        return self.driver.store

    def write(self, op: WriteOp) -> None:
        """Write a znode. Raises KlammError if ZooKeeper refuses the write."""
        code = self.store.write([[op]])[0].code
        if code is not ResultCode.OK:
            raise KlammError(f"cannot write {op.path}: {code.name}")

    def check_may_produce(self, tp: TopicPartition) -> None:
        """Raise KlammError if a partition does not exist or has a constant-rate producer."""
        if self.view.replicas(str(tp)) is None:
            raise KlammError(f"cannot produce to {tp}: the partition does not exist")
        if tp in self.driver.constant_partitions:
            raise WrongState(f"{tp} already has a producer", hint=ONLY_PRODUCER)

    def produced(self) -> list[TopicPartition]:
        """Return the partitions to which the scenario has produced records."""
        return [*self.driver.clients.produced, *self.driver.constant_partitions]

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state of a broker, e.g. ``killed``, after an action."""
        self.states[broker_id] = state

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Return the ids of the brokers that a reference, e.g. ``dead``, stands for.

        Raises KlammError if there are none."""
        if isinstance(broker, int):
            return [broker]
        if isinstance(broker, TopicPartition):
            leader = getattr(self.view.state(str(broker)), "leader", NO_LEADER)
            if leader == NO_LEADER:
                is_missing = self.view.replicas(str(broker)) is None
                problem = "the partition does not exist" if is_missing else "it has no leader"
                raise KlammError(f"cannot act on the leader of {broker}: {problem}")
            return [leader]
        if isinstance(broker, InRack):
            racks = self.cluster.spec.racks
            return sorted(id_ for id_, rack in racks.items() if rack == broker.rack)
        if isinstance(broker, IsrFollower):
            return [self._any_isr_follower(broker.partition)]
        if broker in (DEAD, PAUSED):
            wanted = (PAUSED,) if broker == PAUSED else ENDED
            found = sorted(id_ for id_, state in self.states.items() if state in wanted)
            if not found:
                raise KlammError(f"no broker is {broker}")
            return found
        controller_id = self.view.controller_id()
        if controller_id is None:
            raise KlammError("cannot act on the controller: there is no active controller")
        return [controller_id]

    def _any_isr_follower(self, partition: str) -> int:
        """Return a running follower in the ISR. The seed and the time determine which."""
        state, followers = self.view.state(partition), list[int]()
        if state is not None and state.leader != NO_LEADER:
            followers = sorted({*state.isr}.intersection(self.cluster.nodes) - {state.leader})
        if not followers:
            raise KlammError(f"cannot act on an ISR follower of {partition}: it has none")
        rng = random.Random(f"{self.cluster.spec.seed} {self.driver.elapsed_ms}")
        return rng.choice(followers)
