"""States of a partition in the controller, and the legal transitions between them.

partition_transitions.py plans and applies the transitions. Mirrors the PartitionState objects of
kafka/controller/PartitionStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class PartitionState(Enum):
    """State of a partition in the controller. The value is the state's name in Kafka."""

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
"""Legal previous states of each target state, in the order in which Kafka's errors list them."""
