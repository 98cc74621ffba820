"""Generates the history of a synthetic cluster, and writes it as logs in one of several formats.

The file planted.json lists the planted anomalies. history.py composes the history; each format has
a writer module. The directory is created atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.event_schema import CONTROLLER_LOG, STATE_CHANGE_LOG
from klamm.replay.generate.history import GeneratedHistory
from klamm.replay.generate.journal_writer import Places, Write, write_journal
from klamm.replay.generate.kafka_log_writer import write_kafka_logs
from klamm.replay.generate.layout import cluster_name
from klamm.replay.generate.options import CANNOT_HOLD, Format, HistoryOptions, Planted
from klamm.replay.generate.rows import RowBlock
from klamm.replay.generate.table_writer import write_table
from klamm.replay.generate.zookeeper_writer import write_zookeeper
from klamm.replay.whole_folder import FolderKind, whole_folder

TRUTH: Final = "planted.json"
_KIND: Final = FolderKind(
    mark=TRUTH,
    maker="generator",
    if_there="--out takes a directory that does not exist",
    if_other="does not contain a generated history",
)
_WRITERS: Final[Mapping[Format, Write]] = {
    Format.JOURNAL: write_journal,
    Format.STATE_CHANGE_LOG: partial(write_kafka_logs, name=STATE_CHANGE_LOG),
    Format.CONTROLLER_LOG: partial(write_kafka_logs, name=CONTROLLER_LOG),
    Format.ZOOKEEPER: write_zookeeper,
    Format.PARQUET: write_table,
}


class Truth(msgspec.Struct, frozen=True):
    """The content of planted.json: the options, and each anomaly with the files and lines it is in.

    ``cannot_hold``: kinds of anomaly that this format cannot contain, with the reasons.
    """

    run: str
    written_as: str
    rows: int
    partitions: int
    brokers: int
    failure_rate: float
    seed: int
    epochs: int
    counts: dict[str, int]
    anomalies: list[dict[str, Any]]
    cannot_hold: dict[str, str]


def generate(
    options: HistoryOptions,
    written_as: Format,
    folder: Path,
    *,
    on_rows: Callable[[int], None] | None = None,
) -> Truth:
    """Generate a history and write it to the new directory ``folder``.

    ``on_rows`` is called repeatedly with the number of rows written so far. Raises UsageError for
    invalid options or an existing directory, EnvironmentProblem if writing fails. After an error,
    no directory is left behind.
    """
    options.check(written_as)
    try:
        with whole_folder(_KIND, folder, overwrite=False) as made:
            truth = _fill(options, written_as, made, on_rows)
            (made / TRUTH).write_bytes(msgspec.json.format(msgspec.json.encode(truth)))
    except OSError as error:
        raise EnvironmentProblem(f"{folder} cannot be written: {error.strerror}") from error
    return truth


def _fill(
    options: HistoryOptions,
    written_as: Format,
    folder: Path,
    on_rows: Callable[[int], None] | None,
) -> Truth:
    history = GeneratedHistory(options)
    places = Places(folder, history.planting.found)

    def blocks() -> Iterator[RowBlock]:
        for block in history.blocks():
            yield block
            if on_rows is not None:
                on_rows(history.rows)

    _WRITERS[written_as](history.layout, places, blocks())
    found = history.planting.found
    return Truth(
        run=cluster_name(options.seed),
        written_as=written_as,
        rows=options.events,
        partitions=options.partitions,
        brokers=options.brokers,
        failure_rate=options.failure_rate,
        seed=options.seed,
        epochs=history.epochs,
        counts={kind: sum(one.kind is kind for one in found) for kind in Planted},
        anomalies=msgspec.to_builtins(found),
        cannot_hold={str(kind): why for kind, why in CANNOT_HOLD[written_as].items()},
    )
