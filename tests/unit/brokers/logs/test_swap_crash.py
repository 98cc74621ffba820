"""The machine stops between the two renames by which a future log takes the current one's place:
as in LogManager.loadLog of 2.8.2 the broker then does not start until one of the two is deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.log_dir_moves import T0, Mover, content


class _Stops(BaseException):
    """The machine does."""


class _StoppingStore(FileLogStore):
    """Stops before the old log loses its name."""

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        raise _Stops


@pytest.mark.parametrize("deleted", ["d0", "d1"])
def test_after_a_crash_between_the_renames_of_a_swap_either_log_may_be_deleted(
    deleted: str, tmp_path: Path
) -> None:
    mover = Mover("segments", tmp_path)
    mover.append(0, *[10] * 3)
    mover.append(2, 10)
    before = content(mover.log)
    mover.move_to("d1")
    mover.manager.shutdown()
    mover.store = _StoppingStore(tmp_path)
    mover.start()
    with pytest.raises(_Stops):
        mover.work(100)
    mover.kill()
    assert [(tmp_path / path / "t-0").is_dir() for path in ("d0", "d1", "d2")] == [
        True,
        True,
        False,
    ]

    mover.store = FileLogStore(tmp_path)
    with pytest.raises(LogStorageError, match=r"t-0 are found in both d[01] and d[01]") as refused:
        mover.start()
    assert refused.value.hint is not None and "delete" in refused.value.hint
    shutil.rmtree(tmp_path / deleted / "t-0")
    mover.start()
    left = "d1" if deleted == "d0" else "d0"
    assert mover.paths == (left, None)
    assert content(mover.log) == before
    assert mover.manager.dirs.current(T0) is mover.log
    mover.close()
