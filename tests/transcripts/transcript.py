"""A transcript: commands in, and what the controllers decide, write, send and log.

A file has comments, then blocks: a command, ``----``, its output, an empty line. The first command
is the ``cluster`` of a drill, each further one a step of a drill (docs/drills.md). Further words:
in the first, ``quirks: NAME ..``, and ``shown``, without which its output is left out; in others,
``crash_after: TEXT``: a controller's machine crashes right after the first line with TEXT that it
writes to ZooKeeper or its log, or before its next line if it is a journal row.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from typing import Final, NamedTuple

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.protocols import Clock
from klamm.cluster.quirks import parse_quirks
from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.controller.state_change_log import StateChangeLog
from klamm.lab.drill import Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_store import Crashed
from klamm.zk.store import (
    Create,
    Delete,
    ReadOp,
    ReadResult,
    ResultCode,
    SetData,
    Transaction,
    TxnResult,
    WriteOp,
)

SEPARATOR: Final = "----\n"
_CRASH: Final = re.compile(r"^crash_after: (.+)\n", re.MULTILINE)
_QUIRKS: Final = re.compile(r"^quirks: (.+)\n", re.MULTILINE)
_SHOWN: Final = "shown\n"
_LOG_LINE: Final = re.compile(r"\[[^]]*\] (?P<level>[A-Z]+) (?P<text>.*) \([^()]*\)")
_PLAIN_FIELDS: Final = ("leader", "leader_epoch", "isr", "election", "outcome", "detail")
_STATES: Final = {Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION}


class Block(NamedTuple):
    """A command, and the output that the file has for it."""

    command: str
    output: str


class Transcript(NamedTuple):
    """A file. ``heading``: its comments."""

    heading: str
    blocks: tuple[Block, ...]

    @classmethod
    def parse(cls, text: str) -> Transcript:
        """Read a file's text. Raises ValueError."""
        heading, *parts = text.rstrip("\n").split("\n\n")
        if not all(line.startswith("#") for line in heading.splitlines()):
            raise ValueError("a transcript begins with comments and an empty line")
        blocks = [f"{part}\n".partition(SEPARATOR) for part in parts]
        if not all(separator for _, separator, _ in blocks):
            raise ValueError(f"a block without {SEPARATOR}")
        return cls(heading, tuple(Block(command, output) for command, _, output in blocks))

    def text(self) -> str:
        """Return the file's text."""
        blocks = (f"{command}{SEPARATOR}{output}" for command, output in self.blocks)
        return "\n".join([f"{self.heading}\n", *blocks])

    def run(self) -> Transcript:
        """Return it with the output that its commands have now."""
        commands = [block.command for block in self.blocks]
        quirks = _QUIRKS.search(commands[0])
        cluster, *steps = (_CRASH.sub("", _QUIRKS.sub("", command)) for command in commands)
        cluster, shown, _ = cluster.partition(_SHOWN)
        text = "drill: transcript\nabout: a transcript\ncluster:\n" + textwrap.indent(cluster, "  ")
        text += "steps:\n" + "".join(f"  -\n{textwrap.indent(step, '    ')}" for step in steps)
        if any(map(_CRASH.search, commands)):
            # The drill does not know that the broker ends that a later step starts.
            text += "tolerant: true\n"
        drill = parse_drill(text, "transcript")
        told = _Told()
        spec = drill.spec(parse_quirks(quirks[1].split() if quirks else []), 0)
        world = SimulatedWorld(spec, has_memory_disk=True, open_log=told.open_log)
        driver = SimulatedDriver(world)
        told.listen(world)
        runner = ScenarioRunner(driver)
        begin = len(drill.steps) - len(steps)
        outputs = []
        for command, part in zip(
            commands,
            (drill.steps[:begin], *((step,) for step in drill.steps[begin:])),
            strict=True,
        ):
            crash = _CRASH.search(command)
            told.crash_after = None if crash is None else crash[1]
            for step in part:
                told.not_met(runner, step)
                driver.quiesce()
            outputs.append(told.take())
        if not shown:
            outputs[0] = ""
        assert world.errors == []
        blocks = (Block(*block) for block in zip(commands, outputs, strict=True))
        return Transcript(self.heading, tuple(blocks))


