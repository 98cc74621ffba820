"""The steps of a scenario as values: what is done, what is waited for, what must hold.

Recorded scenarios (runtime/scenarios/recorded.py) and drills compile to these, and
runtime/scenarios/runner.py runs them. Values only: nothing here touches a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from brokers.storage.faults import DiskFault
from cluster.types import ElectionType, TopicPartition

STEP_TIMEOUT_MS: Final = 30_000.0
CONTROLLER: Final = "controller"
DEAD: Final = "dead"
PAUSED: Final = "paused"
BrokerRef = int | str | TopicPartition
"""Which brokers: an id, CONTROLLER, all that steps ended (DEAD) or froze (PAUSED), or the leader of
a partition."""


class BringUp(msgspec.Struct, frozen=True):
    """Start brokers one after the other, each when the one before is registered and at rest."""

    broker_ids: tuple[int, ...]


class RunTool(msgspec.Struct, frozen=True):
    """Run one of the tools; ``{zk}`` and ``{bootstrap}`` in ``args`` stand for the cluster, and
    ``{file:NAME}`` for a file that holds ``files[NAME]``."""

    tool: str
    args: tuple[str, ...]
    files: Mapping[str, str] = {}


class CreateZnode(msgspec.Struct, frozen=True):
    """Create a znode manually; a sequential one gets ten digits behind its path."""

    path: str
    data: bytes | None
    is_sequential: bool = False


class SetZnode(msgspec.Struct, frozen=True):
    """Overwrite a znode, whatever its version."""

    path: str
    data: bytes | None


class DeleteZnode(msgspec.Struct, frozen=True):
    """Delete a znode, whatever its version."""

    path: str


class SetTopicPartitions(msgspec.Struct, frozen=True):
    """Put partitions (number to replicas) into a topic's znode, as an operator does by hand."""

    topic: str
    partitions: Mapping[str, list[int]]


class Start(msgspec.Struct, frozen=True):
    """Start a broker."""

    broker: BrokerRef


class Kill(msgspec.Struct, frozen=True):
    """Kill a broker: its session goes when it times out."""

    broker: BrokerRef


class PowerOff(msgspec.Struct, frozen=True):
    """Kill a broker together with its machine: what its logs had not flushed may be lost."""

    broker: BrokerRef


class Stop(msgspec.Struct, frozen=True):
    """Shut a broker down in a controlled way."""

    broker: BrokerRef


class Pause(msgspec.Struct, frozen=True):
    """Freeze a broker and its controller; no heartbeat leaves them."""

    broker: BrokerRef


class Resume(msgspec.Struct, frozen=True):
    """Let a paused broker go on where it was."""

    broker: BrokerRef


class BounceRegistration(msgspec.Struct, frozen=True):
    """Delete a broker's znode and create it again with the same data, in one go."""

    broker: BrokerRef


class FailLogDir(msgspec.Struct, frozen=True):
    """Let a log directory of a broker fail."""

    broker: BrokerRef
    path: str


class FailDisk(msgspec.Struct, frozen=True):
    """Inject a fault into the disk of a broker's log directory; None: all of them."""

    broker: BrokerRef
    fault: DiskFault
    log_dir: str | None = None


class SlowDisk(msgspec.Struct, frozen=True):
    """Limit the rate of replica copies to and from a log directory, or all of a broker."""

    broker: BrokerRef
    bytes_per_s: int
    log_dir: str | None = None


class FailJournal(msgspec.Struct, frozen=True):
    """Inject a fault into the disk of the journal."""

    fault: DiskFault


class HealDisks(msgspec.Struct, frozen=True):
    """End all disk faults."""


class KillAll(msgspec.Struct, frozen=True):
    """Kill the process of the whole cluster."""


class UpAgain(msgspec.Struct, frozen=True):
    """Restart the whole cluster with the data that its process left."""


class Isolate(msgspec.Struct, frozen=True):
    """Let records travel among these brokers, and among the others, from now on."""

    brokers: tuple[BrokerRef, ...]


class DegradeNetwork(msgspec.Struct, frozen=True):
    """The shares of messages with records that are lost, come twice, and overtake others."""

    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0


class HealNetwork(msgspec.Struct, frozen=True):
    """From now on nothing is lost, and nobody isolated."""


class MoveController(msgspec.Struct, frozen=True):
    """Delete /controller."""


class ActOnZooKeeper(msgspec.Struct, frozen=True):
    """``kill``, ``start``, ``pause`` or ``resume`` one of the scenario's ZooKeeper servers (an id,
    ``leader`` or ``follower``); ``lose_quorum`` or ``regain_quorum`` act on all of them."""

    action: str
    server: str = ""


class Reassign(msgspec.Struct, frozen=True):
    """Ask the controller to reassign partitions; None instead of replicas cancels."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


class ElectLeaders(msgspec.Struct, frozen=True):
    """Ask the controller to elect leaders of partitions, or None: of all that need it."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None


class Produce(msgspec.Struct, frozen=True):
    """Give the scenario's producer records for partitions."""

    records: Mapping[TopicPartition, int]


class ProduceConstantly(msgspec.Struct, frozen=True):
    """Let a producer give partitions so many records a second from now on."""

    records_per_s: Mapping[TopicPartition, float]


class Preload(msgspec.Struct, frozen=True):
    """Let the replicas of a partition hold so many bytes more."""

    partition: TopicPartition
    size_bytes: int


class Wait(msgspec.Struct, frozen=True):
    """Let time pass."""

    duration_ms: float


BrokerAction = Start | Kill | PowerOff | Stop | Pause | Resume | BounceRegistration | FailLogDir
RecordAction = Produce | ProduceConstantly | Preload
DiskAction = FailDisk | SlowDisk | FailJournal | HealDisks
ProcessAction = KillAll | UpAgain
NetworkAction = Isolate | DegradeNetwork | HealNetwork
ZnodeAction = CreateZnode | SetZnode | DeleteZnode | SetTopicPartitions
Action = (
    BringUp
    | RunTool
    | ZnodeAction
    | BrokerAction
    | NetworkAction
    | DiskAction
    | ProcessAction
    | MoveController
    | ActOnZooKeeper
    | Reassign
    | ElectLeaders
    | RecordAction
    | Wait
)


class Condition(msgspec.Struct, frozen=True):
    """Something that holds or does not: one of runtime/scenarios/conditions.py, and its value."""

    kind: str
    wanted: Any

    def __str__(self) -> str:
        return f"{self.kind}: {plain_text(self.wanted)}"


class Moment(Enum):
    """When a condition is judged. A further moment, such as always, is a further member."""

    UNTIL = "until"
    """Waited for, as long as the check says."""
    EXPECT = "expect"
    """Looked at once."""


class Check(msgspec.Struct, frozen=True):
    """A condition, and when it is judged. ``place``: where it is written, FILE:LINE:COLUMN.

    Of the checks of a step those after an ``is_required`` one that does not hold are not made.
    """

    moment: Moment
    condition: Condition
    timeout_ms: float = STEP_TIMEOUT_MS
    place: str = ""
    is_required: bool = True


class Settle(msgspec.Struct, frozen=True):
    """Among a step's checks: let the cluster come to rest before the next one."""


class Step(msgspec.Struct, frozen=True):
    """What is done at once, and the checks that follow, in this order."""

    name: str
    actions: tuple[Action, ...] = ()
    checks: tuple[Check | Settle, ...] = ()
    place: str = ""


def plain_text(value: Any) -> str:
    """A plain value as it is written in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {plain_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
