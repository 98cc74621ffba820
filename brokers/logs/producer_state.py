"""State of idempotent producers in a log: their last batches, to detect gaps and duplicates.

This module uses no files and no clock. klamm does not support transactions, so there are no
transaction markers. Mirrors kafka.log.{ProducerStateManager, ProducerAppendInfo,
ProducerStateEntry}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.brokers.logs.errors import InvalidProducerEpoch, OutOfOrderSequence
from klamm.cluster.records import ProducerBatch, increment_sequence

BATCHES_KEPT: Final = 5


class ProducerStates:
    """The last five batches of each idempotent producer in one log.

    All batches of a producer are from its latest producer epoch.
    """

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[int, tuple[ProducerBatch, ...]] = {}

    def __iter__(self) -> Iterator[ProducerBatch]:
        """Yield every stored batch; the batches of a producer are in sequence order."""
        return (batch for batches in self._batches.values() for batch in batches)

    def check(self, batch: ProducerBatch) -> ProducerBatch | None:
        """Check that a leader may append ``batch``; return the original batch of a duplicate.

        Return None if ``batch`` is not a duplicate. An unknown producer may start at any sequence
        number, because its earlier batches may have been deleted.

        Raises InvalidProducerEpoch if the producer epoch is smaller than the latest epoch. Raises
        OutOfOrderSequence if the sequence number does not follow the producer's last batch, or if
        the first sequence number in a new epoch is not 0.
        """
        known = self._batches.get(batch.producer_id)
        if known is None:
            return None
        last = known[-1]
        if batch.producer_epoch != last.producer_epoch:
            _check_new_epoch(batch, last.producer_epoch)
            return None
        sequences = (batch.first_sequence, batch.last_sequence)
        for kept in known:
            if (kept.first_sequence, kept.last_sequence) == sequences:
                return kept
        if batch.first_sequence != increment_sequence(last.last_sequence, 1):
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {batch.producer_id} at offset "
                f"{batch.first_offset}: {batch.first_sequence} (incoming seq. number), "
                f"{last.last_sequence} (current end sequence number)"
            )
        return None

    def update(self, batch: ProducerBatch) -> None:
        """Store an appended batch. If its producer epoch is new, drop the earlier batches."""
        known = self._batches.get(batch.producer_id, ())
        if known and known[-1].producer_epoch != batch.producer_epoch:
            known = ()
        self._batches[batch.producer_id] = (*known[1 - BATCHES_KEPT :], batch)

    def truncate_to(self, end_offset: int) -> None:
        """Drop the batches that end at or after ``end_offset``.

        A producer without remaining batches becomes unknown. Only in-memory logs use this method. A
        log on disk instead reads its remaining batches, and so finds the last five of them.
        """
        for producer_id, batches in list(self._batches.items()):
            kept = tuple(batch for batch in batches if batch.last_offset < end_offset)
            if kept:
                self._batches[producer_id] = kept
            else:
                del self._batches[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop the producers whose last batch is at least ``expiration_ms`` old."""
        self._batches = {
            producer_id: batches
            for producer_id, batches in self._batches.items()
            if now_ms - batches[-1].timestamp_ms < expiration_ms
        }


def _check_new_epoch(batch: ProducerBatch, known_epoch: int) -> None:
    if batch.producer_epoch < known_epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {batch.producer_id} at offset {batch.first_offset} is "
            f"{batch.producer_epoch}, which is smaller than the last seen epoch {known_epoch}"
        )
    if batch.first_sequence != 0:
        raise OutOfOrderSequence(
            f"Invalid sequence number for new epoch of producer {batch.producer_id} at offset "
            f"{batch.first_offset}: {batch.producer_epoch} (request epoch), "
            f"{batch.first_sequence} (seq. number), {known_epoch} (current producer epoch)"
        )
