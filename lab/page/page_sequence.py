"""The sequence diagram of a run's page: messages, znode writes and notifications as arrows.

Fetch and Produce are left out, and of a long run all but the last arrows that concern the failure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    AlterIsrResponse,
    AlterPartitionReassignmentsRequest,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.observations import decode_state, decode_topic
from klamm.lab.page.trace import RunTrace, Sent, Written, ZNodeChange
from klamm.report.values import Arrow, SequenceDiagram, Span, Tone
from klamm.world.explain.journal_text import summary_text
from klamm.zk.store import WatchKind
from klamm.zk.znodes import TopicPartitionStateZNode

MOST_ARROWS: Final = 40
ZOOKEEPER: Final = "ZooKeeper"
_CLIENT: Final = "client"
_MOST_LIFELINES: Final = 8
_MOST_SHOWN: Final = 3
_LOOK_BACK: Final = 12
_SAME_TIME_MS: Final = 20
_OF_TOPIC: Final = re.compile(r"/(?:brokers|config|admin)/(?:topics|delete_topics)/([^/]+)")
_OWN: Final = re.compile(r"/controller(?:_epoch)?|/brokers/ids/[0-9]+|/admin/[^/]+(?:/[^/]+)?")
_OF_BROKER: Final = ("/brokers/ids", "/isr_change_notification", "/log_dir_event_notification")
_NOTIFICATIONS: Final = (
    "BrokerChange",
    "BrokerModifications",
    "ControllerChange",
    "IsrChangeNotification",
    "LogDirEventNotification",
    "PartitionModifications",
    "PartitionStateModifications",
    "Reelect",
    "TopicChange",
    "TopicDeletion",
    "ZkPartitionReassignment",
)
_NOTES: Final = {
    Kind.CONTROLLER_ELECTED,
    Kind.CONTROLLER_READY,
    Kind.CONTROLLER_RESIGNED,
    Kind.CONTROLLER_MOVED,
    Kind.EVENT_FAILED,
    Kind.ALTER_ISR_REFUSED,
    Kind.REASSIGNMENT_PHASE,
    Kind.REASSIGNMENT_FAILED,
    Kind.TOPIC_DELETION_STARTED,
    Kind.TOPIC_DELETION_HALTED,
    Kind.TOPIC_DELETED,
    Kind.BROKER_ONLINE,
    Kind.BROKER_OFFLINE,
    Kind.LOG_TRUNCATED,
    Kind.PARTITION_FAILED,
}
_BAD: Final = {Kind.EVENT_FAILED, Kind.REASSIGNMENT_FAILED, Kind.PARTITION_FAILED}
_VERBS: Final = {WatchKind.CREATED: "create", WatchKind.DELETED: "delete"}


class Concern(NamedTuple):
    """The partitions and topics that a failure is about; if there are none, it is about all."""

    partitions: frozenset[TopicPartition]
    topics: frozenset[str]

    def has(self, topic: str, partition: int = -1) -> bool:
        """Return True if the failure is about this partition, or about this topic."""
        if not self.topics:
            return True
        if topic not in self.topics:
            return False
        named = {tp.partition for tp in self.partitions if tp.topic == topic}
        return partition < 0 or not named or partition in named


def concern_of(words: str, rows: Sequence[JournalRow]) -> Concern:
    """Return the partitions and topics of the journal that a text names."""
    named = set(re.findall(r"[\w.-]+", words))
    known = {TopicPartition(row.topic, row.partition) for row in rows if row.topic is not None}
    partitions = frozenset(tp for tp in known if tp.partition >= 0 and str(tp) in named)
    topics = {tp.topic for tp in known if tp.topic in named} | {tp.topic for tp in partitions}
    return Concern(partitions, frozenset(topics))


def sequence_diagram(
    trace: RunTrace,
    concern: Concern,
    lives: Callable[[str], Sequence[Span]],
    end: Arrow,
) -> SequenceDiagram:
    """Return the diagram of the last arrows before ``end``, which is the last row.

    ``lives`` returns the states of a lifeline over time.
    """
    # A row of the journal can be older than the event after which it was seen.
    arrows = _joined(sorted(_arrows(trace, concern), key=lambda arrow: arrow.t_ms))
    names = _lifelines(arrows[-MOST_ARROWS:])
    shown = [arrow for arrow in (_within(arrow, names) for arrow in arrows) if arrow is not None]
    left_out = len(shown) - MOST_ARROWS
    note = (
        "Time runs downwards, not to scale. A message is drawn when it is sent; the number in "
        "parentheses is its controller epoch. Dashed: responses, notifications, and requests that "
        "were only queued. Thick lifeline: active controller; dotted: paused or without a session, "
        "or dead before its session ends. "
    )
    if concern.topics:
        about = sorted(map(str, concern.partitions)) or sorted(concern.topics)
        note += f"Only what concerns {', '.join(about[:_MOST_SHOWN])}, controllers and sessions. "
    if left_out > 0:
        note += f"The last {MOST_ARROWS} of {len(shown):,} rows."
    title = "Messages, znode writes and notifications"
    last = (*shown[-MOST_ARROWS:], end)
    return SequenceDiagram(title, {name: lives(name) for name in names}, last, note)


def _within(arrow: Arrow, names: Collection[str]) -> Arrow | None:
    """Return an arrow without the ends whose lifelines are not shown; None if none are left."""
    sources = tuple(name for name in arrow.sources if name in names)
    targets = tuple(name for name in arrow.targets if name in names)
    if bool(sources) != bool(arrow.sources) or bool(targets) != bool(arrow.targets):
        return None
    return arrow._replace(sources=sources, targets=targets)


def _lifelines(arrows: Sequence[Arrow]) -> list[str]:
    """Return the lifelines with the most arrows: clients, ZooKeeper, controllers, brokers."""
    counts: Counter[str] = Counter()
    for arrow in arrows:
        ends = {*arrow.sources, *arrow.targets}
        # An arrow to all brokers concerns none of them in particular.
        counts.update(dict.fromkeys(ends, 1 if len(ends) > _MOST_SHOWN else 10))
    order = (_CLIENT, ZOOKEEPER, "controller", "broker")
    names = [name for name, _ in counts.most_common(_MOST_LIFELINES)]
    return sorted(names, key=lambda name: (order.index(name.split()[0]), len(name), name))


def _joined(arrows: Sequence[Arrow]) -> list[Arrow]:
    """Join steps without anything between them, and the same message to or from several lifelines.

    A controller sends each broker one request at a time, so the same request leaves it at different
    times.
    """
    joined: list[Arrow] = []
    for arrow in arrows:
        if joined and (more := _continued(joined[-1], arrow)):
            joined[-1] = joined[-1]._replace(text=f"{joined[-1].text}, {more}")
            continue
        for n in range(len(joined) - 1, max(len(joined) - 1 - _LOOK_BACK, -1), -1):
            both = _join(joined[n], arrow)
            if both is not None:
                joined[n] = both
                break
        else:
            joined.append(arrow)
    return joined


def _continued(one: Arrow, other: Arrow) -> str:
    """Return what a step or a note adds to the one before it; empty if it needs its own row."""
    if one.targets or other.targets or one.sources != other.sources or one.tone != other.tone:
        return ""
    if not one.sources:
        return other.text
    head, _, rest = other.text.partition(": ")
    return rest if one.text.startswith(f"{head}: ") else ""


def _join(one: Arrow, other: Arrow) -> Arrow | None:
    is_same = (one.text, one.tone) == (other.text, other.tone) and one.targets and other.targets
    if not is_same or other.t_ms - one.t_ms > _SAME_TIME_MS:
        return None
    if one.sources == other.sources and other.targets[0] not in one.targets:
        return one._replace(targets=one.targets + other.targets)
    if one.targets == other.targets and other.sources[0] not in one.sources:
        return one._replace(sources=one.sources + other.sources)
    return None


def _arrows(trace: RunTrace, concern: Concern) -> Iterator[Arrow]:
    """Yield steps, messages, znode writes, and what the journal adds to them, in their order."""
    events = tuple(trace.events)
    rows = trace.rows
    seen = events[0].rows if trace.count > len(events) else 0
    has_writes = any(isinstance(event, Written) for event in events)
    for event in events:
        for row in rows[seen : event.rows]:
            yield from _row_arrows(row, trace.started_ms, concern, has_writes)
        seen = event.rows
        match event:
            case Sent(at_ms, _, message):
                yield from _message_arrows(int(at_ms), message, concern)
            case Written():
                yield from _write_arrows(event, concern)
            case _:
                yield Arrow(int(event.at_ms), event.step.name, tone=Tone.WARNING)
    for row in rows[seen:]:
        yield from _row_arrows(row, trace.started_ms, concern, has_writes)
    for at_ms, broker_id, request in tuple(trace.queued):
        found = _message_text(request, concern)
        if found is not None and at_ms >= trace.end_ms - _SAME_TIME_MS:
            text, source = f"queued: {found[0]}", f"controller {request.controller_id}"
            yield Arrow(int(at_ms), text, (source,), (f"broker {broker_id}",), is_dashed=True)


def _row_arrows(
    row: JournalRow, started_ms: float, concern: Concern, has_writes: bool
) -> Iterator[Arrow]:
    at_ms = int(row.t_ms - started_ms)
    me: tuple[str, ...] = (f"controller {row.controller}",)
    if row.topic is not None and not concern.has(row.topic, row.partition):
        return
    if row.kind == Kind.EVENT and (row.detail or "").partition("(")[0] in _NOTIFICATIONS:
        text = f"{row.detail} (epoch {row.epoch})"
        yield Arrow(at_ms, text, (ZOOKEEPER,), me, is_dashed=True)
    elif row.kind in _NOTES:
        if row.controller < 0:
            me = (f"broker {row.leader}",) if row.leader is not None else ()
        text = summary_text(row_values(row))
        if row.kind == Kind.REASSIGNMENT_PHASE:
            text = f"reassignment of {row.topic}-{row.partition}: {row.to}"
        tone = Tone.BAD if row.kind in _BAD else Tone.PLAIN
        if row.kind in (Kind.CONTROLLER_ELECTED, Kind.CONTROLLER_RESIGNED):
            text += f", epoch {row.epoch}"
        yield Arrow(at_ms, text, me, tone=tone)
    elif not has_writes and row.zk_version is not None and row.leader is not None:
        text = f"set {row.topic}-{row.partition}: {_state(row.leader, row.leader_epoch, row.isr)}"
        yield Arrow(at_ms, text, me, (ZOOKEEPER,))


def row_values(row: JournalRow) -> Mapping[str, Any]:
    """Return a row as plain values, under the names in the file."""
    values: Mapping[str, Any] = msgspec.to_builtins(row)
    return values


def _write_arrows(event: Written, concern: Concern) -> Iterator[Arrow]:
    texts = [
        text
        for change in event.changes
        if (text := _change_text(change, concern)) and not change.path.endswith("/partitions")
    ]
    if not texts:
        return
    text, at_ms = _list(texts), int(event.at_ms)
    if event.has_ended:
        whose = "a client" if event.broker_id is None else f"broker {event.broker_id}"
        yield Arrow(at_ms, f"session of {whose} ended: {text}", (ZOOKEEPER,), tone=Tone.WARNING)
        return
    if event.broker_id is None:
        writer = _CLIENT
    else:
        is_broker = event.changes[0].path.startswith(_OF_BROKER)
        writer = f"{'broker' if is_broker else 'controller'} {event.broker_id}"
    yield Arrow(at_ms, text, (writer,), (ZOOKEEPER,))


def _change_text(change: ZNodeChange, concern: Concern) -> str:
    """Return a change in words; empty if the failure is not about it."""
    path, verb = change.path, _VERBS.get(change.kind, "set")
    if (tp := TopicPartitionStateZNode.partition_of(path)) is not None:
        if not concern.has(*tp):
            return ""
        state = decode_state(change.data, 0)
        words = "" if state is None else f": {_state(state.leader, state.leader_epoch, state.isr)}"
        return f"{verb} {tp} state{words}"
    if found := _OF_TOPIC.match(path):
        if not concern.has(found[1]):
            return ""
        topic_node = decode_topic(change.data) if path.startswith("/brokers") else None
        if topic_node is None or path != found[0]:
            return f"{verb} {path}"
        words = "; ".join(
            f"{found[1]}-{number}: replicas {_ids(replicas)}"
            + _of(" adding", topic_node.adding.get(number))
            + _of(" removing", topic_node.removing.get(number))
            for number, replicas in topic_node.replicas.items()
            if concern.has(found[1], number)
        )
        return f"{verb} topic {words}"
    if not _OWN.fullmatch(path):
        return ""
    data = (change.data or b"").decode("utf-8", "replace")
    short = path in ("/controller_epoch",) or path.startswith("/admin/")
    return f"{verb} {path}" + (f" = {data}" if short and data else "")


def _of(word: str, ids: Sequence[int] | None) -> str:
    return f"{word} {_ids(ids)}" if ids else ""


def _ids(ids: Sequence[int] | None) -> str:
    return ",".join(map(str, ids or ())) or "none"


def _state(leader: int | None, epoch: int | None, isr: Sequence[int] | None) -> str:
    return f"leader {leader}, epoch {epoch}, ISR {_ids(isr)}"


def _message_arrows(at_ms: int, message: Message, concern: Concern) -> Iterator[Arrow]:
    found = _message_text(message.body, concern)
    if found is None:
        return
    text, is_response, is_error = found
    source, target = _name(message.source), _name(message.destination)
    tone = Tone.BAD if is_error else Tone.PLAIN
    yield Arrow(at_ms, text, (source,), (target,), tone, is_response)


def _name(address: Address) -> str:
    return _CLIENT if address.role == "client" else f"{address.role} {address.id}"


def _message_text(body: object, concern: Concern) -> tuple[str, bool, bool] | None:
    """Return a message in words, whether it is a response, and whether it has an error.

    None if the message is not shown."""
    match body:
        case LeaderAndIsrRequest() | UpdateMetadataRequest():
            name = type(body).__name__.removesuffix("Request")
            states = [
                f"{at.topic_partition} {_state(at.leader, at.leader_epoch, at.isr)}"
                for at in body.partition_states
                if concern.has(*at.topic_partition)
            ]
            if not states and body.partition_states:
                return None
            if isinstance(body, UpdateMetadataRequest) and not states:
                states = [f"live brokers {_ids(sorted(at.id for at in body.live_brokers))}"]
            return f"{name}({body.controller_epoch}) {_list(states)}", False, False
        case StopReplicaRequest():
            stopped = [
                f"{at.topic_partition} epoch {at.leader_epoch}"
                + (" delete" if at.delete_partition else "")
                for at in body.partition_states
                if concern.has(*at.topic_partition)
            ]
            text = f"StopReplica({body.controller_epoch}) {_list(stopped)}"
            return (text, False, False) if stopped else None
        case LeaderAndIsrResponse() | StopReplicaResponse():
            name = type(body).__name__.removesuffix("Response")
            errors = {tp: error for tp, error in body.partition_errors.items() if concern.has(*tp)}
            if body.partition_errors and not errors and body.error is Errors.NONE:
                return None
            return _response(name, body.error, errors)
        case UpdateMetadataResponse():
            is_ok = body.error is Errors.NONE
            return None if is_ok else _response("UpdateMetadata", body.error, {})
        case _:
            return _broker_message_text(body, concern)


def _broker_message_text(body: object, concern: Concern) -> tuple[str, bool, bool] | None:
    """Like _message_text, for requests to the controller and their responses."""
    match body:
        case AlterIsrRequest():
            asked = [f"{tp} ISR {_ids(at.isr)}" for tp, at in body.partitions.items()
                     if concern.has(*tp)]  # fmt: skip
            return (f"AlterIsr {_list(asked)}", False, False) if asked else None
        case AlterIsrResponse():
            answers = {tp: at for tp, at in body.partitions.items() if concern.has(*tp)}
            refused = {tp: at for tp, at in answers.items() if isinstance(at, Errors)}
            granted = [f"{tp} ISR {_ids(at.isr)}" for tp, at in answers.items()
                       if not isinstance(at, Errors)]  # fmt: skip
            if body.partitions and not answers:
                return None
            if granted and not refused:
                return f"AlterIsr: {_list(granted)}", True, False
            return _response("AlterIsr", body.error, refused)
        case ControlledShutdownRequest():
            return f"ControlledShutdown of broker {body.broker_id}", False, False
        case ControlledShutdownResponse():
            return _response("ControlledShutdown", body.error, {})
        case AlterPartitionReassignmentsRequest():
            asked = [
                f"{tp} to {'cancel' if ids is None else _ids(ids)}"
                for tp, ids in body.reassignments.items()
            ]
            return f"AlterPartitionReassignments {_list(asked)}", False, False
        case ElectLeadersRequest():
            which = "all" if body.partitions is None else _list(list(map(str, body.partitions)))
            return f"ElectLeaders {body.election_type.name} {which}", False, False
        case CreateTopicsRequest():
            return f"CreateTopics {_list([at.name for at in body.topics])}", False, False
        case DeleteTopicsRequest():
            return f"DeleteTopics {_list(list(body.topics))}", False, False
    return None


def _response(
    name: str, error: Errors, errors: Mapping[TopicPartition, Errors]
) -> tuple[str, bool, bool]:
    bad = [f"{tp} {at.name}" for tp, at in errors.items() if at is not Errors.NONE]
    if error is not Errors.NONE:
        bad = [error.name, *bad]
    return f"{name}: {_list(bad) if bad else 'ok'}", True, bool(bad)


def _list(items: Sequence[str]) -> str:
    more = len(items) - _MOST_SHOWN
    return "; ".join(items[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
