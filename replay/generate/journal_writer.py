"""A history as klamm's own journal: one file of JSON lines.

The bytes are those that a controller's journal would have (runtime/journal.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from cluster.journal import SCHEMA_VERSION, JournalRow
from replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from replay.generate.rows import DAMAGED, LOST, NOBODY, NULL, Block
from replay.generate.world import World
from replay.generate.writers import Places

FILE_NAME: Final = "journal.jsonl"
CLUSTER_ID: Final = "generated"
GARBAGE: Final = b'{"v":1,"run_id":"\n'
"""Half a row."""
_KIND_WORDS: Final = (None, *(str(kind) for kind in KINDS))
_ELECTION_WORDS: Final = (None, *ELECTIONS)
STATE_WORDS: Final[dict[int, str | None]] = {
    0: None,
    **{code: word for word, code in STATE_CODES.items()},
}
_FIELDS: Final = (
    "t_ms",
    "seq",
    "controller",
    "epoch",
    "kind",
    "topic",
    "p",
    "replica",
    "from_state",
    "to_state",
    "since_ms",
    "key_seq",
    "leader",
    "prev_leader",
    "leader_epoch",
    "zk_version",
    "election",
    "event_id",
    "reassignment",
    "outcome",
    "detail",
    "isr",
    "prev_isr",
    "fate",
    "mark",
)


def run_name(seed: int) -> str:
    """The run of a history."""
    return f"generated-{seed}"


class JournalWriter:
    """Writes FOLDER/journal.jsonl."""

    def __init__(self, world: World, places: Places) -> None:
        self._world = world
        self._places = places
        self._path: Path = places.folder / FILE_NAME
        self._file = self._path.open("xb")
        self._encoder = msgspec.json.Encoder()
        self._line = 0
        self._run = run_name(world.options.seed)

    def write(self, block: Block) -> None:
        """The next rows."""
        begun: list[JournalRow] = []
        for row in self._rows(block):
            if row is None:
                self._file.write(self._encoder.encode_lines(begun) + GARBAGE)
                begun.clear()
            else:
                begun.append(row)
        self._file.write(self._encoder.encode_lines(begun))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rows(self, block: Block) -> Iterator[JournalRow | None]:
        """Rows in their order; None for a line that is damaged."""
        texts = [str(text) for text in block.texts]
        world, run = self._world, self._run
        columns = [block.columns[name].tolist() for name in _FIELDS]
        for row in zip(*columns, strict=True):
            fate, mark = row[-2:]
            if fate == LOST:
                continue
            self._line += 1
            if mark >= 0:
                self._places.tell(mark, self._path, self._line)
            yield None if fate == DAMAGED else _row(world, run, texts, row)


def _row(world: World, run: str, texts: list[str], row: tuple[Any, ...]) -> JournalRow:
    (t_ms, seq, controller, epoch, kind, topic, p, replica, from_state, to_state, *rest) = row
    (
        since_ms,
        key_seq,
        leader,
        prev_leader,
        leader_epoch,
        zk_version,
        election,
        event_id,
        *rest,
    ) = rest
    reassignment, outcome, detail, isr, prev_isr, _, _ = rest
    partition = -1
    if p >= 0:
        name, partition = world.names[p]
    else:
        name = world.topic_name(topic) if topic >= 0 else None
    return JournalRow(
        v=SCHEMA_VERSION,
        run_id=run,
        t_ms=t_ms,
        seq=seq,
        controller=controller,
        epoch=epoch,
        kind=_KIND_WORDS[kind] or "",
        cluster_id=CLUSTER_ID,
        event_id=event_id,
        topic=name,
        partition=partition,
        replica=replica,
        from_=STATE_WORDS[from_state],
        to=STATE_WORDS[to_state],
        since_ms=since_ms,
        key_seq=key_seq,
        leader=_known(leader),
        prev_leader=_known(prev_leader),
        leader_epoch=_known(leader_epoch),
        isr=None if leader == NULL else _brokers(isr),
        prev_isr=None if prev_leader == NULL else _brokers(prev_isr),
        election=_ELECTION_WORDS[election],
        reassignment_id=texts[reassignment] if reassignment >= 0 else None,
        zk_version=_known(zk_version),
        outcome=texts[outcome] if outcome >= 0 else None,
        detail=texts[detail] if detail >= 0 else None,
    )


def _known(number: int) -> int | None:
    return None if number == NULL else number


def _brokers(isr: list[int]) -> tuple[int, ...]:
    return tuple(broker for broker in isr if broker != NOBODY)