class _Told:
    """Collects the lines of one command: in order, but requests apart, broker by broker."""

    crash_after: str | None = None

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._requests: dict[int, list[str]] = defaultdict(list)
        self._rows_told = 0
        self._doomed: int | None = None

    def listen(self, world: SimulatedWorld) -> None:
        """Hear of everything that happens in a world."""
        self._world = world
        world.server.before_op = self._before_operation
        world.server.after_op = self._on_operation
        world.transport.add_tap(self._on_message)

    def open_log(self, broker_id: int, clock: Clock) -> StateChangeLog:
        """Return the logs of a controller, whose lines are told."""
        return StateChangeLog(broker_id, clock, state_change=self, controller=self, is_trace=False)

    def write(self, text: str) -> None:
        """Take lines of a log. Those below INFO are not written."""
        self._tell_rows()
        lines = []
        for line in text.splitlines():
            found = _LOG_LINE.fullmatch(line)
            lines.append("  log " + (line if found is None else f"{found[1]} {found[2]}"))
        self._tell(lines)
        self._crash()

    def not_met(self, runner: ScenarioRunner, step: Step) -> None:
        """Do a step, and tell what of it was not met."""
        result = runner.run_step(step)
        if result.tool is not None and result.tool.exit_code:
            self._lines.append(f"! exit code {result.tool.exit_code}: {result.tool.stdout}")
        for check in result.checks:
            if not check.is_met:
                self._lines.append(f"! not met: {check.check.condition}, seen {check.seen}")

    def take(self) -> str:
        """Return the lines since the last call."""
        self._tell_rows()
        lines = self._lines
        for broker_id, requests in sorted(self._requests.items()):
            lines += [f"requests to {broker_id}", *requests]
        self._lines, self._requests = [], defaultdict(list)
        return "".join(f"{line}\n" for line in lines)

    def _tell_rows(self) -> None:
        rows = self._world.journal.rows
        begin, self._rows_told = self._rows_told, len(rows)
        for row in rows[begin:]:
            self._tell([_row_line(row)], row.controller)

    def _tell(self, new: list[str], controller_id: int | None = None) -> None:
        """Take lines of a controller, which is the actor that is running if no id is given."""
        self._lines += new
        if self.crash_after is not None and any(self.crash_after in line for line in new):
            actor = self._world.scheduler.current
            self._doomed = actor.id if controller_id is None and actor else controller_id
            self.crash_after = None

    def _crash(self) -> None:
        """Let the controller crash that wrote the line, once it runs."""
        actor = self._world.scheduler.current
        if actor is not None and (actor.role, actor.id) == ("controller", self._doomed):
            self._doomed = None
            self._lines.append(f"the machine of {actor.id} crashes")
            raise Crashed

    def _before_operation(self, *_: object) -> None:
        self._tell_rows()
        self._crash()

    def _on_operation(
        self, _: int, op: ReadOp | Transaction, result: ReadResult | TxnResult
    ) -> None:
        actor = self._world.scheduler.current
        if not isinstance(result, TxnResult) or actor is None or actor.role != "controller":
            return
        assert isinstance(op, list | tuple)
        self._tell_rows()
        code = "" if result.code is ResultCode.OK else f" ({result.code.name})"
        lines = (line for one in op if (line := _write_line(one)) is not None)
        self._tell([f"  {line}{code}" for line in lines])
        self._crash()

    def _on_message(self, message: Message) -> None:
        line = _request_line(message)
        if line is not None and message.source.role == "controller":
            self._requests[message.destination.id].append(f"  {line}")


def _row_line(row: JournalRow) -> str:
    who = f"{row.controller}@{row.epoch}"
    if row.kind == Kind.EVENT:
        cause = f" (because of {row.cause_id})" if row.cause_id else ""
        return f"{who} event {row.event_id} {row.detail}{cause}"
    what = "" if row.topic is None else f" {row.topic}"
    what += f"-{row.partition}" if row.partition >= 0 else ""
    what += f" replica {row.replica}" if row.replica >= 0 else ""
    states = "" if row.to is None else f" {row.to}"
    if row.kind in _STATES:
        kind, states = "", f" {row.from_} -> {row.to}"
    else:
        kind = f" {row.kind}"
    values = ((name, getattr(row, name)) for name in _PLAIN_FIELDS)
    more = "".join(f" {name}={_plain(value)}" for name, value in values if value is not None)
    return f"{who}{kind}{what}{states}{more}"


def _plain(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _write_line(op: WriteOp) -> str | None:
    data = "" if getattr(op, "data", None) is None else f" {op.data.decode()}"
    match op:
        case Create():
            return f"create {op.path}{data}"
        case SetData():
            return f"set {op.path}{data}"
        case Delete():
            return f"delete {op.path}"
    return None


def _request_line(message: Message) -> str | None:
    match message.body:
        case LeaderAndIsrRequest() | StopReplicaRequest() as request:
            name, states = type(request).__name__.removesuffix("Request"), request.partition_states
        case UpdateMetadataRequest() as request:
            brokers = ",".join(str(broker.id) for broker in request.live_brokers)
            name, states = f"UpdateMetadata brokers={brokers}", request.partition_states
        case _:
            return None
    return f"{name}{''.join(map(_state_text, states))}"


def _state_text(
    state: LeaderAndIsrPartitionState | UpdateMetadataPartitionState | StopReplicaPartitionState,
) -> str:
    head = f"; {state.topic_partition}"
    if isinstance(state, StopReplicaPartitionState):
        return f"{head} epoch={state.leader_epoch}{' delete' if state.delete_partition else ''}"
    text = f"{head} leader={state.leader} epoch={state.leader_epoch} isr={_plain(state.isr)}"
    text += f" replicas={_plain(state.replicas)}"
    if isinstance(state, LeaderAndIsrPartitionState):
        named = (("adding", state.adding_replicas), ("removing", state.removing_replicas))
        text += "".join(f" {name}={_plain(ids)}" for name, ids in named if ids)
        return text + (" new" if state.is_new else "")
    offline = state.offline_replicas
    return text + (f" offline={_plain(offline)}" if offline else "")
