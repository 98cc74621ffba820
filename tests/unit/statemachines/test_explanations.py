"""Every state, phase, election and kind of row has words of its own."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from klamm.cluster.journal import Kind
from klamm.statemachines.election import ElectionStrategy, OfflineElection
from klamm.statemachines.partition_state import PREVIOUS as PARTITIONS_BEFORE
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import PREVIOUS as REPLICAS_BEFORE
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.explain.rules import (
    ELECTION_RULES,
    KIND_RULES,
    PARTITION_RULES,
    PHASE_RULES,
    REPLICA_RULES,
    Rule,
)

EVERY_RULE = [
    *PARTITION_RULES.values(),
    *REPLICA_RULES.values(),
    *ELECTION_RULES.values(),
    *PHASE_RULES.values(),
    *KIND_RULES.values(),
]


def test_every_legal_move_of_a_partition_has_a_rule() -> None:
    legal = {(before, to) for to, sources in PARTITIONS_BEFORE.items() for before in sources}
    assert set(PARTITION_RULES) == legal


def test_every_state_that_a_replica_may_come_to_has_a_rule() -> None:
    assert set(REPLICA_RULES) == {to for to, sources in REPLICAS_BEFORE.items() if sources}
    assert set(REPLICA_RULES) == set(ReplicaState)


def test_every_election_has_a_rule() -> None:
    strategies = {str(strategy()) for strategy in get_args(ElectionStrategy)}
    assert set(ELECTION_RULES) == strategies | {str(OfflineElection(allow_unclean=True))}


def test_every_phase_and_every_kind_has_a_rule() -> None:
    assert list(PHASE_RULES) == list(Phase)
    assert set(KIND_RULES) == set(Kind)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.text[:40])
def test_a_rule_is_one_sentence_with_a_source(rule: Rule) -> None:
    assert rule.text.endswith(".")
    assert len(re.findall(r"\.(?= [A-Z]|$)", rule.text)) <= 2
    assert re.search(r"\.scala|KIP-[0-9]+|klamm", rule.source)
