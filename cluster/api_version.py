"""Inter-broker protocol versions: names, order, and the features that depend on them.

Mirrors kafka.api.ApiVersion.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.errors import InvalidConfig

_NAMES: Final = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1"),
    *("0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2", "0.10.2-IV0"),
    *("0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1"),
    *("2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1"),
    *("2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2"),
    *("2.8-IV0", "2.8-IV1"),
)
# A name without the suffix after the dash, e.g. 2.8, stands for the last version with that prefix.
_ORDER: Final = {name.partition("-")[0]: n for n, name in enumerate(_NAMES)} | {
    name: n for n, name in enumerate(_NAMES)
}
LATEST: Final = _NAMES[-1]


def is_api_version(version: str) -> bool:
    """Return True if ``version`` is a valid inter-broker protocol version."""
    return _key(version) in _ORDER


class ApiVersion:
    """Inter-broker protocol version, parsed from e.g. ``2.8``, ``2.7-IV1`` or ``2.6.2``.

    Raises InvalidConfig if the version is not valid.
    """

    def __init__(self, version: str = LATEST) -> None:
        if not is_api_version(version):
            raise InvalidConfig(f"Version `{version}` is not a valid version")
        self._number = _ORDER[_key(version)]

    @property
    def is_alter_isr_supported(self) -> bool:
        """True if leaders send AlterIsr; before 2.7-IV2 they write ISRs to ZooKeeper themselves."""
        return self._number >= _ORDER["2.7-IV2"]

    @property
    def is_feature_versioning_supported(self) -> bool:
        """True if the controller marks the /feature znode as enabled, i.e. from 2.7-IV0 onward."""
        return self._number >= _ORDER["2.7-IV0"]

    @property
    def marks_new_replicas(self) -> bool:
        """True if LeaderAndIsr requests mark new replicas with ``is_new`` (from 1.0-IV0 onward).

        Without ``is_new``, a broker with a failed log directory does not know which replicas are
        new and may therefore be created in another directory.
        """
        return self._number >= _ORDER["1.0-IV0"]

    @property
    def uses_topic_ids(self) -> bool:
        """True if the controller assigns ids to topics, i.e. from 2.8-IV0 onward."""
        return self._number >= _ORDER["2.8-IV0"]

    @property
    def leader_and_isr_version(self) -> int:
        """Version of the controller's LeaderAndIsr requests (ControllerChannelManager)."""
        return self._newest(("2.8-IV1", 5), ("2.4-IV1", 4), ("2.4-IV0", 3), ("2.2-IV0", 2))

    @property
    def update_metadata_version(self) -> int:
        """Version of the controller's UpdateMetadata requests, from 1.0-IV0 onward."""
        return self._newest(("2.8-IV1", 7), ("2.4-IV1", 6), ("2.2-IV0", 5), otherwise=4)

    @property
    def stop_replica_version(self) -> int:
        """Version of the controller's StopReplica requests.

        A request has its own ``delete_partition`` for each partition from version 3 onward.
        """
        return self._newest(("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1), otherwise=0)

    @property
    def is_spoken_to_brokers(self) -> bool:
        """True if klamm's controller can drive brokers of this version, i.e. from 2.0 onward."""
        return self._number >= _ORDER["2.0-IV0"]

    def _newest(self, *since: tuple[str, int], otherwise: int = 1) -> int:
        return next((n for name, n in since if self._number >= _ORDER[name]), otherwise)


def _key(version: str) -> str:
    """Return the part of a version that identifies the protocol: ``2.6.2`` becomes ``2.6``."""
    return ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
