"""States of a replica in the controller, and the legal transitions between them.

replica_transitions.py plans and applies the transitions. Mirrors the ReplicaState objects of
kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ReplicaState(Enum):
    """State of a replica in the controller. The value is the state's name in Kafka."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"

    def __str__(self) -> str:
        return str(self._value_)


_S = ReplicaState

PREVIOUS: Final[Mapping[ReplicaState, tuple[ReplicaState, ...]]] = {
    _S.NEW: (_S.NON_EXISTENT,),
    _S.ONLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE),
    _S.OFFLINE: (_S.NEW, _S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE),
    _S.DELETION_STARTED: (_S.OFFLINE,),
    _S.DELETION_SUCCESSFUL: (_S.DELETION_STARTED,),
    _S.DELETION_INELIGIBLE: (_S.OFFLINE, _S.DELETION_STARTED),
    _S.NON_EXISTENT: (_S.DELETION_SUCCESSFUL,),
}
"""Legal previous states of each target state, in the order in which Kafka's errors list them."""
