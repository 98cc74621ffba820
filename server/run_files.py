"""The files that a run of klamm writes: its journal and the log files of its controllers."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.cluster.types import NO_CONTROLLER
from klamm.cluster.version import klamm_version
from klamm.server.data_dir import DataDir
from klamm.world.clock import WallClock
from klamm.world.journal.archive import DEFAULT_ROTATION, Archive, Rotation
from klamm.world.journal.journal import FileJournal
from klamm.world.journal.kafka_logs import KafkaLogs


def new_run_id(started_ms: int) -> str:
    """Return a unique run id; the order of run ids is the order of their start times."""
    started = datetime.fromtimestamp(started_ms / 1000, UTC)
    return f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def run_start(
    run_id: str, cluster_id: str, started_ms: int, detail: Mapping[str, Any]
) -> JournalRow:
    """Return the first row of a run."""
    text = msgspec.json.encode({"klamm_version": klamm_version(), **detail}).decode()
    place = (SCHEMA_VERSION, run_id, started_ms, 0, NO_CONTROLLER, 0)
    return JournalRow(*place, Kind.RUN_START, cluster_id=cluster_id, detail=text)


@contextlib.contextmanager
def run_files(
    data_dir: DataDir,
    start: JournalRow,
    level: str,
    rotation: Rotation = DEFAULT_ROTATION,
    *,
    is_fsynced: bool = False,
    disk: Disk = LOCAL_DISK,
) -> Iterator[tuple[FileJournal, KafkaLogs]]:
    """Context manager that yields the journal, to which it appends ``start``, and the log files.

    ``level`` is the log level of state-change.log.
    """
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(contextlib.closing(Archive(rotation)))
        journal = FileJournal(data_dir.journal, is_fsynced=is_fsynced, archive=archive, disk=disk)
        stack.callback(journal.close)
        journal.append([start])
        journal.flush()
        logs = KafkaLogs(data_dir.logs, WallClock(), level, archive=archive, disk=disk)
        stack.callback(logs.close)
        yield journal, logs
