"""Rows of a history in words, one at a time: those of the journal, which other formats tell too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cluster.journal import SCHEMA_VERSION, JournalRow
from replay.event_schema import ELECTIONS, KINDS, STATE_CODES
from replay.generate.rows import NOBODY, NULL, Block
from replay.generate.world import World

CLUSTER_ID: Final = "generated"
_ROWS_AT_ONCE: Final = 50_000
"""Numbers of Python take ten times the room of an array's."""
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


class InWords(NamedTuple):
    """A row. ``fate`` and ``mark`` as in rows.COLUMNS; ``p`` and ``topic`` are the world's numbers,
    -1 for none; ``detail`` is what ``row.detail`` tells in words."""

    fate: int
    mark: int
    p: int
    topic: int
    row: JournalRow
    detail: object


def run_name(seed: int) -> str:
    """The run of a history."""
    return f"generated-{seed}"


def in_words(world: World, block: Block) -> Iterator[InWords]:
    """The rows of a block, those that were lost and damaged too."""
    run = run_name(world.options.seed)
    texts = [str(text) for text in block.texts]
    for first in range(0, block.count, _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        columns = [block.columns[name][some].tolist() for name in _FIELDS]
        for row in zip(*columns, strict=True):
            topic, p, detail, fate, mark = row[5], row[6], row[-5], row[-2], row[-1]
            told = block.texts[detail] if detail >= 0 else None
            yield InWords(fate, mark, p, topic, _row(world, run, texts, row), told)


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
