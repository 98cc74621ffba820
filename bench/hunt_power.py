"""``python -m bench.hunt_power``: how many seeds a hunt needs to find known bugs and mutants.

The known bugs are the quirks of Kafka 2.8.2. The mutants are planted here, each into one function
of the controller, the brokers or the store. Exit 1 if less than the goal is found.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from bench.machine import machine
from klamm.brokers.followers import follower
from klamm.brokers.kafka_apis import ControlApis
from klamm.brokers.leaders import isr_changes
from klamm.brokers.leaders.produces import Produces
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.api_errors import Errors
from klamm.cluster.quirks import NAMES, parse_quirks
from klamm.cluster.types import LeaderAndIsr
from klamm.controller import loader, on_alter_isr, on_broker_change
from klamm.lab.hunt.hunting import HuntOptions, run_seed
from klamm.lab.hunt.processes import print_no_warnings
from klamm.statemachines import election, reassignment, topic_deletion
from klamm.zk import data_tree, fenced_writes
from klamm.zk.data_tree import DataTree
from klamm.zk.store import ANY_VERSION, Check, SetData, WatchKind
from klamm.zk.watch_manager import WatchManager

GOAL = 0.8
SEEDS = 2_000
Mutant = tuple[object, str, Any]
"""An object, the attribute that is replaced, and its replacement."""


def _elect_any(assignment: Sequence[int], _: object, live: Sequence[int], __: object) -> Any:
    return next((replica for replica in assignment if replica in live), None)


def _done_while_running(context: Any, topic: str) -> Any:
    found = _progress_of(context, topic)
    is_running = found is topic_deletion.DeletionProgress.RUNNING
    return topic_deletion.DeletionProgress.DONE if is_running else found


def _check_no_epoch(manager: Any, partition: Any, state: Any, topic_id: Any) -> Any:
    error = _check_state(manager, partition, state, topic_id)
    return Errors.NONE if error is Errors.STALE_CONTROLLER_EPOCH else error


def _forget_controllers(method: Callable[..., Any]) -> Callable[..., Any]:
    def handle(manager: Any, *args: Any) -> Any:
        manager.controller_epoch = 0
        return method(manager, *args)

    return handle


def _acknowledge_at_once(produces: Any, request: Any, body: Any, *times: Any) -> Any:
    return _produce(produces, request, msgspec.structs.replace(body, acks=1), *times)


def _same_epoch(state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return LeaderAndIsr(leader, state.leader_epoch, isr, state.zk_version)


def _two_epochs(state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return LeaderAndIsr(leader, state.leader_epoch + 2, isr, state.zk_version)


def _accept_old_epochs(controller: Any, tp: Any, proposed: Any) -> Any:
    found = _answer_without_writing(controller, tp, proposed)
    return None if found is Errors.FENCED_LEADER_EPOCH else found


def _keep_epochs(controller: Any) -> Any:
    found, known = _read_live_brokers(controller), controller.context.live_broker_epochs
    for broker_id in found.values.keys() & known.keys():
        broker = found.values[broker_id]
        found.values[broker_id] = msgspec.structs.replace(broker, epoch=known[broker_id])
    return found


def _build_without_cancelling(context: Any, tp: Any, target: Any) -> Any:
    found = _build_reassignment(context, tp, target)
    is_cancelled = target is None and found is not None
    return context.partition_full_replica_assignment(tp) if is_cancelled else found


def _set_any_version(tree: Any, op: SetData, context: Any) -> Any:
    return _APPLY[SetData](tree, msgspec.structs.replace(op, version=ANY_VERSION), context)


def _fire_unless_deleted(table: Any, changes: Any) -> Any:
    is_deleted = any(kind is WatchKind.DELETED for kind, _ in changes)
    return [
        (session, event)
        for session, event in _fire(table, changes)
        if not (is_deleted and event.kind is WatchKind.CHILDREN_CHANGED)
    ]


_progress_of = topic_deletion.progress_of
_answer_without_writing = on_alter_isr._answer_without_writing
_read_live_brokers = loader.read_live_brokers
_build_reassignment = reassignment.build_reassignment
_APPLY = dict(data_tree._APPLY)
_fire = WatchManager.fire
_check_state = ReplicaManager._check_state
_produce = Produces.produce
_handle = ControlApis.handle
MUTANTS: Mapping[str, Mutant] = {
    "the offline election ignores the ISR": (
        election,
        "offline_partition_leader_election",
        _elect_any,
    ),
    "the reassign election ignores the ISR": (
        election,
        "reassign_partition_leader_election",
        lambda targets, _, live: next((r for r in targets if r in live), None),
    ),
    "the preferred election ignores the ISR": (
        election,
        "preferred_replica_partition_leader_election",
        lambda assignment, _, live: next((r for r in assignment[:1] if r in live), None),
    ),
    "writes are not fenced": (fenced_writes, "Check", lambda path, _: Check(path, -1)),
    "a reassignment completes at once": (
        reassignment,
        "is_reassignment_complete",
        lambda *_: True,
    ),
    "a topic is deleted before its replicas": (topic_deletion, "progress_of", _done_while_running),
    "an election keeps the leader epoch": (LeaderAndIsr, "with_leader_and_isr", _same_epoch),
    "an election raises the epoch by two": (LeaderAndIsr, "with_leader_and_isr", _two_epochs),
    "restarts of brokers go unnoticed": (on_broker_change, "read_live_brokers", _keep_epochs),
    "a cancellation changes nothing": (
        reassignment,
        "build_reassignment",
        _build_without_cancelling,
    ),
    "AlterIsr is accepted at an old leader epoch": (
        on_alter_isr,
        "_answer_without_writing",
        _accept_old_epochs,
    ),
    "brokers accept old leader epochs": (ReplicaManager, "_check_state", _check_no_epoch),
    "brokers accept deposed controllers": (
        ReplicaManager,
        "maybe_update_metadata_cache",
        _forget_controllers(ReplicaManager.maybe_update_metadata_cache),
    ),
    "brokers accept old broker epochs": (
        ControlApis,
        "handle",
        lambda apis, request, _: _handle(apis, request, -1),
    ),
    "leaders acknowledge at once": (Produces, "produce", _acknowledge_at_once),
    "the high watermark ignores followers": (
        Partition,
        "maximal_isr",
        property(lambda partition: (partition.state.leader,)),
    ),
    "leaders do not detect diverging logs": (Partition, "check_offsets", lambda *_: None),
    "followers do not truncate": (follower, "_truncate", lambda *_: None),
    "lagging replicas join the ISR": (
        isr_changes,
        "_caught_up_at_end",
        lambda partition: [r for r in partition.replicas if r not in partition.isr],
    ),
    "SetData ignores the version": (data_tree, "_APPLY", {**_APPLY, SetData: _set_any_version}),
    "a failed transaction is not rolled back": (DataTree, "_roll_back", lambda *_: None),
    "deletions fire no child watches": (WatchManager, "fire", _fire_unless_deleted),
    "reconnected sessions lose their watches": (WatchManager, "rearm", lambda *_: []),
}


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Replace a function, in every module that has imported it, during the block."""
    owner, name, replacement = mutant
    original = owner.__dict__[name]
    owners = [owner]
    if not isinstance(owner, type):
        modules = [module for key, module in sys.modules.items() if key.startswith("klamm.")]
        owners += [m for m in modules if m.__dict__.get(name) is original and m is not owner]
        if name == "Check":
            owners = [owner]
    for one in owners:
        setattr(one, name, replacement)
    try:
        yield
    finally:
        for one in owners:
            setattr(one, name, original)


