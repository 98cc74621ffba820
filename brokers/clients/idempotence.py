"""An idempotent producer's id, epoch and sequences: when batches are sent, again, or renumbered.

Knows no broker and sends nothing. There are no transactions. Mirrors the idempotent part of
org.apache.kafka.clients.producer.internals.TransactionManager.
"""

from __future__ import annotations

from brokers.clients.batches import NO_PRODUCER, Batch, PartitionBatches, ProducerIdAndEpoch
from brokers.clients.retriable import RETRIABLE
from cluster.api_errors import Errors
from cluster.records import NO_SEQUENCE

EPOCH_MAX = 2**15 - 1


class Idempotence:
    """The producer's identity. A partition whose sequences have a gap begins at the next epoch."""

    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        self._to_renumber: list[PartitionBatches] = []

    def begin(self, producer_id: int, epoch: int) -> None:
        """Be who a broker says."""
        self.producer = ProducerIdAndEpoch(producer_id, epoch)

    def bump_epoch_if_needed(self) -> None:
        """Begin another epoch if sequences have a gap; after the last epoch, another id."""
        if not self._to_renumber:
            return
        if self.producer.epoch >= EPOCH_MAX:
            self.producer = NO_PRODUCER
            return
        self.producer = ProducerIdAndEpoch(self.producer.producer_id, self.producer.epoch + 1)
        for partition in self._to_renumber:
            partition.begin_at(self.producer)
        self._to_renumber.clear()

    def may_send(self, partition: PartitionBatches, batch: Batch) -> bool:
        """True if a batch that waits may be sent now."""
        if self.producer == NO_PRODUCER:
            return False
        if batch in partition.tracked:
            # One after the other until what was refused has got through.
            return partition.tracked[0] is batch
        if partition.unresolved_sequence is not None:
            return False
        return partition.producer == self.producer or not partition.tracked

    def awaits_first(self, partition: PartitionBatches, batch: Batch) -> bool:
        """Return True for a new batch if no batch of this epoch has been acknowledged yet.

        A leader without a sequence of the producer accepts any as the first (KAFKA-14359).
        After a leader change it could accept a later batch before the first one, and would then
        refuse the first one forever.
        """
        is_new = batch not in partition.tracked
        return is_new and bool(partition.tracked) and partition.acked_sequence == NO_SEQUENCE

    def assign_sequence(self, partition: PartitionBatches, batch: Batch) -> None:
        """Give a batch that is about to be sent its sequence, if it has none."""
        if batch in partition.tracked:
            return
        if partition.producer != self.producer:
            partition.begin_at(self.producer)
        partition.assign(batch)

    def on_acknowledged(self, partition: PartitionBatches, batch: Batch) -> None:
        """A batch is stored."""
        if batch in partition.tracked:
            partition.tracked.remove(batch)
            last = batch.next_sequence - 1
            if batch.producer == partition.producer:
                partition.acked_sequence = max(partition.acked_sequence, last)
        self._resolve(partition)

    def can_retry(self, partition: PartitionBatches, batch: Batch, error: Errors) -> bool:
        """Whether to send a batch again that was refused; its partition may have to be renumbered.

        A gap before a batch that is not the next one will be filled by the one before; any other
        gap stays, and the batches begin anew at another epoch.
        """
        is_unresolved = partition.unresolved_sequence is not None
        if error is Errors.UNKNOWN_PRODUCER_ID:
            self._renumber(partition)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_behind = batch.is_reset or not partition.is_next_sequence(batch.base_sequence)
            is_after_it = batch.base_sequence == partition.unresolved_sequence
            if is_after_it if is_unresolved else not is_behind:
                self._renumber(partition)
            return True
        return error in RETRIABLE

    def on_failed(self, partition: PartitionBatches, batch: Batch) -> None:
        """A batch is given up. If it may be stored, its sequence is used, or is not: that shows
        when all others are decided."""
        if batch not in partition.tracked:
            return
        partition.tracked.remove(batch)
        if not batch.is_in_doubt:
            self._renumber(partition)
        else:
            after = max(batch.next_sequence, partition.unresolved_sequence or 0)
            partition.unresolved_sequence = after
        self._resolve(partition)

    def _resolve(self, partition: PartitionBatches) -> None:
        if partition.unresolved_sequence is None or partition.tracked:
            return
        if partition.is_next_sequence(partition.next_sequence):
            partition.unresolved_sequence = None
        else:
            self._renumber(partition)

    def _renumber(self, partition: PartitionBatches) -> None:
        if partition not in self._to_renumber:
            self._to_renumber.append(partition)
