"""Nothing acknowledged is lost: any sequence of produce, ends of brokers, elections and networks.

A broker that loses what it had not flushed is tolerated while another member of the ISR lives: a
record acknowledged with acks -1 survives while one member of the ISR does.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from klamm.cluster.data_requests import Acks
from tests.sim.faults import BROKERS, Faults
from tests.sim.replication import Cluster

ACKS: st.SearchStrategy[Acks] = st.sampled_from((-1, -1, 1, 0))
SMALL_SEGMENTS = {"log.segment.bytes": "4000", "log.index.size.max.bytes": "1200"}
WAITS_MS = st.sampled_from((1, 5, 50, 700, 8_000, 50_000))


class Replication(Faults[Cluster]):
    """Faults may overlap, but for the losses of unflushed records."""

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

    @rule(broker_id=BROKERS)
    def stop_the_machine(self, broker_id: int) -> None:
        isr = self.cluster.state().isr
        others = [b for b in isr if b != broker_id and b in self.world.nodes]
        if broker_id not in self.world.nodes or self.paused or not others:
            return
        self.world.kill(broker_id, loses_unflushed=True)
        assert self.world.run_until(lambda: broker_id not in self.cluster.state().isr)


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
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


TestReplication.settings = _settings(120)
TestFileReplication.settings = _settings(8)
