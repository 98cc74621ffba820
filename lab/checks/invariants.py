"""The invariants that must hold after every event of a simulated world, in one table.

Each check is a few lines and shares no code with what it checks. Its name is that of the invariant,
and the first paragraph of its docstring the statement. The checks are in znode_invariants.py,
request_invariants.py, controller_invariants.py, replica_invariants.py and replicas.py. After each
event, watching.py runs the checks that can fail because of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import getdoc
from typing import Any, Final, NamedTuple, get_type_hints

from klamm.cluster.errors import KlammError
from klamm.lab.checks import controller_invariants as controller
from klamm.lab.checks import replica_invariants as replica
from klamm.lab.checks import replicas
from klamm.lab.checks import request_invariants as request
from klamm.lab.checks import znode_invariants as znode
from klamm.lab.checks.observations import History

InvariantCheck = Callable[[History, Any], Iterable[str]]


class Invariant(NamedTuple):
    """A statement that must hold after every event.

    ``source``: the JIRA issue, KIP or specification that the statement comes from. ``event``: the
    kind of observation that can violate it. ``check`` yields a line for each violation. Both are
    None for invariants that replicas.py checks.
    """

    statement: str
    source: str
    event: type | None = None
    check: InvariantCheck | None = None


class InvariantViolated(KlammError):
    """An invariant did not hold. The message says what was observed, and when.

    ``row``: the number of the last journal row at that time, from 1.
    """

    exit_code = 10

    def __init__(self, name: str, seen: str, row: int) -> None:
        super().__init__(seen)
        self.invariant = name
        self.row = row
        self.statement = INVARIANTS[name].statement


_SOURCES: Final[Mapping[InvariantCheck, str]] = {
    znode.isr_is_not_empty: "KAFKA-708",
    znode.leader_is_in_isr: "KIP-320 LeaderInIsr",
    znode.isr_grows_by_assigned_replicas: "KIP-455",
    znode.isr_grows_by_live_brokers: "KAFKA-14140",
    znode.shut_down_brokers_stay_out: "KAFKA-14140",
    znode.leader_epoch_rises_by_one: "KIP-101",
    znode.leader_change_raises_epoch: "KIP-101",
    znode.epoch_has_one_leader: "KIP-101",
    znode.elections_are_clean: "KAFKA-1211",
    znode.elections_do_not_grow_the_isr: "KIP-497",
    znode.states_have_the_current_epoch: "KAFKA-6082",
    znode.only_the_elected_write: "KAFKA-6082",
    znode.election_is_one_transaction: "KAFKA-6082",
    znode.controller_epoch_rises_by_one: "KAFKA-1096",
    znode.topic_id_is_kept: "KAFKA-12835",
    znode.partitions_are_kept: "KAFKA-6612",
    znode.moving_replicas_are_replicas: "KIP-455",
    znode.reassignments_end_in_sync: "KIP-455",
    znode.replicas_change_by_reassignment: "KAFKA-12493",
    znode.deletion_waits_for_replicas: "KAFKA-10548",
    znode.deletion_waits_for_reassignments: "KAFKA-8249",
    request.requests_carry_stored_states: "KAFKA-9212",
    request.requests_have_their_controllers_epoch: "KAFKA-1096",
    request.metadata_comes_first: "KAFKA-4443",
    request.leader_and_isr_goes_to_replicas: "KAFKA-9539",
    request.sent_epochs_do_not_decrease: "KAFKA-1188",
    request.stop_replica_has_a_new_epoch: "KAFKA-13972",
    request.shutdown_stops_followers: "KAFKA-14140",
    request.stale_controllers_are_refused: "KAFKA-6082",
    request.stale_broker_epochs_are_refused: "KIP-380",
    request.accepted_isrs_are_stored: "KAFKA-14154",
    controller.batches_are_sent: "KAFKA-12315",
    controller.fenced_controllers_resign: "C5",
    controller.brokers_know_live_brokers: "KAFKA-13225",
    controller.offline_replicas_stay_offline: "C10",
    controller.online_partitions_have_leaders: "KAFKA-14808",
    controller.preferred_leaders_are_elected: "KAFKA-10149",
    replica.weak_isr: "KIP-320 WeakIsr",
    replica.strong_isr: "KIP-320 StrongIsr",
    replica.isr_reaches_high_watermark: "KIP-497 ValidHighWatermark",
    replica.maximal_isr_covers_the_isr: "KIP-497 ReplicationQuorumSuperset",
    replica.high_watermark_is_in_the_log: "KIP-101",
    replica.high_watermark_follows_the_isr: "KAFKA-13091",
    replica.leaders_know_their_epoch: "KAFKA-15608",
    replica.leader_was_elected: "KIP-101",
    replica.applied_epoch_does_not_decrease: "KIP-101",
}
"""The source of each invariant that a function checks."""


def _invariant(check: InvariantCheck, source: str) -> Invariant:
    statement = " ".join(str(getdoc(check)).partition("\n\n")[0].split())
    return Invariant(statement, source, get_type_hints(check)["event"], check)


INVARIANTS: Final[Mapping[str, Invariant]] = {
    **{
        check.__name__.replace("_", "-"): _invariant(check, source)
        for check, source in _SOURCES.items()
    },
    replicas.LOG_MATCHING: Invariant(
        "Two replicas have the same records below the lower of their high watermarks.", "KIP-101"
    ),
    replicas.LEADER_COMPLETENESS: Invariant(
        "The newest leader has every record that was acknowledged with acks=all.", "KIP-966"
    ),
    replicas.MONOTONIC_HIGH_WATERMARK: Invariant(
        "The high watermark of a running leader never decreases within a leader epoch.", "KIP-101"
    ),
    replicas.ONE_LEADER: Invariant(
        "Two brokers never lead a partition in the same leader epoch.", "KIP-101"
    ),
}
"""All invariants, keyed by their names in drills."""
