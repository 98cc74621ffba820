"""How long each partition of a scenario was unavailable or under-replicated, and lost records.

The times come from the brokers themselves, not from the controller: a partition is unavailable from
the death of its leader until another broker that runs has become leader.
"""

from __future__ import annotations

import msgspec

from klamm.cluster.journal import Kind
from klamm.cluster.types import TopicPartition
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.statemachines.partition_state import PartitionState
from klamm.world.views.brokers import leader_states


class PartitionAvailability(msgspec.Struct, frozen=True):
    """What happened to one partition.

    ``unavailable_ms``: time without a running leader. ``under_replicated_ms``: time in which the
    leader's ISR lacked a replica, or without a running leader. ``records_in_doubt``: records that
    were sent, but neither acknowledged nor refused. ``records_lost``: acknowledged records that the
    leader's log lacks. The last two are None if no client with countable records produced to the
    partition, and ``records_lost`` also if the partition has no running leader.
    """

    unavailable_ms: float
    under_replicated_ms: float
    records_in_doubt: int | None = None
    records_lost: int | None = None

    @property
    def is_flawless(self) -> bool:
        """True if all values are zero or unknown."""
        return not any(getattr(self, name) for name in self.__struct_fields__)


class _Times:
    """Times of one partition so far, and its state since the last observation.

    ``has_begun``: the partition has had a running leader."""

    def __init__(self) -> None:
        self.has_begun = False
        self.unavailable_ms = 0.0
        self.under_replicated_ms = 0.0
        self.is_available = True
        self.is_replicated = True


class PartitionTimes:
    """Measures every partition of a scenario from the time when it first has a leader."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._times: dict[TopicPartition, _Times] = {}
        self._rows_seen = 0
        self._last_ms = driver.elapsed_ms
        driver.turns.observers.append(self.observe)
        self.observe()

    def observe(self) -> None:
        """Add the time since the last observation, then observe the brokers again."""
        self._add_elapsed()
        self._driver.call_client(lambda _: self._observe_brokers())

    def results(self) -> dict[TopicPartition, PartitionAvailability]:
        """Return the results, sorted by partition. Partitions of deleted topics are omitted."""
        self._add_elapsed()
        clients = self._driver.clients
        return {
            tp: PartitionAvailability(
                times.unavailable_ms,
                times.under_replicated_ms,
                clients.records_in_doubt(tp),
                clients.records_lost(tp),
            )
            for tp, times in sorted(self._times.items())
        }

    def _add_elapsed(self) -> None:
        now_ms = self._driver.elapsed_ms
        elapsed_ms, self._last_ms = now_ms - self._last_ms, now_ms
        for times in self._times.values():
            times.unavailable_ms += 0.0 if times.is_available else elapsed_ms
            times.under_replicated_ms += 0.0 if times.is_replicated else elapsed_ms

    def _observe_brokers(self) -> None:
        self._take_rows()
        leaders = leader_states(self._driver.cluster)
        for tp, times in self._times.items():
            state = leaders.get(tp)
            times.has_begun = times.has_begun or state is not None
            if times.has_begun:
                times.is_available = state is not None
                times.is_replicated = state is not None and len(state.isr) >= len(state.replicas)

    def _take_rows(self) -> None:
        """Add the partitions that came online, and forget deleted topics."""
        rows = self._driver.rows
        if len(rows) == self._rows_seen:
            return
        new, self._rows_seen = rows[self._rows_seen :], len(rows)
        for row in new:
            if row.kind == Kind.TOPIC_DELETION_STARTED:
                for tp in [tp for tp in self._times if tp.topic == row.topic]:
                    del self._times[tp]
            elif row.kind == Kind.PARTITION_TRANSITION and row.to == PartitionState.ONLINE.value:
                assert row.topic is not None
                self._times.setdefault(TopicPartition(row.topic, row.partition), _Times())
