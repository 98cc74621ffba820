"""Actions on a cluster: one class per action, with its arguments, documentation and effect.

Drills and recorded scenarios execute these classes, the HTTP server decodes requests into them, and
the command line sends them to the server. Actions on the network are in network_actions.py, and
actions that only scenarios use in steps.py. The table of all actions is in table.py.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import WrongState
from klamm.cluster.status import PAUSED, RUNNING
from klamm.lab.actions.action import (
    BROKER,
    KILLED,
    POWERED_OFF,
    STOPPED,
    Action,
    ActionTarget,
    BrokerAction,
    BrokerRef,
    Times,
)
from klamm.lab.value_types import LogDir
from klamm.zk.store import Create, Delete, GetData, ResultCode

MAX_SKEW_MS: Final = 86_400_000
_MOST_BYTES: Final = 10**12
LogDirs = Annotated[
    LogDir | None, Meta(description="One of the broker's log.dirs; by default, all of them.")
]


class Kill(BrokerAction, frozen=True):
    """Kill a broker as kill -9 does: its session stays until ZooKeeper expires it."""

    PATH = f"{BROKER}kill"
    LEAVES = KILLED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id)


class Start(BrokerAction, frozen=True):
    """Start a broker again. It registers once the session of its previous process has expired."""

    PATH = f"{BROKER}start"
    LEAVES = RUNNING

    wait: bool = True
    """If false, fail like Kafka if the previous session is still alive. Only for the HTTP API."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.start(broker_id)


class Stop(BrokerAction, frozen=True):
    """Stop a broker with a controlled shutdown: the controller first elects other leaders."""

    PATH = f"{BROKER}stop"
    LEAVES = STOPPED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.shut_down(broker_id)


class PowerOff(BrokerAction, frozen=True):
    """Power off the machine of a broker, so that the broker's unflushed data is lost. The data is
    lost from a randomly chosen offset onward."""

    PATH = f"{BROKER}power-off"
    LEAVES = POWERED_OFF
    ON_KAFKA = False

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id, loses_unflushed=True)


class Pause(BrokerAction, frozen=True):
    """Freeze a broker, its controller and its heartbeats, as a long garbage collection does."""

    PATH = f"{BROKER}pause"
    LEAVES = PAUSED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.pause(broker_id)


class Resume(BrokerAction, frozen=True):
    """Resume a paused broker."""

    PATH = f"{BROKER}resume"
    LEAVES = RUNNING

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.resume(broker_id)


class BounceRegistration(BrokerAction, frozen=True):
    """Delete a broker's registration and create it again at once, with the same data. The new znode
    is owned by the drill's session, so it remains when the broker's session expires."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        path = f"/brokers/ids/{broker_id}"
        found = target.store.read([GetData(path)])[0]
        if found.code is not ResultCode.OK:
            raise WrongState(f"broker {broker_id} is not registered")
        target.store.write([[Delete(path)], [Create(path, found.data, ephemeral=True)]])


class FailLogDir(BrokerAction, frozen=True):
    """Make a log directory of a broker fail: the replicas in it go offline."""

    PATH = f"{BROKER}fail-log-dir"

    log_dir: Annotated[LogDir, Meta(description="One of the broker's log.dirs.")]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.fail_log_dir(broker_id, self.log_dir)


class FailDisk(Action, frozen=True):
    """Make the disk of a broker's log directories, or of the journal, fail until the disks are
    healed. A log directory goes offline at the next operation that fails, or at once if its logs
    are in memory (without segments)."""

    PATH = "/disks/fail"
    ON_KAFKA = False

    kind: Annotated[
        FaultKind,
        Meta(
            description="How the disk fails: it is full (`enospc`), every operation fails (`eio`), "
            "only a part of each write reaches the file (`short-write`), or every fsync fails and "
            "a part of the unsynced data is lost (`fsync`)."
        ),
    ]
    broker: BrokerRef | None = None
    log_dir: LogDirs = None
    journal: Annotated[bool, Meta(description="Make the disk that holds the journal fail.")] = False
    after_bytes: Annotated[
        int,
        Meta(ge=0, le=_MOST_BYTES, description="Bytes that can still be written before the fault."),
    ] = 0
    times: Times | None = None

    def __post_init__(self) -> None:
        if self.log_dir is not None and self.broker is None:
            raise ValueError("'log_dir' requires 'broker'")
        if (self.broker is None) != self.journal:
            raise ValueError("give either 'broker' or 'journal'")

    def act(self, target: ActionTarget) -> None:
        fault = DiskFault(self.kind, after_bytes=self.after_bytes, times=self.times)
        if self.broker is None:
            target.cluster.disks.fail_journal(fault)
            return
        for broker_id in target.broker_ids(self.broker):
            target.cluster.disks.fail(broker_id, self.log_dir, fault)


class SlowDisk(BrokerAction, frozen=True):
    """Limit how fast replicas are copied to and from a broker's log directories. A follower that
    cannot keep up leaves the ISR after replica.lag.time.max.ms."""

    PATH = "/disks/slow"
    ON_KAFKA = False

    bytes_per_s: Annotated[int, Meta(ge=1, le=_MOST_BYTES, description="Maximum rate in bytes/s.")]
    log_dir: LogDirs = None

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.disks.slow(broker_id, self.log_dir, self.bytes_per_s)


class HealDisks(Action, frozen=True):
    """End all disk faults. A failed log directory stays offline until its broker is restarted."""

    PATH = "/disks/heal"

    def act(self, target: ActionTarget) -> None:
        target.cluster.disks.heal()


class SkewClock(BrokerAction, frozen=True):
    """Set the time of day on a broker's machine forward or back. Its timers are not affected."""

    PATH = f"{BROKER}skew-clock"
    ON_KAFKA = False

    ms: Annotated[
        int,
        Meta(
            ge=-MAX_SKEW_MS,
            le=MAX_SKEW_MS,
            description="Milliseconds; negative: back. 0 ends the skew.",
        ),
    ]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.clocks[broker_id].skew_ms = self.ms


class MoveController(Action, frozen=True):
    """Delete /controller to force a controller election; the same broker may win again."""

    PATH = "/controller/move"

    def act(self, target: ActionTarget) -> None:
        # imported late: commands need no client
        from klamm.zk.kafka_zk_client import KafkaZkClient
        from klamm.zk.znodes import ControllerZNode

        KafkaZkClient(target.store).delete(ControllerZNode.path)
