"""Options of a generated history, such as its size and the anomalies to plant, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from klamm.cluster.counting import counted, parse_whole_number, plural
from klamm.cluster.errors import UsageError

REPLICATION_FACTOR: Final = 3
ROWS_A_CREATION: Final = 8
"""Number of rows for the creation of a partition: two about the partition, two about each replica.
"""
_ROWS_A_RESTART: Final = 30
"""Maximum number of rows about a partition and its replicas at a restart of the cluster."""
_BROKER_ROWS_A_RESTART: Final = 2
"""Maximum number of rows about a broker at a restart of the cluster."""
ROWS_A_FAILOVER: Final = 1 + REPLICATION_FACTOR
"""Number of rows about a partition and its replicas at a controller failover."""
ROWS_A_PLANTED: Final = 100
"""Maximum number of rows of a planted anomaly."""
_EVENTS_A_PARTITION: Final = 10_000_000
"""Maximum number of rows per partition; with more, times might exceed LAST_MS, the last time that a
journal can have."""
_ROOM: Final = 2


class Planted(StrEnum):
    """The kinds of anomaly that can be planted. Values are their names in ``--plant``."""

    ILLEGAL = "illegal"
    """A transition that the state machines do not allow; it has no effect."""
    GAP = "gap"
    """A lost row."""
    DUPLICATE = "duplicate"
    """A row that is written twice."""
    UNCLEAN = "unclean"
    """An election of a leader outside the ISR."""
    TWO_CONTROLLERS = "two-controllers"
    """A second broker that is elected in the same controller epoch."""
    LATE_WRITE = "late-write"
    """A write by a deposed controller, after a newer epoch began."""
    LEADERLESS = "leaderless"
    """A partition that has no leader for some time although its brokers are alive."""
    STUCK = "stuck"
    """A reassignment that never ends."""
    FLAPPING = "flapping"
    """A replica that leaves and rejoins the ISR repeatedly."""
    DAMAGED = "damaged"
    """An unreadable line or transaction."""


class Format(StrEnum):
    """The formats in which a history can be written. Values are their names in ``--format``."""

    JOURNAL = "journal"
    STATE_CHANGE_LOG = "state-change-log"
    CONTROLLER_LOG = "controller-log"
    ZOOKEEPER = "zookeeper"
    PARQUET = "parquet"


_P = Planted
CANNOT_HOLD: Final[dict[Format, dict[Planted, str]]] = {
    Format.JOURNAL: {},
    Format.STATE_CHANGE_LOG: {
        _P.GAP: "lines have no sequence numbers",
        _P.DUPLICATE: "lines have no sequence numbers",
        _P.STUCK: "the end of a reassignment is not logged",
        _P.FLAPPING: "ISR changes by leaders are not logged",
    },
    Format.CONTROLLER_LOG: {
        _P.ILLEGAL: "transitions are not logged",
        _P.GAP: "lines have no sequence numbers",
        _P.DUPLICATE: "lines have no sequence numbers",
        _P.UNCLEAN: "leaders are not logged",
        _P.LATE_WRITE: "lines do not contain the controller epoch",
        _P.LEADERLESS: "leaders are not logged",
        _P.FLAPPING: "ISRs are logged without the leader and the previous ISR",
    },
    Format.ZOOKEEPER: {
        _P.ILLEGAL: "transitions are not stored",
        _P.DUPLICATE: "copies of a transaction count once",
    },
    Format.PARQUET: {},
}
"""For each format: the kinds of anomaly that its logs cannot show, with the reasons."""


def kinds_of(written_as: Format) -> list[Planted]:
    """Return the kinds of anomaly that a format can contain."""
    return [kind for kind in Planted if kind not in CANNOT_HOLD[written_as]]


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Options of a history. Equal options give equal rows.

    - ``events``: number of rows.
    - ``failure_rate``: fraction of the steps in which a broker or the controller fails. In one in
      five of these failures, the controller fails. Unless the rate is 0, every episode has a
      failure. With any rate, each episode begins with a controller failover.
    - ``planted``: number of anomalies of each kind.
    - ``restarts``: number of times that the whole cluster is killed and started again.
    - ``skew``: fraction of the partitions that belong to one large topic. All other topics have
      ``partitions_per_topic`` partitions.
    """

    partitions: int
    events: int
    failure_rate: float = 0.02
    seed: int = 0
    planted: Mapping[Planted, int] = field(default_factory=dict)
    brokers: int = 12
    partitions_per_topic: int = 100
    skew: float = 0.0
    restarts: int = 0

    @property
    def restart_rows(self) -> int:
        """Maximum number of rows of a restart of the cluster."""
        return _ROWS_A_RESTART * self.partitions + _BROKER_ROWS_A_RESTART * self.brokers

    def check(self, written_as: Format) -> None:
        """Raise UsageError for anomalies that the format cannot contain, or an impossible size.

        The anomalies need a minimum number of partitions and of events.
        """
        cannot = {
            kind: CANNOT_HOLD[written_as][kind]
            for kind, count in self.planted.items()
            if count and kind in CANNOT_HOLD[written_as]
        }
        if cannot:
            whys = "; ".join(f"{kind}: {why}" for kind, why in cannot.items())
            raise UsageError(
                f"format {written_as} cannot contain these anomalies: {whys}",
                hint=f"possible: {', '.join(kinds_of(written_as))}",
            )
        planted = sum(self.planted.values())
        if planted > self.partitions:
            raise UsageError(
                f"{planted} anomalies need at least {planted} partitions, not {self.partitions}",
                hint="raise --partitions",
            )
        partitions = counted(self.partitions, "partition")
        most = _EVENTS_A_PARTITION * self.partitions
        if self.events > most:
            raise UsageError(
                f"{partitions} can have at most {most:,} events, not {self.events:,}: "
                "a longer history might exceed the year 2199",
                hint="lower --events",
            )
        rows = _ROOM * ROWS_A_CREATION * self.partitions if planted else 0
        rows = max(rows, ROWS_A_CREATION * self.partitions + self.brokers)
        rows += planted * ROWS_A_PLANTED
        # Anomalies follow a failover. A second controller needs an epoch that has no other.
        failovers = self.planted.get(_P.TWO_CONTROLLERS, 0) + 1 if planted else 0
        rows += failovers * ROWS_A_FAILOVER * self.partitions
        rows += self.restarts * self.restart_rows
        if self.events < rows:
            anomalies = "1 anomaly" if planted == 1 else f"{planted:,} anomalies"
            with_anomalies = f" with {anomalies}" if planted else ""
            need = "needs" if self.partitions == 1 else "need"
            raise UsageError(
                f"{partitions}{with_anomalies} {need} at least {rows:,} events, "
                f"not {self.events:,}",
                hint="raise --events",
            )


def parse_planted(text: str) -> dict[Planted, int]:
    """Parse ``--plant``, for example ``illegal=5,gap=3``. Raises UsageError if it is invalid."""
    counts: dict[Planted, int] = {}
    wrong, unknown = [], []
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        count = parse_whole_number(number)
        if name not in list(Planted):
            unknown.append(name)
        elif count is None:
            wrong.append(part)
        elif name in counts:
            raise UsageError(f"--plant: {name} is given twice", hint="give each kind once")
        else:
            counts[Planted(name)] = count
    if wrong or unknown:
        expected = f"expected KIND=N, not {', '.join(wrong)}"
        said = f"unknown kind{plural(len(unknown))} {', '.join(unknown)}" if unknown else expected
        raise UsageError(f"--plant: {said}", hint=f"kinds: {', '.join(Planted)}")
    return counts
