"""Which brokers live, which of them are shutting down, and which replicas' directories failed.

The part of the controller's context that answers "is this replica online". Must not know topics
or states. Mirrors the broker half of kafka/controller/ControllerContext.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cluster.types import Broker, TopicPartition


class LiveBrokers:
    """Live brokers with their epochs (czxid of the registration).

    ``live_broker_ids`` leaves out the brokers that are shutting down,
    ``live_or_shutting_down_broker_ids`` does not. ``live_or_shutting_down_brokers`` are ascending
    by id. All three are kept, not computed at each use.
    """

    def __init__(self) -> None:
        self.forget_brokers()

    def forget_brokers(self) -> None:
        """Know no broker and no failed directory."""
        self.live_brokers: dict[int, Broker] = {}
        self.live_broker_epochs: dict[int, int] = {}
        self.shutting_down_broker_ids: frozenset[int] = frozenset()
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self._refresh()

    def set_live_brokers(self, broker_and_epochs: Mapping[Broker, int]) -> None:
        """Forget the live brokers and take these: {broker: epoch}."""
        self.live_brokers.clear()
        self.live_broker_epochs.clear()
        self.add_live_brokers(broker_and_epochs)

    def add_live_brokers(self, broker_and_epochs: Mapping[Broker, int]) -> None:
        """Add brokers, or replace those with the same ids."""
        for broker, epoch in broker_and_epochs.items():
            self.live_brokers[broker.id] = broker
            self.live_broker_epochs[broker.id] = epoch
        self._refresh()

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        """Remove brokers; ids that are not live are ignored."""
        for broker_id in broker_ids:
            self.live_brokers.pop(broker_id, None)
            self.live_broker_epochs.pop(broker_id, None)
        self._refresh()

    def update_broker_metadata(self, broker: Broker) -> None:
        """Replace end points and rack of a live broker; its epoch stays."""
        assert broker.id in self.live_brokers, f"broker {broker.id} is not live"
        self.live_brokers[broker.id] = broker
        self._refresh()

    def add_shutting_down_broker(self, broker_id: int) -> None:
        """The broker began its controlled shutdown."""
        self.shutting_down_broker_ids |= {broker_id}
        self._refresh()

    def remove_shutting_down_brokers(self, broker_ids: Iterable[int]) -> None:
        """The brokers are gone, or came back."""
        self.shutting_down_broker_ids = self.shutting_down_broker_ids.difference(broker_ids)
        self._refresh()

    def is_replica_online(
        self, broker_id: int, tp: TopicPartition, include_shutting_down_brokers: bool = False
    ) -> bool:
        """True if the broker lives and the replica's directory did not fail."""
        ids = (
            self.live_or_shutting_down_broker_ids
            if include_shutting_down_brokers
            else self.live_broker_ids
        )
        if broker_id not in ids:
            return False
        dirs = self.replicas_on_offline_dirs
        return not dirs or tp not in dirs.get(broker_id, ())

    def online_replicas(
        self,
        tp: TopicPartition,
        replicas: tuple[int, ...],
        include_shutting_down_brokers: bool = False,
    ) -> tuple[int, ...]:
        """Those of ``replicas`` that are online, in the same order; the same tuple if all are."""
        ids = (
            self.live_or_shutting_down_broker_ids
            if include_shutting_down_brokers
            else self.live_broker_ids
        )
        if not self.replicas_on_offline_dirs and ids.issuperset(replicas):
            return replicas
        dirs = self.replicas_on_offline_dirs
        return tuple(r for r in replicas if r in ids and tp not in dirs.get(r, ()))

    def offline_replicas(self, tp: TopicPartition, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Those of ``replicas`` that are not online, in the same order."""
        ids = self.live_broker_ids
        if not self.replicas_on_offline_dirs and ids.issuperset(replicas):
            return ()
        dirs = self.replicas_on_offline_dirs
        return tuple(r for r in replicas if r not in ids or tp in dirs.get(r, ()))

    def split_by_online(
        self, broker_id: int, tps: Collection[TopicPartition]
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The replicas of one broker: those online, those offline."""
        if broker_id not in self.live_broker_ids:
            return [], list(tps)
        failed = self.replicas_on_offline_dirs.get(broker_id)
        if not failed:
            return list(tps), []
        return [tp for tp in tps if tp not in failed], [tp for tp in tps if tp in failed]

    def _refresh(self) -> None:
        self.live_or_shutting_down_broker_ids = frozenset(self.live_broker_epochs)
        self.live_broker_ids = self.live_or_shutting_down_broker_ids - self.shutting_down_broker_ids
        self.live_or_shutting_down_brokers = tuple(
            self.live_brokers[broker_id] for broker_id in sorted(self.live_brokers)
        )
