"""Errors of replica logs and their disks: a branch of the error tree.

::

    KlammError
    `- ReplicaLogError             carries the error code of the broker's response
       |- OffsetOutOfRange         an offset before the log's start or after its end
       |- CorruptRecord            a batch with a wrong length, CRC or format
       |- UnsupportedMessageFormat messages of formats 0 and 1
       |- InvalidRecord            a readable batch with contents that are not allowed
       |- InvalidTimestamp         a time too far from the broker's, or LogAppendTime by a producer
       |- RecordTooLarge           more than max.message.bytes
       |- RecordBatchTooLarge      more than segment.bytes
       |- OutOfOrderSequence       a gap in the sequence of an idempotent producer
       |- InvalidProducerEpoch     a producer that was fenced by a newer epoch
       |- OffsetsOutOfOrder        records to append that do not follow each other
       |- UnexpectedAppendOffset   records to append that do not follow the log's end
       |- DamagedLog               files of one log that lost or contradict its contents
       `- LogStorageError          Kafka's KafkaStorageException: a directory or a file in it
          `- CorruptCheckpoint     a readable checkpoint with invalid contents

Messages are Kafka's where Kafka has one. A refused append leaves the log unchanged.
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
    """Base class of log errors. ``code``: the error in the broker's response."""

    code: ClassVar[Errors] = Errors.UNKNOWN_SERVER_ERROR


class OffsetOutOfRange(ReplicaLogError):
    """An offset before the log start, or after the log end."""

    code = Errors.OFFSET_OUT_OF_RANGE


class CorruptRecord(ReplicaLogError):
    """A batch with a wrong length, CRC or format; the sender may retry."""

    code = Errors.CORRUPT_MESSAGE
    retriable = True


class UnsupportedMessageFormat(ReplicaLogError):
    """Messages of formats 0 and 1, from before Kafka 0.11: valid, but not supported by klamm."""

    code = Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT


class InvalidRecord(ReplicaLogError):
    """A readable batch that a producer is not allowed to send."""

    code = Errors.INVALID_RECORD


class InvalidTimestamp(ReplicaLogError):
    """A record timestamp farther from the broker's than message.timestamp.difference.max.ms.

    Also a batch from a producer that claims LogAppendTime."""

    code = Errors.INVALID_TIMESTAMP


class RecordTooLarge(ReplicaLogError):
    """A batch larger than max.message.bytes."""

    code = Errors.MESSAGE_TOO_LARGE


class RecordBatchTooLarge(ReplicaLogError):
    """Records that do not fit into one segment."""

    code = Errors.RECORD_LIST_TOO_LARGE


class OutOfOrderSequence(ReplicaLogError):
    """The sequence number of an idempotent producer does not follow its previous one."""

    code = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(ReplicaLogError):
    """A producer epoch smaller than the latest in the log for that producer id."""

    code = Errors.INVALID_PRODUCER_EPOCH


class OffsetsOutOfOrder(ReplicaLogError):
    """Records for a follower's log with offsets that do not follow each other."""


class UnexpectedAppendOffset(ReplicaLogError):
    """Records for a follower's log that do not start at its end.

    ``first_offset`` and ``last_offset``: of the append, inclusive."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class DamagedLog(ReplicaLogError):
    """Files of one log that are missing, damaged or contradict each other, found when it is opened.

    The replica goes offline, but not its log directory. ``offset``: the first offset that cannot be
    trusted; None if klamm must not truncate the log because Kafka can still read it.
    """

    code = Errors.KAFKA_STORAGE_ERROR

    def __init__(self, message: str, *, offset: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.offset = offset


class LogStorageError(ReplicaLogError):
    """A log directory, or a file in it, that cannot be read or written. The message names it."""

    code = Errors.KAFKA_STORAGE_ERROR


class CorruptCheckpoint(LogStorageError):
    """A checkpoint, partition.metadata or meta.properties file with invalid contents.

    The message has the file and the line."""


@contextmanager
def storage_errors(doing: str, directory: Path) -> Iterator[None]:
    """Convert an OSError to LogStorageError: ``Error while <doing> in dir <directory>``."""
    try:
        yield
    except OSError as error:
        raise LogStorageError(
            f"Error while {doing} in dir {directory}: {error.strerror or error}",
            hint=f"check permissions and free space of {error.filename or directory}",
        ) from error


OnLogError = Callable[[TopicPartition, ReplicaLogError], Errors]
"""Receives an error of a partition's log, takes a failed directory offline, and returns the error
code of the response."""
