"""What a generated history is like: its size, how often things fail, what is planted in it.

Values and their checks only; what the words mean in rows is in planting.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from klamm.cluster.errors import UsageError

REPLICATION_FACTOR: Final = 3
ROWS_A_CREATION: Final = 8
"""Rows that the creation of one partition takes: two of its own, two of each replica."""
_ROOM: Final = 2
_ROWS_A_PLANTED: Final = 100


class Planted(StrEnum):
    """Each kind of anomaly that can be planted, by its name in ``--plant``."""

    ILLEGAL = "illegal"
    """A transition that the state machines do not know; it changes nothing."""
    GAP = "gap"
    """A row that was lost."""
    DUPLICATE = "duplicate"
    """A row that was written twice."""
    UNCLEAN = "unclean"
    """A leader from outside the ISR."""
    TWO_CONTROLLERS = "two-controllers"
    """Another broker elected in an epoch that has its controller."""
    LATE_WRITE = "late-write"
    """A controller that writes after a newer epoch began."""
    LEADERLESS = "leaderless"
    """A partition without a leader for a while, its brokers being alive."""
    STUCK = "stuck"
    """A reassignment that never ends."""
    FLAPPING = "flapping"
    """A replica that leaves the ISR and returns, again and again."""
    DAMAGED = "damaged"
    """A line, or a transaction, that cannot be read."""


class Format(StrEnum):
    """How a history is written, by its name in ``--format``."""

    JOURNAL = "journal"
    STATE_CHANGE_LOG = "state-change-log"
    CONTROLLER_LOG = "controller-log"
    ZOOKEEPER = "zookeeper"
    PARQUET = "parquet"


_P = Planted
CANNOT_HOLD: Final[dict[Format, dict[Planted, str]]] = {
    Format.JOURNAL: {},
    Format.STATE_CHANGE_LOG: {
        _P.GAP: "its lines have no number",
        _P.DUPLICATE: "its lines have no number",
        _P.STUCK: "it does not tell of a reassignment's end",
        _P.FLAPPING: "it does not tell of the ISRs that leaders change",
    },
    Format.CONTROLLER_LOG: {
        _P.ILLEGAL: "it tells of no transition",
        _P.GAP: "its lines have no number",
        _P.DUPLICATE: "its lines have no number",
        _P.UNCLEAN: "it tells of no leader",
        _P.LATE_WRITE: "its lines name no epoch",
        _P.LEADERLESS: "it tells of no leader",
        _P.FLAPPING: "it tells of an ISR without its leader and the one before",
    },
    Format.ZOOKEEPER: {
        _P.ILLEGAL: "it tells of no transition",
        _P.DUPLICATE: "a transaction that is there twice is one",
    },
    Format.PARQUET: {},
}
"""What a format cannot hold, and why: a reader of it can never find that."""


def kinds_of(written_as: Format) -> list[Planted]:
    """The kinds that a format can hold."""
    return [kind for kind in Planted if kind not in CANNOT_HOLD[written_as]]


def planted_table() -> str:
    """Which kind fits which format, in Markdown, and why not."""
    lines = [f"| kind | {' | '.join(Format)} |", f"|---{'|---' * len(Format)}|"]
    for kind in Planted:
        cells = (CANNOT_HOLD[written_as].get(kind) for written_as in Format)
        lines.append(
            f"| `{kind}` | {' | '.join('yes' if why is None else f'no: {why}' for why in cells)} |"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """A history: the same options give the same rows.

    ``failure_rate``: the share of steps that are failures, of a broker or (one in five) of the
    controller. ``skew``: the share of all partitions that one topic has, 0 for topics of
    ``partitions_per_topic``.
    """

    partitions: int
    events: int
    failure_rate: float = 0.02
    seed: int = 0
    planted: Mapping[Planted, int] = field(default_factory=dict)
    brokers: int = 12
    partitions_per_topic: int = 100
    skew: float = 0.0

    def check(self, written_as: Format) -> None:
        """Raises UsageError for what cannot be made, or not be written so."""
        cannot = {
            kind: CANNOT_HOLD[written_as][kind]
            for kind, count in self.planted.items()
            if count and kind in CANNOT_HOLD[written_as]
        }
        if cannot:
            whys = "; ".join(f"{kind}: {why}" for kind, why in cannot.items())
            raise UsageError(
                f"format {written_as} cannot hold {whys}",
                hint=f"it can hold {', '.join(kinds_of(written_as))}",
            )
        planted = sum(self.planted.values())
        if planted > self.partitions:
            raise UsageError(
                f"{planted} anomalies need as many partitions", hint="raise --partitions"
            )
        rows = _ROOM * ROWS_A_CREATION * self.partitions if planted else 0
        rows = max(rows, ROWS_A_CREATION * self.partitions + self.brokers)
        rows += planted * _ROWS_A_PLANTED
        # A write that is late needs a newer epoch, whose snapshot has every partition.
        rows += self.planted.get(_P.LATE_WRITE, 0) * 2 * self.partitions * REPLICATION_FACTOR
        if self.events < rows:
            raise UsageError(
                f"{self.partitions:,} partitions{_with(planted)} take {rows:,} events or more"
            )


def _with(planted: int) -> str:
    return f" with {planted} anomalies" if planted else ""


def parse_planted(text: str) -> dict[Planted, int]:
    """``illegal=5,gap=3`` as counts. Raises UsageError."""
    counts: dict[Planted, int] = {}
    wrong = []
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name in list(Planted) and number.isdecimal():
            counts[Planted(name)] = int(number)
        else:
            wrong.append(part)
    if wrong:
        raise UsageError(
            f"--plant: no kind and count: {', '.join(wrong)}", hint=f"kinds: {', '.join(Planted)}"
        )
    return counts
