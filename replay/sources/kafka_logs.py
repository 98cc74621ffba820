"""Sources for Kafka's state-change.log and controller.log, with rotated files, of any brokers.

The logs do not number their lines, and controller.log does not name epochs: places are byte offsets
in the run's logs, and epochs are remembered from elections. Lines are parsed by
replay/kafka_state_changes.py and replay/kafka_controller_lines.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from klamm.replay.event_schema import CONTROLLER_LOG, EPOCH_SHIFT, LOG_LEVEL, STATE_CHANGE_LOG
from klamm.replay.kafka_controller_lines import LOGGER_PREFIX, ControllerLines
from klamm.replay.kafka_lines import UNKNOWN_LINE, Fact, Record, Said, Unreadable, records, shape
from klamm.replay.kafka_state_changes import LOGGER, common_state_change, find_common, state_change
from klamm.replay.local_time import LocalClock
from klamm.replay.sources import (
    Damaged,
    Source,
    SourceOptions,
    Tasks,
    damaged_batch,
    event_batch,
)
from klamm.replay.sources.file_parts import (
    BLOCK_BYTES,
    CutShort,
    FilePart,
    decompressed_head,
    part_size,
    read_part,
)
from klamm.replay.sources.kafka_log_files import LogPart, plan

OTHER_LOGGER: Final = "other logger"
NOT_UTF_8: Final = "not utf-8"
UTF_16: Final = "utf-16"
_BATCH_ROWS: Final = 20_000
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_LEVELS: Final = ("TRACE", "DEBUG")
"""The levels to look for, the most detailed first; a log with neither counts as INFO."""
_Read = Callable[[str, Sequence[str]], Said | None]
_Row = tuple[int, int, int, int, int, Fact]
"""Line, seq, time in ms, controller, epoch, fact."""
_Parsed = tuple[int, int, str, str, str, str, Said | None]
"""Line, offset, minute, second, millisecond, level, meaning (None: unknown message)."""


def _recognizes(name: str, logger: str, path: Path, head: bytes) -> bool:
    """Return whether a file is this log: by its name, or by the logger of its first record."""
    if path.name.startswith(name):
        return True
    lines = decompressed_head(head).decode("utf-8", "replace").splitlines()[:-1]
    found = (record for record in records(lines) if isinstance(record, Record))
    first = next(found, None)
    return first is not None and first.logger.startswith(logger)


def _find_rows(
    source: str, spark: SparkSession, paths: Sequence[Path], options: SourceOptions
) -> Tasks:
    """Return the read tasks of the log files: a task per part, or for several small parts."""
    zone = options.timezone
    tasks = plan(spark, paths, run=options.run, zone=zone, part_bytes=part_size(spark, paths))

    def read(number: int) -> Iterator[pa.RecordBatch]:
        for part in tasks[number]:
            yield from _PartReader(source, part, zone).batches()

    return Tasks(len(tasks), read)


def _find_none(text: str) -> Iterator[re.Match[str]]:
    """Find nothing: controller.log has no kind of line that is worth a separate fast path."""
    return iter(())


class _PartReader:
    """Reads one part of a file: its events and damaged lines, in batches."""

    def __init__(self, source: str, log_part: LogPart, zone: str | None) -> None:
        self._source = source
        self._part: FilePart = log_part.part
        self._run = log_part.run
        self._before = log_part.before
        self._clock = LocalClock(zone)
        self._damaged: list[Damaged] = []
        self._loggers: set[str] = set()
        self._levels: set[str] = set()
        self._characters = 0
        self._common: Callable[[str], Iterator[re.Match[str]]]
        if source == STATE_CHANGE_LOG:
            self._logger, self._read = LOGGER, state_change
            self._common = find_common
        else:
            lines = ControllerLines(log_part.epoch, names_updates=log_part.names_updates)
            self._logger, self._read = LOGGER_PREFIX, lines.facts
            self._common = _find_none

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of READ_SCHEMA."""
        rows: list[_Row] = []
        begun_ms: int | None = None
        first_line = self._part.lines_before + (2 if self._part.begin else 1)
        for line, offset, minute, second, ms, level, said in self._parsed(first_line):
            if len(self._damaged) >= _BATCH_ROWS:
                yield self._damage()
            if level not in self._levels:
                self._levels.add(level)
                begun_ms = begun_ms or self._clock.ms(line, minute, second, ms)
            if said is None or not said.facts:
                continue
            t_ms = self._clock.ms(line, minute, second, ms)
            if t_ms is None:
                continue
            controller, epoch, facts = said
            for n, fact in enumerate(facts, self._before + offset):
                rows.append((line, n, t_ms, controller, epoch, fact))
                if len(rows) >= _BATCH_ROWS:
                    yield self._batch(rows)
                    rows = []
        self._clock.close()
        if begun_ms is not None:
            rows.append((first_line, *self._log_level(begun_ms)))
        if rows:
            yield self._batch(rows)
        self._damaged += [Damaged(*doubt) for doubt in self._clock.doubts]
        while self._damaged:
            yield self._damage()

    def _damage(self) -> pa.RecordBatch:
        some, self._damaged = self._damaged[:_BATCH_ROWS], self._damaged[_BATCH_ROWS:]
        return damaged_batch(self._source, self._part.file, some)

    def _log_level(self, begun_ms: int) -> tuple[int, int, int, int, Fact]:
        """Return the row with the level of the part.

        Its place is the last character of the part, where no record can begin.
        """
        level = next((name for name in _LEVELS if name in self._levels), "INFO")
        fact = Fact(LOG_LEVEL, detail=level)
        return self._before + self._characters - 1, begun_ms, -1, 0, fact

    def _said(self, record: Record) -> Said | None:
        if not record.logger.startswith(self._logger):
            if record.logger not in self._loggers:
                self._loggers.add(record.logger)
                text = f"{record.logger}: {record.message}"
                self._damaged.append(Damaged(record.line, OTHER_LOGGER, text))
            return None
        said = self._read(record.message, record.trace)
        if said is None:
            problem = f"{UNKNOWN_LINE}: {shape(record.message)}".rstrip(": ")
            self._damaged.append(Damaged(record.line, problem, record.message))
        return said

    def _parsed(self, line: int) -> Iterator[_Parsed]:
        """Parse the records of the part; ``line`` is the number of its first line."""
        text = ""
        offset = 0
        for block in self._blocks():
            text += block
            # The last record may continue in the next block.
            end = text.rfind("\n[") + 1
            if not end and len(text) >= BLOCK_BYTES:
                end = len(text)
            yield from self._parse(text[:end], line, offset)
            line += text.count("\n", 0, end)
            offset += end
            text = text[end:]
        yield from self._parse(text, line, offset)

    def _parse(self, text: str, line: int, offset: int) -> Iterator[_Parsed]:
        """Parse complete records: common ones by one regular expression, others one by one."""
        at = 0
        for found in self._common(text):
            begin = found.start()
            if begin > at:
                yield from self._parse_one_by_one(text[at:begin], line, offset + at)
                line += text.count("\n", at, begin)
            minute, second, ms, level, *_ = groups = found.groups()
            said = common_state_change(groups[4:])
            if said is None:
                yield from self._parse_one_by_one(found[0], line, offset + begin)
            else:
                yield line, offset + begin, minute, second, ms, level, said
            line += 1
            at = found.end()
        if at < len(text):
            yield from self._parse_one_by_one(text[at:], line, offset + at)

    def _parse_one_by_one(self, text: str, first_line: int, begin: int) -> Iterator[_Parsed]:
        for record in records(text.removesuffix("\n").split("\n"), first_line):
            if isinstance(record, Unreadable):
                self._damaged.append(Damaged(*record))
                continue
            said = self._said(record)
            line, offset, minute, second, ms, level, *_ = record
            yield line, begin + offset, minute, second, ms, level, said

    def _blocks(self) -> Iterator[str]:
        """Yield blocks of complete lines as text; undecodable lines are added to the damaged."""
        for found in read_part(self._part):
            if isinstance(found, CutShort):
                self._damaged.append(Damaged(*found))
                return
            data = found.data
            if found.first_line == 1:
                if data.startswith(_UTF_16_MARKS):
                    self._damaged.append(Damaged(1, UTF_16, data[:80].decode("utf-16", "replace")))
                    return
                data = data.removeprefix(b"\xef\xbb\xbf")
            yield self._decoded(data.removesuffix(b"\n"), found.first_line) + "\n"

    def _decoded(self, data: bytes, first_line: int) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            for n, line in enumerate(data.split(b"\n"), first_line):
                decoded = line.decode(errors="replace")
                if decoded.startswith("[") and "\ufffd" in decoded:
                    self._damaged.append(Damaged(n, NOT_UTF_8, decoded))
            text = data.decode(errors="replace")
        self._characters += len(text) + 1
        return text.replace("\r\n", "\n") if "\r" in text else text

    def _batch(self, rows: Sequence[_Row]) -> pa.RecordBatch:
        lines, seqs, times, controllers, epochs, facts = zip(*rows, strict=True)
        fields = zip(*map(msgspec.structs.astuple, facts), strict=True)
        columns = {
            "source": self._source,
            "run": self._run,
            "file": self._part.file,
            "line": list(lines),
            "place": [epoch << EPOCH_SHIFT | seq for epoch, seq in zip(epochs, seqs, strict=True)],
            "t_ms": list(times),
            "seq": list(seqs),
            "controller": list(controllers),
            "epoch": list(epochs),
            **dict(zip(Fact.__struct_fields__, map(list, fields), strict=True)),
        }
        return event_batch(len(rows), columns)


def _source(name: str, logger: str) -> Source:
    return Source(
        name,
        False,
        partial(_recognizes, name, logger),
        partial(_find_rows, name),
    )


STATE_CHANGES: Final = _source(STATE_CHANGE_LOG, LOGGER)
CONTROLLER: Final = _source(CONTROLLER_LOG, LOGGER_PREFIX)