def find(
    options: HuntOptions, seeds: int, bug: Callable[[], AbstractContextManager[None]]
) -> tuple[int, str] | None:
    """Return the first seed that finds a violation, and what was violated.

    A seed whose drill fails without the bug, too, does not count.
    """
    for seed in range(seeds):
        with bug():
            result = run_seed(seed, options)
        if result.violated and not run_seed(seed, HuntOptions(shrinks=False)).violated:
            return seed, result.violated
    return None


def measure(names: Sequence[str], search: Callable[[str], tuple[int, str] | None]) -> int:
    """Search for each bug and print the outcome; return how many were found."""
    count = 0
    for name in names:
        began_s = time.monotonic()
        found = search(name)
        took_s = time.monotonic() - began_s
        count += found is not None
        text = "not found" if found is None else f"seed {found[0]:5,}  {found[1]}"
        print(f"{name:42} {took_s:6.1f} s  {text}", flush=True)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.hunt_power", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="most seeds for each bug")
    parser.add_argument("--only", choices=("mutants", "quirks"), help="these bugs")
    parser.add_argument("--bug", action="append", help="only this bug (repeatable)")
    options = parser.parse_args(arguments)
    print_no_warnings()
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)

    def search_mutant(name: str) -> tuple[int, str] | None:
        bug = partial(planted, MUTANTS[name])
        return find(HuntOptions(shrinks=False), options.seeds, bug)

    def search_quirk(name: str) -> tuple[int, str] | None:
        quirks = HuntOptions(quirks=parse_quirks([name]), shrinks=False)
        return find(quirks, options.seeds, contextlib.nullcontext)

    found = total = 0
    for kind, names, search in (
        ("mutants", tuple(MUTANTS), search_mutant),
        ("quirks", tuple(NAMES), search_quirk),
    ):
        if options.bug:
            names = tuple(name for name in names if name in options.bug)
        if names and options.only in (None, kind):
            count = measure(names, search)
            print(f"{count} of {len(names)} {kind} found within {options.seeds:,} seeds\n")
            found, total = found + count, total + len(names)
    return 0 if found >= GOAL * total else 1


if __name__ == "__main__":
    sys.exit(main())
