"""Digests of the state of a simulated cluster, equal for states that behave alike.

Everything that can be reached from the nodes, the logs, ZooKeeper and the messages in flight
counts, except what cannot change the behaviour: times, metrics, the journal, random generators,
configs, and numbers that are only compared with each other. Of those numbers (zxids, session ids,
correlation ids) the digest contains the rank. A time counts only as set, infinite or missing.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any, Final

import msgspec

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.config import BrokerConfig
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_journal import LogJournal
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import Address
from klamm.cluster.types import EndPoint, TopicPartition
from klamm.controller.candidacy import Candidacy
from klamm.controller.channel_manager import ChannelManager
from klamm.controller.config import ControllerConfig
from klamm.controller.event_manager import EventManager
from klamm.controller.metrics import ControllerMetrics
from klamm.controller.recorder import JournalRecorder
from klamm.controller.request_sender import RequestSender
from klamm.controller.state_change_log import StateChangeLog
from klamm.controller.timer import Timer
from klamm.placement.draws import JavaRandom
from klamm.runtime.clock import VirtualClock
from klamm.runtime.journal_guard import JournalGuard
from klamm.runtime.simulated.checkpoint import Untracked, slots_of
from klamm.runtime.simulated.world import SimulatedWorld
from klamm.runtime.simulated.zookeeper_links import ZooKeeperLinks
from klamm.runtime.transport import SimulatedTransport
from klamm.zk.memory_server import MemoryServer

FIRST_ZXID: Final = 1_000_000_000
"""The zxid with which a world must begin: greater zxids are recognized by their ten digits."""
NEVER_MS: Final = 1_000_000_000.0
"""Timers that are due later never fire, and do not count."""
_MAX_KEPT: Final = 50_000
_RANKED: Final = re.compile(r"(#[a-z]?[0-9]+)")
_TIMESTAMP: Final = re.compile(r'"timestamp":"?[0-9]+"?')
_IGNORED_TYPES: Final = (
    BrokerConfig,
    Candidacy,
    CertainConnections,
    ControllerConfig,
    ControllerMetrics,
    Copying,
    EndPoint,
    JavaRandom,
    JournalGuard,
    LogConfig,
    LogJournal,
    MemoryServer,
    Quirks,
    JournalRecorder,
    RequestSender,
    SimulatedTransport,
    StateChangeLog,
    Timer,
    VirtualClock,
    ZooKeeperLinks,
    random.Random,
    type,
    types.BuiltinFunctionType,
    types.FunctionType,
    types.MethodType,
    functools.partial,
)
_IGNORED_NAMES: Final = frozenset(
    {
        "_added",
        "_correlation_id",
        "_count",
        "_last_event_id",
        "_last_number",
        "_last_timer_id",
        "_next_correlation_id",
        "_seq",
        "cause_id",
        "event_id",
        "is_candidate",
        "yield_control",
        "_listeners",
        "_node",
    }
)


class _FieldKind(Enum):
    """How a field is written: by its value, not at all, or by what its name says about it."""

    WRITTEN = 0
    IGNORED = 1
    TIME = 2
    SESSION = 3
    CORRELATION = 4


class _FieldKinds(dict[str, _FieldKind]):
    """How the field of each name is written."""

    def __missing__(self, name: str) -> _FieldKind:
        if name in _IGNORED_NAMES:
            kind = _FieldKind.IGNORED
        elif name.endswith("_ms"):
            kind = _FieldKind.TIME
        elif name in _SESSIONS:
            kind = _FieldKind.SESSION
        elif name in _CORRELATIONS:
            kind = _FieldKind.CORRELATION
        else:
            kind = _FieldKind.WRITTEN
        self[name] = kind
        return kind


_FIELD_KINDS: Final = _FieldKinds()
# Members of an enumeration are slow to look up.
_WRITTEN: Final = _FieldKind.WRITTEN
_TIME: Final = _FieldKind.TIME
_SESSION: Final = _FieldKind.SESSION
_CORRELATION: Final = _FieldKind.CORRELATION
_SESSIONS: Final = frozenset({"_session_id", "registered_by_session", "elected_session"})
_CORRELATIONS: Final = frozenset({"correlation_id"})


class StateText:
    """The text of a world's state.

    The texts of brokers and controllers are kept until ``changed`` is called, and those of
    immutable objects until there are many.
    """

    def __init__(self) -> None:
        self._actors: dict[Address, str] = {}
        self._kept = _KeptTexts()
        self._zxid = 0
        self._znodes = ""

    def changed(self, address: Address) -> None:
        """Forget the text of a broker or controller, because it has run, started or stopped."""
        self._actors.pop(address, None)

    def text(self, world: SimulatedWorld, more: Iterable[object] = ()) -> str:
        """Return the text of a world and of the values ``more``.

        Call this only between events. The zxids of the world must begin with FIRST_ZXID.
        """
        self._kept.limit()
        writer = _Writer(self._kept)
        for part in more:
            writer.write(part)
        writer.out.append(str(world.candidacy.failed_failovers))
        for broker_id in world.spec.broker_ids:
            running = world.nodes.get(broker_id)
            for role, text_of in _TEXT_OF.items():
                address = Address(role, broker_id)
                if address not in self._actors:
                    self._actors[address] = text_of(_Writer(self._kept), world, broker_id)
                writer.out.append(self._actors[address])
            if running is not None:
                writer.write(running.store)
                writer.write(world.scheduler.actors[Address("broker", broker_id)])
                if running.node.controller is not None:
                    # The broker changes this when it has started.
                    writer.atom(running.node.controller.is_candidate)
                    writer.events(running.node.controller.events)
        for link, messages in world.transport.by_link().items():
            writer.out.append(f"{link[0]} {link[1]}")
            for message in messages:
                writer.write(message)
        server = world.server
        if server.zxid != self._zxid:
            self._zxid, self._znodes = server.zxid, _text_of_znodes(server)
        writer.out.append(self._znodes)
        for kind, path, sessions in server.watches.armed():
            writer.out.append(f"{kind} {path} {[f'#s{session}' for session in sessions]}")
        for session, state in server.session_states():
            writer.out.append(f"#s{session} {state}")
        return _with_ranks("\n".join(writer.out))

    def digest(self, world: SimulatedWorld, more: Iterable[object] = ()) -> bytes:
        """Return a hash of ``text``, as 16 bytes."""
        return hashlib.blake2b(self.text(world, more).encode(), digest_size=16).digest()


def _text_of_broker(writer: _Writer, world: SimulatedWorld, broker_id: int) -> str:
    running = world.nodes.get(broker_id)
    if running is None:
        writer.write(world.log_stores[broker_id])
    else:
        writer.leave_out(running.store)
        writer.write(running.node.broker)
    return "\n".join(writer.out)


def _text_of_controller(writer: _Writer, world: SimulatedWorld, broker_id: int) -> str:
    running = world.nodes.get(broker_id)
    if running is not None:
        broker = running.node.broker
        # These parts of the broker are in its own text.
        writer.leave_out(running.store, broker.metadata_cache, broker.dynamic_config_manager.config)
        writer.write(running.node.controller)
    return "\n".join(writer.out)


_TEXT_OF: Final = {"broker": _text_of_broker, "controller": _text_of_controller}


def _with_ranks(text: str) -> str:
    """Replace numbers that are only compared by their ranks among all such numbers."""
    parts = _RANKED.split(text)
    tokens = parts[1::2]
    found = sorted(set(tokens), key=lambda token: (len(token), token))
    ranks = {token: f"#{rank}" for rank, token in enumerate(found)}
    parts[1::2] = [ranks[token] for token in tokens]
    return "".join(parts)


def _text_of_znodes(server: MemoryServer) -> str:
    out = []
    for path, node in server.tree.nodes.items():
        czxid = f"#{node.czxid}" if path.startswith("/brokers/ids/") else ""
        out.append(f"{path} {node.data!r} {node.version} #s{node.owner} {czxid}")
    return _TIMESTAMP.sub("", "\n".join(sorted(out)))


class _KeptTexts(Untracked):
    """The texts of immutable objects by their ``id``, and of keys and members of sets."""

    def __init__(self) -> None:
        self.by_id: dict[int, tuple[object, str]] = {}
        # By class too: 1, 1.0 and True are equal, but have different texts.
        self.by_value: dict[tuple[type, object], str] = {}

    def limit(self) -> None:
        """Forget all texts if there are very many."""
        if len(self.by_id) + len(self.by_value) > _MAX_KEPT:
            self.by_id.clear()
            self.by_value.clear()


class _Writer:
    """Writes objects as text. Objects with an identity are written once."""

    def __init__(self, kept: _KeptTexts) -> None:
        self.out: list[str] = []
        self._seen: set[int] = set()
        self._kept = kept

    def write(self, value: Any) -> None:
        _HOW[value.__class__](self, value)

    def atom(self, value: object) -> None:
        self.out.append(repr(value))

    def integer(self, value: int) -> None:
        self.out.append(str(value) if value < FIRST_ZXID else f"#{value}")

    def time(self, value: float) -> None:
        self.out.append("inf" if value in (float("inf"), float("-inf")) else "time")

    def ignore(self, value: object) -> None:
        pass

    def enum(self, value: Enum) -> None:
        self.out.append(value.name)

    def key(self, value: tuple[str, int]) -> None:
        """Write a name and a number, the usual key of a dictionary."""
        self.out.append(f"{value[0]} {value[1]}")

    def sequence(self, values: Iterable[object]) -> None:
        how = _HOW
        self.out.append("[")
        for value in values:
            how[value.__class__](self, value)
        self.out.append("]")

    def mapping(self, values: Mapping[Any, object]) -> None:
        if not values:
            self.out.append("{}")
            return
        how, out = _HOW, self.out
        out.append("{")
        if len(values) > 1:
            kinds = set(map(type, values))
            if len(kinds) > 1 or not kinds <= _ORDERED:
                texts = [(self._alone(key), value) for key, value in values.items()]
                for text, value in sorted(texts, key=itemgetter(0)):
                    out.append(text)
                    how[value.__class__](self, value)
                out.append("}")
                return
            values = {key: values[key] for key in sorted(values)}
        for key, value in values.items():
            how[key.__class__](self, key)
            how[value.__class__](self, value)
        out.append("}")

    def set(self, values: Iterable[object]) -> None:
        texts = sorted(map(self._alone, values)) if values else ()
        self.out.append("{" + ",".join(texts) + "}")

    def _alone(self, value: object) -> str:
        key = value.__class__, value
        text = self._kept.by_value.get(key)
        if text is None:
            writer = _Writer(self._kept)
            writer.write(value)
            text = self._kept.by_value[key] = " ".join(writer.out)
        return text

    def leave_out(self, *values: object) -> None:
        """Do not write these objects."""
        self._seen.update(map(id, values))

    def is_new(self, value: object) -> bool:
        """Return True the first time that an object is written."""
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        return True

    def frozen(self, value: object, names: Iterable[str]) -> None:
        """Write an immutable object, which contains only immutable objects, and keep its text."""
        kept = self._kept.by_id.get(id(value))
        if kept is not None:
            self.out.append(kept[1])
            return
        start = len(self.out)
        self.fields(value, [(name, getattr(value, name, None)) for name in names])
        self._kept.by_id[id(value)] = (value, "\n".join(self.out[start:]))

    def fields(self, value: object, fields: Iterable[tuple[str, object]]) -> None:
        out, kinds, how = self.out, _FIELD_KINDS, _HOW
        out.append(value.__class__.__name__)
        for name, field in fields:
            kind = kinds[name]
            if kind is _WRITTEN:
                how[field.__class__](self, field)
            elif kind is _TIME:
                out.append("none" if field is None else "time")
            elif kind is _SESSION:
                out.append(f"#s{field}")
            elif kind is _CORRELATION:
                out.append(f"#c{field}")

    def channels(self, manager: ChannelManager) -> None:
        for broker_id, channel in sorted(manager._channels.items()):
            self.out.append(f"channel {broker_id}")
            self.write(channel.in_flight)
            self.sequence(request for request, *_ in channel.queue)

    def events(self, manager: EventManager) -> None:
        self.sequence(queued.event for queued in manager._queue)
        timers = sorted(timer[:3] for timer in manager._timers if timer[0] < NEVER_MS)
        self.sequence(event for _, _, event in timers)


_Write = Callable[[_Writer, Any], None]


def _how_to_write(kind: type) -> _Write:
    if issubclass(kind, _IGNORED_TYPES):
        return _Writer.ignore
    if issubclass(kind, Enum):
        return _Writer.enum
    if issubclass(kind, tuple | list | deque):
        return _Writer.sequence
    if issubclass(kind, Mapping):
        return _Writer.mapping
    if issubclass(kind, set | frozenset):
        return _Writer.set
    slots = slots_of(kind)
    if issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen:
        return lambda writer, value: writer.frozen(value, slots)

    def write(writer: _Writer, value: Any) -> None:
        if not writer.is_new(value):
            return
        if slots:
            more = getattr(value, "__dict__", {}).items()
            writer.fields(value, [*((name, getattr(value, name, None)) for name in slots), *more])
        else:
            writer.fields(value, value.__dict__.items())

    return write


class _Hows(dict[type, _Write]):
    """How an object of each class is written."""

    def __missing__(self, kind: type) -> _Write:
        how = self[kind] = _how_to_write(kind)
        return how


_HOW: Final = _Hows(
    {
        int: _Writer.integer,
        str: _Writer.atom,
        bytes: _Writer.atom,
        bool: _Writer.atom,
        type(None): _Writer.atom,
        float: _Writer.time,
        Address: _Writer.key,
        TopicPartition: _Writer.key,
        ChannelManager: _Writer.channels,
        EventManager: _Writer.ignore,
    }
)
_ORDERED: Final = frozenset((int, str, Address, TopicPartition))
"""Classes of keys that can be compared with each other."""
