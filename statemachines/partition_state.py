"""The states of a partition and which may follow which.

Only the table and what is derived from it; moves are planned and applied elsewhere.
Mirrors the PartitionState objects of kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from klamm.statemachines.rules import previous_names, valid_previous


class PartitionState(Enum):
    """A partition's state; the value is Kafka's name."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"

    def __str__(self) -> str:
        return str(self._value_)


_S = PartitionState

PREVIOUS: Final[Mapping[PartitionState, tuple[PartitionState, ...]]] = {
    _S.NEW: (_S.NON_EXISTENT,),
    _S.ONLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE),
    _S.OFFLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE),
    _S.NON_EXISTENT: (_S.OFFLINE,),
}
"""{target: the states from which a partition may move to it}, in Kafka's order of printing."""
VALID_PREVIOUS: Final = valid_previous(PREVIOUS)
PREVIOUS_NAMES: Final = previous_names(PREVIOUS)
CODES: Final = {_S.NEW: 0, _S.ONLINE: 1, _S.OFFLINE: 2, _S.NON_EXISTENT: 3}
"""Kafka's number of each state."""
