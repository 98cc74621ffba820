"""Reads the state-change.log and controller.log of Kafka brokers, including rotated files.

The lines are not numbered; a row's position is its offset in all logs of the cluster. Lines
of controller.log have no controller epoch; it is remembered from the last election.
replay/kafka_state_changes.py and replay/kafka_controller_lines.py parse the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from klamm.replay.engines import Engine
from klamm.replay.event_files import Folders, Tasks, store_tasks
from klamm.replay.event_schema import (
    CONTROLLER_LOG,
    EPOCH_SHIFT,
    LOG_LEVEL,
    STATE_CHANGE_LOG,
    DamagedLine,
)
from klamm.replay.kafka_controller_lines import LOGGER_PREFIX, ControllerLines
from klamm.replay.kafka_lines import (
    UNKNOWN_LINE,
    Fact,
    LoggedFacts,
    LogRecord,
    NumberTooLarge,
    records,
    shape,
)
from klamm.replay.kafka_state_changes import LOGGER, common_state_change, find_common, state_change
from klamm.replay.local_time import LocalClock
from klamm.replay.sources import (
    LogSource,
    SourceOptions,
    damaged_batch,
    event_batch,
)
from klamm.replay.sources.file_parts import (
    BLOCK_BYTES,
    FilePart,
    decompressed_head,
    part_size,
    read_part,
    total_size_bytes,
)
from klamm.replay.sources.kafka_log_files import LogPart, plan

OTHER_LOGGER: Final = "other logger"
NOT_UTF_8: Final = "not utf-8"
UTF_16: Final = "utf-16"
NUMBER_TOO_LARGE: Final = "number too large"
_BATCH_ROWS: Final = 20_000
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_LEVELS: Final = ("TRACE", "DEBUG")
"""The log levels that matter, most detailed first. A log without such lines counts as INFO."""
_Row = tuple[int, int, int, int, int, Fact]
"""A row: line, position in the logs of the run, time in ms, controller, controller epoch, event."""
_Parsed = tuple[int, int, str, str, str, str, LoggedFacts | None]
"""A parsed record: line, offset, minute, second, millisecond, log level, and the events that the
record reports (None: unknown message)."""


def _recognizes(name: str, logger: str, path: Path, head: bytes) -> bool:
    """Return whether a file is the log ``name``, by its file name or its first record's logger."""
    if path.name.startswith(name):
        return True
    lines = decompressed_head(head).decode("utf-8", "replace").splitlines()[:-1]
    found = (record for record in records(lines) if isinstance(record, LogRecord))
    first = next(found, None)
    return first is not None and first.logger.startswith(logger)


def _read_parts(
    source: str, zone: str | None, parts: Sequence[LogPart]
) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from _PartReader(source, part, zone).batches()


def _store(
    source: str, engine: Engine, paths: Sequence[Path], options: SourceOptions, folders: Folders
) -> str:
    """Read log files, and encode and store their rows. A task reads a part, or small files."""
    zone = options.timezone
    tasks = plan(
        engine,
        paths,
        run=options.run,
        zone=zone,
        part_bytes=part_size(engine, paths),
        beside=options.beside,
    )
    read = partial(_read_parts, source, zone)
    return store_tasks(engine, Tasks(tasks, read, total_size_bytes(paths)), folders)


def _find_none(text: str) -> Iterator[re.Match[str]]:
    """Yield nothing, because no message in controller.log is common enough for a faster parser."""
    return iter(())


