"""Inter-broker protocol versions: what a broker of the cluster may assume of the others.

Only their names and order, and what klamm's parts decide by them. Mirrors kafka.api.ApiVersion.
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
# A name without its part after the dash means the last one that begins so.
_ORDER: Final = {name.partition("-")[0]: n for n, name in enumerate(_NAMES)} | {
    name: n for n, name in enumerate(_NAMES)
}
LATEST: Final = _NAMES[-1]


def is_api_version(version: str) -> bool:
    """True if ``version`` names one."""
    return _key(version) in _ORDER


class ApiVersion:
    """One version, from e.g. ``2.8``, ``2.7-IV1`` or ``2.6.2``. Raises InvalidConfig."""

    def __init__(self, version: str = LATEST) -> None:
        if not is_api_version(version):
            raise InvalidConfig(f"Version `{version}` is not a valid version")
        self._number = _ORDER[_key(version)]

    @property
    def is_alter_isr_supported(self) -> bool:
        """Leaders propose ISRs to the controller; before 2.7-IV2 they write them."""
        return self._number >= _ORDER["2.7-IV2"]

    @property
    def is_feature_versioning_supported(self) -> bool:
        """The controller enables /feature; before 2.7-IV0 it disables it."""
        return self._number >= _ORDER["2.7-IV0"]

    @property
    def tells_new_replicas(self) -> bool:
        """LeaderAndIsr says which replicas are new; before 1.0 a broker that lost a log directory
        cannot know what may be made elsewhere."""
        return self._number >= _ORDER["1.0-IV0"]

    @property
    def uses_topic_ids(self) -> bool:
        """Topics get ids, from 2.8-IV0 on."""
        return self._number >= _ORDER["2.8-IV0"]


def _key(version: str) -> str:
    """What of a version says which one it is: the rest does not matter."""
    return ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
