"""ISR changes written to ZooKeeper by leaders, as before inter-broker protocol 2.7-IV2.

The leader writes the partition state znode, conditional on its cached znode version. A periodic
check later creates an ISR change notification for the controller, if no ISR has changed for
LINGER_MS or if the last notification is older than MAX_DELAY_MS. isr_changes.py applies the
results. Mirrors kafka.server.ZkIsrManager and kafka.utils.ReplicationUtils.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.brokers.leaders.alter_isr_manager import AlterIsrManager, AlterIsrResult
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import SessionExpired
from klamm.cluster.requests import AlterIsrResponse
from klamm.cluster.types import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import ResultCode, SetData
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import TopicPartitionStateZNode

CHECK_INTERVAL_MS: Final = 2_500
LINGER_MS: Final = 5_000
MAX_DELAY_MS: Final = 60_000


class _Proposal(NamedTuple):
    leader_and_isr: LeaderAndIsr
    controller_epoch: int

    @property
    def zk_version(self) -> int:
        """The znode version that the proposal is based on."""
        return self.leader_and_isr.zk_version


class ZkIsrManager:
    """Writes ISR changes to ZooKeeper and notifies the controller of them.

    ``now_ms`` is the time when the broker started, in monotonic milliseconds.
    """

    def __init__(self, zk: KafkaZkClient, now_ms: float) -> None:
        self._zk = zk
        self._unwritten: dict[TopicPartition, _Proposal] = {}
        self._isr_change_set: dict[TopicPartition, None] = {}
        self._begun_ms = now_ms
        self._last_isr_change_ms = now_ms
        self._last_isr_propagation_ms = now_ms
        self._check_at_ms: float | None = None

    @property
    def pending_count(self) -> int:
        """Number of ISR changes that are still to be written."""
        return len(self._unwritten)

    def submit(
        self, partition: TopicPartition, proposed: LeaderAndIsr, controller_epoch: int
    ) -> None:
        """Queue an ISR change, to be written by ``maybe_propagate``.

        ``controller_epoch`` is the epoch of the controller that made this broker the leader.
        """
        self._unwritten[partition] = _Proposal(proposed, controller_epoch)

    def clear_pending(self, partition: TopicPartition) -> None:
        """Drop a partition's ISR change, unless it has already been written to ZooKeeper."""
        self._unwritten.pop(partition, None)

    def maybe_propagate(self, broker_epoch: int, now_ms: float) -> list[AlterIsrResult]:
        """Write the queued changes, each conditional on its znode version; return the results.

        The result INVALID_UPDATE_VERSION means that the controller has changed the znode in the
        meantime and will send a LeaderAndIsr request.
        """
        if not self._unwritten:
            return []
        proposals, self._unwritten = self._unwritten, {}
        written = self._write(proposals)
        changed = [tp for tp, version in written.items() if version is not None]
        if changed:
            self._isr_change_set.update(dict.fromkeys(changed))
            self._last_isr_change_ms = now_ms
            if self._check_at_ms is None:
                checks = (now_ms - self._begun_ms) // CHECK_INTERVAL_MS + 1
                self._check_at_ms = self._begun_ms + checks * CHECK_INTERVAL_MS
        return [
            AlterIsrResult(
                tp,
                proposals[tp].leader_and_isr,
                Errors.INVALID_UPDATE_VERSION
                if version is None
                else proposals[tp].leader_and_isr.with_zk_version(version),
            )
            for tp, version in written.items()
        ]

    def on_response(
        self, correlation_id: int, response: AlterIsrResponse, now_ms: float
    ) -> list[AlterIsrResult]:
        """Return [], because this manager sends no AlterIsr requests."""
        return []

    def next_due_ms(self) -> float | None:
        """Return the time of the next periodic check, in monotonic milliseconds.

        Return None if there are no ISR changes to be propagated.
        """
        return self._check_at_ms

    def on_timer(self, now_ms: float) -> None:
        """Notify the controller of ISR changes, unless an ISR has changed within LINGER_MS."""
        if self._check_at_ms is None or now_ms < self._check_at_ms:
            return
        is_quiet = now_ms > self._last_isr_change_ms + LINGER_MS
        if is_quiet or now_ms > self._last_isr_propagation_ms + MAX_DELAY_MS:
            try:
                self._zk.propagate_isr_changes(self._isr_change_set)
            except SessionExpired:
                self._check_at_ms += CHECK_INTERVAL_MS
                return
            self._isr_change_set.clear()
            self._check_at_ms = None
            self._last_isr_propagation_ms = now_ms
        else:
            self._check_at_ms += CHECK_INTERVAL_MS

    def _write(
        self, proposals: Mapping[TopicPartition, _Proposal]
    ) -> dict[TopicPartition, int | None]:
        """Write ISR changes; return each znode's new version, or None if the znode had changed.

        Changes that were not written because the session expired are queued again; the controller
        sends new states in the next session.
        """
        results = self._zk.store.write([[_set_data(tp, p)] for tp, p in proposals.items()])
        written: dict[TopicPartition, int | None] = {}
        unsure: list[TopicPartition] = []
        for tp, result in zip(proposals, results, strict=True):
            match result.code:
                case ResultCode.OK:
                    written[tp] = result.results[0].version
                case ResultCode.NONODE:
                    written[tp] = None
                case ResultCode.SESSIONEXPIRED:
                    self._unwritten[tp] = proposals[tp]
                case ResultCode.BADVERSION | ResultCode.CONNECTIONLOSS:
                    unsure.append(tp)
                case code:
                    raise store_error(code, TopicPartitionStateZNode.path(tp))
        try:
            found = self._zk.get_partition_states(unsure).values if unsure else {}
        except SessionExpired:
            self._unwritten.update((tp, proposals[tp]) for tp in unsure)
            return written
        lost: dict[TopicPartition, _Proposal] = {}
        for tp in unsure:
            proposal, stored = proposals[tp], found.get(tp)
            if stored is not None and _same(stored, proposal):
                written[tp] = stored.leader_and_isr.zk_version
            elif stored is not None and stored.leader_and_isr.zk_version == proposal.zk_version:
                lost[tp] = proposal
            else:
                written[tp] = None
        return written | self._write(lost) if lost else written


def _set_data(tp: TopicPartition, proposal: _Proposal) -> SetData:
    at = proposal.leader_and_isr
    data = TopicPartitionStateZNode.encode(at, proposal.controller_epoch)
    return SetData(TopicPartitionStateZNode.path(tp), data, at.zk_version)


def _same(stored: LeaderIsrAndControllerEpoch, proposal: _Proposal) -> bool:
    return (
        stored.controller_epoch == proposal.controller_epoch
        and stored.leader_and_isr.equals_ignoring_zk_version(proposal.leader_and_isr)
    )


IsrManager = AlterIsrManager | ZkIsrManager
