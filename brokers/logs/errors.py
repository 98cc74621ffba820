"""Errors of replica logs and their disks: the part of the error tree below ReplicaLogError.

::

    KlammError
    `- ReplicaLogError             has the error code for the broker's response
       |- OffsetOutOfRange         an offset before the log start or after the log end
       |- CorruptRecord            a batch with a wrong length, CRC or format
       |- UnsupportedMessageFormat messages of formats 0 and 1
       |- InvalidRecord            a readable batch with contents that are not allowed
       |- InvalidTimestamp         a timestamp too far from the broker's time, or a wrong type
       |- RecordTooLarge           a batch larger than max.message.bytes
       |- RecordBatchTooLarge      records larger than segment.bytes
       |- OutOfOrderSequence       an idempotent producer's batch with the wrong sequence number
       |- InvalidProducerEpoch     a producer that was fenced by a newer epoch
       |- OffsetsOutOfOrder        fetched records with gaps between their offsets
       |- UnexpectedAppendOffset   fetched records that do not start at the log end
       |- DamagedLog               files of one log that are missing, corrupt or contradictory
       `- LogStorageError          an unusable log directory (Kafka's KafkaStorageException)
          `- CorruptCheckpoint     a readable checkpoint with invalid contents

If Kafka has the same error, the message is Kafka's. A rejected append leaves the log unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.types import TopicPartition


class ReplicaLogError(KlammError):
    """Base class of log errors. ``code`` is the error code in the broker's response."""

    code: ClassVar[Errors] = Errors.UNKNOWN_SERVER_ERROR


class OffsetOutOfRange(ReplicaLogError):
    """An offset before the log start or after the log end was requested."""

    code = Errors.OFFSET_OUT_OF_RANGE


class CorruptRecord(ReplicaLogError):
    """A batch has a wrong length, CRC or format; the sender may retry."""

    code = Errors.CORRUPT_MESSAGE
    retriable = True


class UnsupportedMessageFormat(ReplicaLogError):
    """Messages have format 0 or 1 (older than Kafka 0.11), which klamm does not support."""

    code = Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT


class InvalidRecord(ReplicaLogError):
    """A readable batch has contents that a producer is not allowed to send."""

    code = Errors.INVALID_RECORD


class InvalidTimestamp(ReplicaLogError):
    """A timestamp differs from the broker's time by more than message.timestamp.difference.max.ms.

    Also raised if a producer sends a batch with the timestamp type LogAppendTime.
    """

    code = Errors.INVALID_TIMESTAMP


class RecordTooLarge(ReplicaLogError):
    """A batch is larger than max.message.bytes."""

    code = Errors.MESSAGE_TOO_LARGE


class RecordBatchTooLarge(ReplicaLogError):
    """Records to append are larger than a segment may be."""

    code = Errors.RECORD_LIST_TOO_LARGE


class OutOfOrderSequence(ReplicaLogError):
    """A batch does not have the sequence number that follows its producer's previous batch."""

    code = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(ReplicaLogError):
    """A batch has a smaller producer epoch than an earlier batch with the same producer id."""

    code = Errors.INVALID_PRODUCER_EPOCH


class OffsetsOutOfOrder(ReplicaLogError):
    """Records fetched by a follower have offsets that are not contiguous."""


class UnexpectedAppendOffset(ReplicaLogError):
    """Records fetched by a follower do not start at the end of its log.

    ``first_offset`` and ``last_offset`` (inclusive) are the offsets of the records to append.
    """

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class DamagedLog(ReplicaLogError):
    """Files of one log are missing or corrupt, or contradict each other.

    The damage is found when the log is opened. The replica goes offline; its log directory stays
    online. ``offset`` is the first offset that cannot be trusted; it is None if klamm must not
    truncate the log because Kafka can still read it.
    """

    code = Errors.KAFKA_STORAGE_ERROR

    def __init__(self, message: str, *, offset: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.offset = offset


class LogStorageError(ReplicaLogError):
    """A log directory, or a file in it, cannot be read or written. The message names the path."""

    code = Errors.KAFKA_STORAGE_ERROR


class CorruptCheckpoint(LogStorageError):
    """A checkpoint, partition.metadata or meta.properties file has invalid contents.

    The message names the file and, where possible, the line.
    """


@contextmanager
def storage_errors(doing: str, directory: Path) -> Iterator[None]:
    """Context manager: raise LogStorageError in place of any OSError that its body raises.

    The message is ``Error while DOING in dir DIRECTORY: REASON``.
    """
    try:
        yield
    except OSError as error:
        raise LogStorageError(
            f"Error while {doing} in dir {directory}: {error.strerror or error}",
            hint=f"check permissions and free disk space for {error.filename or directory}",
        ) from error


OnLogError = Callable[[TopicPartition, ReplicaLogError], Errors]
"""Handles an error of a partition's log; returns the error code for the broker's response.

If the error is a LogStorageError, the log directory goes offline.
"""