class _PartReader:
    """Reads the events and damaged lines in one part of a log file."""

    def __init__(self, source: str, log_part: LogPart, zone: str | None) -> None:
        self._source = source
        self._part: FilePart = log_part.part
        self._run = log_part.run
        self._before = log_part.before
        self._clock = LocalClock(zone)
        self._damaged: list[DamagedLine] = []
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
        """Yield the events and damaged lines in batches (READ_SCHEMA)."""
        rows: list[_Row] = []
        begun_ms: int | None = None
        first_line = self._part.lines_before + (2 if self._part.begin else 1)
        for line, offset, minute, second, ms, level, logged in self._parsed(first_line):
            if len(self._damaged) >= _BATCH_ROWS:
                yield self._damage()
            if level not in self._levels:
                self._levels.add(level)
                begun_ms = begun_ms or self._clock.ms(line, minute, second, ms)
            if logged is None or not logged.facts:
                continue
            t_ms = self._clock.ms(line, minute, second, ms)
            if t_ms is None:
                continue
            controller, epoch, facts = logged
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
        self._damaged += self._clock.doubts
        while self._damaged:
            yield self._damage()

    def _damage(self) -> pa.RecordBatch:
        some, self._damaged = self._damaged[:_BATCH_ROWS], self._damaged[_BATCH_ROWS:]
        return damaged_batch(self._source, self._part.file, some)

    def _log_level(self, begun_ms: int) -> tuple[int, int, int, int, Fact]:
        """Return a row with the log level of the part. The caller adds the line number.

        The row's position is the last character of the part, at which no other row can begin.
        """
        level = next((name for name in _LEVELS if name in self._levels), "INFO")
        fact = Fact(LOG_LEVEL, detail=level)
        return self._before + self._characters - 1, begun_ms, -1, 0, fact

    def _logged_facts(self, record: LogRecord) -> LoggedFacts | None:
        if not record.logger.startswith(self._logger):
            if record.logger not in self._loggers:
                self._loggers.add(record.logger)
                text = f"{record.logger}: {record.message}"
                self._damaged.append(DamagedLine(record.line, OTHER_LOGGER, text))
            return None
        try:
            logged = self._read(record.message, record.trace)
        except NumberTooLarge:
            self._damaged.append(DamagedLine(record.line, NUMBER_TOO_LARGE, record.message))
            return None
        if logged is None:
            problem = f"{UNKNOWN_LINE}: {shape(record.message)}".rstrip(": ")
            self._damaged.append(DamagedLine(record.line, problem, record.message))
        return logged

    def _parsed(self, line: int) -> Iterator[_Parsed]:
        """Parse the records of the part. ``line``: number of its first line."""
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
        """Parse complete records. A regular expression parses the most common kind quickly."""
        at = 0
        for found in self._common(text):
            begin = found.start()
            if begin > at:
                yield from self._parse_one_by_one(text[at:begin], line, offset + at)
                line += text.count("\n", at, begin)
            minute, second, ms, level, *_ = groups = found.groups()
            logged = common_state_change(groups[4:])
            if logged is None:
                yield from self._parse_one_by_one(found[0], line, offset + begin)
            else:
                yield line, offset + begin, minute, second, ms, level, logged
            line += 1
            at = found.end()
        if at < len(text):
            yield from self._parse_one_by_one(text[at:], line, offset + at)

    def _parse_one_by_one(self, text: str, first_line: int, begin: int) -> Iterator[_Parsed]:
        for record in records(text.removesuffix("\n").split("\n"), first_line):
            if isinstance(record, DamagedLine):
                self._damaged.append(record)
                continue
            logged = self._logged_facts(record)
            line, offset, minute, second, ms, level, *_ = record
            yield line, begin + offset, minute, second, ms, level, logged

    def _blocks(self) -> Iterator[str]:
        """Yield blocks of complete lines as text. Lines that are not UTF-8 count as damaged."""
        for found in read_part(self._part):
            if isinstance(found, DamagedLine):
                self._damaged.append(found)
                return
            data = found.data
            if found.first_line == 1:
                if data.startswith(_UTF_16_MARKS):
                    self._damaged.append(
                        DamagedLine(1, UTF_16, data[:80].decode("utf-16", "replace"))
                    )
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
                    self._damaged.append(DamagedLine(n, NOT_UTF_8, decoded))
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


def _source(name: str, logger: str) -> LogSource:
    return LogSource(
        name,
        False,
        partial(_recognizes, name, logger),
        partial(_store, name),
    )


STATE_CHANGES: Final = _source(STATE_CHANGE_LOG, LOGGER)
CONTROLLER: Final = _source(CONTROLLER_LOG, LOGGER_PREFIX)
