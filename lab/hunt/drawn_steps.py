"""Random faults of a hunt's drill, and their repairs.

Faults that lose unflushed data can make Kafka 2.8 lose acknowledged records, because a broker that
lost data and registers again before a controller has noticed its failure stays in the ISR
(KIP-966). Failed fsyncs are therefore never generated, and power_off only if it is requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.cluster.errors import UsageError
from klamm.cluster.suggestions import suggestion
from klamm.lab.hunt.drawn_cluster import Draw, DrawFault, wait
from klamm.lab.hunt.drawn_operations import (
    add_partition,
    cancel,
    create_new_topic,
    reassign,
    reassign_by_znode,
    reassign_to_paused,
)


def _kill(draw: Draw) -> str:
    if draw.rng.random() < 0.5:
        return f"kill: {draw.broker()}"
    return f"kill: {draw.ending()}"


def _start(draw: Draw) -> str:
    if not draw.down or draw.rng.random() < 0.3:
        draw.down.clear()
        return "start: dead"
    broker = draw.rng.choice(sorted(draw.down))
    draw.down.discard(broker)
    return f"start: {broker}"


def _pause(draw: Draw) -> str:
    if draw.rng.random() < 0.5:
        return "pause: controller"
    broker = draw.up()
    draw.paused.add(broker)
    return f"pause: {broker}"


def _resume(draw: Draw) -> str:
    draw.paused.clear()
    return "resume: paused"


def _isolate(draw: Draw) -> str:
    count = draw.rng.randrange(1, max(2, draw.cluster.brokers // 2 + 1))
    return f"isolate: {sorted(draw.rng.sample(range(draw.cluster.brokers), count))}"


def _direction(draw: Draw, one: str, other: str) -> str:
    """Return the links between two groups, in both directions or in one."""
    kind = draw.rng.random()
    if kind < 0.5:
        return f"between: [{one}, {other}]"
    one, other = (one, other) if kind < 0.75 else (other, one)
    return f"from: {one}, to: {other}"


def _cut_zookeeper(draw: Draw) -> str:
    return f"cut: {{{_direction(draw, draw.broker(), 'zookeeper')}}}"


def _cut_controller(draw: Draw) -> str:
    links = _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), "controller")
    return f"cut: {{{links}, only: control}}"


def _cut_clients(draw: Draw) -> str:
    return f"cut: {{{_direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), 'clients')}}}"


def _cut_one_way(draw: Draw) -> str:
    ends = (str(draw.rng.randrange(draw.cluster.brokers)), "others")
    source, destination = ends if draw.rng.random() < 0.5 else ends[::-1]
    return f"cut: {{from: {source}, to: {destination}}}"


def _split(draw: Draw) -> str:
    """Return a step that splits the brokers, mostly into three groups."""
    ids = draw.rng.sample(range(draw.cluster.brokers), draw.cluster.brokers)
    first = draw.rng.randrange(1, len(ids) - 1)
    second = draw.rng.randrange(first + 1, len(ids) + 1)
    groups = [sorted(group) for group in (ids[:first], ids[first:second], ids[second:]) if group]
    return f"cut: {{between: {groups}}}"


def _links(draw: Draw) -> str:
    """Return random links between brokers, clients and controllers."""
    other = draw.rng.choice(("others", "others", "clients"))
    only = draw.rng.choice(("", "", ", only: control", ", only: records"))
    return _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), other) + only


def _clog(draw: Draw) -> str:
    return f"clog: {{{_links(draw)}}}"


def _delay(draw: Draw) -> str:
    return f"delay: {{{_links(draw)}, ms: {draw.rng.choice((10, 100, 1000, 4000))}}}"


def _delay_zookeeper(draw: Draw) -> str:
    links = _direction(draw, draw.broker(), "zookeeper")
    return f"delay: {{{links}, ms: {draw.rng.choice((10, 100, 400))}}}"


def _lag(draw: Draw) -> str:
    ms = draw.rng.choice((10, 100, 1000, 5000))
    return f"lag_zookeeper: {{broker: {draw.rng.randrange(draw.cluster.brokers)}, ms: {ms}}}"


def _skew(draw: Draw) -> str:
    ms = draw.rng.choice((-3_600_000, -10_000, 10_000, 3_600_000))
    return f"skew_clock: {{broker: {draw.rng.randrange(draw.cluster.brokers)}, ms: {ms}}}"


def _degrade_control(draw: Draw) -> str:
    share = draw.rng.choice
    links = _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), "others")
    # Not repeated: a late UpdateMetadata replaces a newer one (docs/hunt.md).
    rates = f"loss: {share((0.01, 0.1, 0.3))}, reordering: {share((0, 0.1, 0.5))}"
    return f"degrade_network: {{{links}, only: control, {rates}}}"


def _two_zombies(draw: Draw) -> str:
    """Return a step that pauses a controller and its successor, and then resumes both."""
    expiry_ms = draw.cluster.spec.session_timeout_ms + draw.rng.choice((50, 500))
    pause = f"pause: controller, wait: {expiry_ms}ms".replace(", wait", "}, {wait")
    return f"steps: [{{{pause}}}, {{{pause}}}, {{resume: paused}}]"


def _degrade(draw: Draw) -> str:
    share = draw.rng.choice
    loss, again, late = share((0, 0.01, 0.1)), share((0, 0.01, 0.1)), share((0, 0.01, 0.3))
    loss = loss if loss or again or late else 0.01
    return f"degrade_network: {{loss: {loss}, repetition: {again}, reordering: {late}}}"


def _at_a_moment(draw: Draw) -> str:
    """Return a step with a fault at a ZooKeeper operation of the controller, if it happens.

    Mostly, an operation follows that makes the controller process the event.
    """
    when, rng = draw.rng.choice(("before", "after")), draw.rng
    operation = rng.choice((1, 1, 2, 3, 4, 5, 6, 8))
    event, causes = rng.choice(_EVENTS)
    armed = f"{{{when}: {{event: {event}, operation: {operation}}}, {rng.choice(_AT_A_MOMENT)}}}"
    return armed if rng.random() < 0.3 else f"steps: [{armed}, {{{rng.choice(causes)(draw)}}}]"


def _in_a_reassignment(draw: Draw) -> str:
    """Return a step with a fault while a pending reassignment is cancelled or overridden."""
    tp, rng = draw.partition(), draw.rng
    pending = reassign_to_paused(draw, tp)
    change = rng.choice((f"cancel_reassignment: [{tp}]", f"reassign: {{{tp}: {draw.replicas()}}}"))
    armed = f"{rng.choice(('before', 'after'))}: {rng.choice(_PHASES)}, {rng.choice(_AT_A_MOMENT)}"
    return f"steps: [{{{pending}}}, {{{wait(rng, 'short')}}}, {{{armed}}}, {{{change}}}]"


def _fail_disk(draw: Draw) -> str:
    log_dir = draw.rng.choice(draw.cluster.log_dirs)
    kind = draw.rng.choice(("enospc", "eio", "short-write"))
    after = draw.rng.choice(("", ", after_bytes: 200", ", after_bytes: 5000"))
    times = draw.rng.choice(("", ", times: 1"))
    return f"fail_disk: {{broker: {draw.up()}, log_dir: {log_dir}, kind: {kind}{after}{times}}}"


def _fail_log_dir(draw: Draw) -> str:
    return (
        f"fail_log_dir: {{broker: {draw.up()}, log_dir: {draw.rng.choice(draw.cluster.log_dirs)}}}"
    )


def _slow_disk(draw: Draw) -> str:
    return f"slow_disk: {{broker: {draw.up()}, bytes_per_s: {draw.rng.choice((100, 1000, 10000))}}}"


_EVENTS: Final[tuple[tuple[str, tuple[DrawFault, ...]], ...]] = (
    ("AlterIsrReceived", (_kill, _start)),
    ("ApiPartitionReassignment", (reassign, cancel)),
    ("BrokerChange", (_kill, _start)),
    ("PartitionModifications", (add_partition,)),
    ("PartitionReassignmentIsrChange", (reassign,)),
    ("TopicChange", (create_new_topic,)),
    ("ZkPartitionReassignment", (reassign_by_znode,)),
)
"""Events of a controller that write to ZooKeeper, and operations that cause them."""
_PHASES: Final = ("U1", "U3", "A1", "B3", "B4", "B6")
_AT_A_MOMENT: Final = (
    "kill: controller",
    "lose_reply: controller",
    "lose_request: controller",
    "expire_session: controller",
    "steps: [pause: controller, move_controller, wait: 500ms, resume: paused]",
)


class DrawnFault(NamedTuple):
    """A kind of fault: how to draw a step with it, and the steps that may repair it.

    - ``is_silent``: it can leave a broker with an old metadata cache: see delete_topic.
    - ``is_lasting``: controller and brokers need not agree with ZooKeeper until all is healed.
    - ``is_default``: hunts use it unless other kinds are named.
    """

    draw: DrawFault
    repairs: tuple[DrawFault, ...] = ()
    is_silent: bool = False
    is_lasting: bool = False
    is_default: bool = True


def _word(step: str) -> DrawFault:
    return lambda _: step


def _of_links(draw: DrawFault) -> DrawnFault:
    return DrawnFault(draw, (_word("heal_network"),), is_silent=True)


FAULTS: Final = {
    "kill": DrawnFault(_kill, (_start,)),
    "stop": DrawnFault(lambda draw: f"stop: {draw.ending()}", (_start,)),
    "pause": DrawnFault(_pause, (_resume,), is_silent=True),
    "isolate": DrawnFault(_isolate, (_word("heal_network"),)),
    "network": DrawnFault(_degrade, (_word("heal_network"),)),
    "cut-zookeeper": _of_links(_cut_zookeeper),
    "cut-controller": _of_links(_cut_controller),
    "cut-clients": _of_links(_cut_clients),
    "one-way": _of_links(_cut_one_way),
    "split": _of_links(_split),
    "clog": _of_links(_clog),
    "delay": _of_links(_delay),
    "delay-zookeeper": _of_links(_delay_zookeeper),
    "control-requests": _of_links(_degrade_control),
    "stale-reads": _of_links(_lag),
    "clock": DrawnFault(_skew, is_lasting=True),
    "zombies": DrawnFault(_two_zombies, (_resume,), is_silent=True),
    "session": DrawnFault(
        lambda draw: f"expire_session: {draw.broker()}", (_start,), is_silent=True
    ),
    "lost-reply": DrawnFault(
        lambda draw: f"{draw.rng.choice(('lose_reply', 'lose_request'))}: {draw.broker()}"
    ),
    "move-controller": DrawnFault(_word("move_controller")),
    "log-dir": DrawnFault(_fail_log_dir, (_start,), is_lasting=True),
    "disk": DrawnFault(_fail_disk, (_word("heal_disks"), _start), is_lasting=True),
    "slow-disk": DrawnFault(_slow_disk, (_word("heal_disks"),)),
    "kill-all": DrawnFault(_word("kill_all"), (_word("up_again"),) * 2, is_lasting=True),
    "authentication": DrawnFault(lambda draw: f"fail_authentication: {draw.broker()}"),
    # A moment may come at any time, and kill the only controller.
    "moment": DrawnFault(_at_a_moment, (_start,), is_silent=True, is_lasting=True),
    "pending": DrawnFault(
        lambda draw: reassign_to_paused(draw, draw.partition()), (_resume,), is_silent=True
    ),
    "phase": DrawnFault(_in_a_reassignment, (_resume, _start), is_silent=True, is_lasting=True),
    "power-off": DrawnFault(
        lambda draw: f"power_off: {draw.ending()}", (_start,), is_lasting=True, is_default=False
    ),
}
"""The kinds of faults, keyed by their names on the command line."""


def check_faults(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of faults as a tuple. Raises UsageError for an unknown or repeated name."""
    for name in names:
        if name not in FAULTS:
            hint = suggestion(name, FAULTS, f"faults: {', '.join(FAULTS)}")
            raise UsageError(f"unknown fault '{name}'", hint=hint)
        if names.count(name) > 1:
            raise UsageError(f"the fault {name} is given twice", hint="name each fault once")
    return tuple(names)
