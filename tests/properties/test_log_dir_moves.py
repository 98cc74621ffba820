"""A replica that has moved holds what it held, whatever happens on the way.

Both kinds of log: appends, truncations, leader epochs with and without records, ends of the process
and of the machine, other targets. The controller names the replica after every start.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conformance.replica_logs import NOW_MS
from tests.unit.brokers.log_dir_moves import DIRS, T0, Mover, content


class Moves(RuleBasedStateMachine):
    """Only a swap and the end of a process may put another log in the current one's place."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="klamm-moves-"))
        self.mover = Mover(self.kind, self.folder)
        self.epoch = 0

    @initialize(counts=st.lists(st.integers(1, 20), max_size=8))
    def fill(self, counts: list[int]) -> None:
        self.mover.append(self.epoch, *counts)

    @rule(counts=st.lists(st.integers(1, 20), min_size=1, max_size=4))
    def append(self, counts: list[int]) -> None:
        self.mover.append(self.epoch, *counts)

    @rule(leads=st.booleans())
    def change_leader(self, leads: bool) -> None:
        self.epoch += 1
        if leads:
            self.mover.log.start_epoch(self.epoch)
        self.mover.moves.resume(T0, self.mover.partition, NOW_MS)

    @rule(share=st.floats(0, 1), counts=st.lists(st.integers(1, 20), max_size=4))
    def truncate_and_follow(self, share: float, counts: list[int]) -> None:
        log = self.mover.log
        held = log.log_end_offset - log.log_start_offset
        log.truncate_to(log.log_start_offset + int(share * held))
        self.epoch += 1
        self.mover.append(self.epoch, *counts)

    @rule(share=st.floats(0, 1))
    def begin_later(self, share: float) -> None:
        log = self.mover.log
        held = log.log_end_offset - log.log_start_offset
        log.increment_log_start_offset(log.log_start_offset + int(share * held))

    @rule(offset=st.integers(0, 60))
    def begin_anew(self, offset: int) -> None:
        self.mover.log.truncate_fully_and_start_at(offset)
        self.epoch += 1

    @rule(path=st.sampled_from(DIRS))
    def alter(self, path: str) -> None:
        current, future = self.mover.paths
        if future not in (None, path):
            self.mover.moves.remove(T0)
            self.mover.manager.delete_future(T0, NOW_MS)
        if path not in (current, future):
            self.mover.move_to(path)

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        end = self.mover.log.log_end_offset
        (self.mover.manager.shutdown if is_clean else self.mover.kill)()
        self.mover.start()
        assert self.mover.log.log_end_offset == end

    @rule(seed=st.integers(0, 100))
    def stop_the_machine(self, seed: int) -> None:
        end = self.mover.log.log_end_offset
        self.mover.kill(random.Random(seed).randint)
        self.mover.start()
        assert self.mover.log.log_end_offset <= end
        self.epoch += 1

    @rule(chunks=st.integers(1, 4))
    def work(self, chunks: int) -> None:
        for _ in range(chunks):
            self._copy_a_chunk()

    def _copy_a_chunk(self) -> bool:
        before = content(self.mover.log)
        was_due = self.mover.work() == 1
        assert content(self.mover.log) == before
        return was_due

    @invariant()
    def what_is_copied_is_copied_once(self) -> None:
        assert self.mover.moves.failed == {}
        assert self.mover.manager.take_failures() == []

    def teardown(self) -> None:
        target = self.mover.paths[1]
        chunks = 0
        while self._copy_a_chunk():
            chunks += 1
            assert chunks < 1_000, "the move never ends"
        assert self.mover.paths == (target or self.mover.paths[0], None)
        self.mover.close()
        shutil.rmtree(self.folder)


def _of(kind: str, examples: int) -> Any:
    machine: Any = type(f"MovesOf{kind.title()}", (Moves,), {"kind": kind})
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=20, derandomize=True)
    return case


TestMovesOfIntervals = _of("intervals", 60)
TestMovesOfSegments = _of("segments", 10)
