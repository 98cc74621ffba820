"""Inter-broker protocol versions are read as Kafka reads them, and decide the same."""

from __future__ import annotations

import pytest

from klamm.cluster.api_version import ApiVersion, is_api_version
from klamm.cluster.errors import InvalidConfig


@pytest.mark.parametrize(
    ("version", "alter_isr", "features", "topic_ids"),
    [
        ("0.8.0", False, False, False),
        ("0.10.0.1", False, False, False),
        ("0.11.0-IV2", False, False, False),
        ("2.6.2", False, False, False),
        ("2.7-IV0", False, True, False),
        ("2.7-IV1", False, True, False),
        ("2.7", True, True, False),
        ("2.7.1", True, True, False),
        ("2.8-IV0", True, True, True),
        ("2.8", True, True, True),
        ("2.8-IV1", True, True, True),
    ],
)
def test_a_version_decides_which_features_are_used(
    version: str, alter_isr: bool, features: bool, topic_ids: bool
) -> None:
    found = ApiVersion(version)
    assert found.is_alter_isr_supported is alter_isr
    assert found.is_feature_versioning_supported is features
    assert found.uses_topic_ids is topic_ids


@pytest.mark.parametrize(
    ("version", "is_spoken", "marks_new", "requests"),
    [
        ("0.11.0", False, False, (1, 4, 0)),
        ("1.0", False, True, (1, 4, 0)),
        ("1.1", False, True, (1, 4, 0)),
        ("2.0-IV0", True, True, (1, 4, 0)),
        ("2.1", True, True, (1, 4, 0)),
        ("2.2-IV0", True, True, (2, 5, 1)),
        ("2.3", True, True, (2, 5, 1)),
        ("2.4-IV0", True, True, (3, 5, 1)),
        ("2.4-IV1", True, True, (4, 6, 2)),
        ("2.5", True, True, (4, 6, 2)),
        ("2.6", True, True, (4, 6, 3)),
        ("2.8-IV0", True, True, (4, 6, 3)),
        ("2.8-IV1", True, True, (5, 7, 3)),
    ],
)
def test_a_version_decides_which_requests_brokers_get(
    version: str, is_spoken: bool, marks_new: bool, requests: tuple[int, int, int]
) -> None:
    found = ApiVersion(version)
    assert (found.is_spoken_to_brokers, found.marks_new_replicas) == (is_spoken, marks_new)
    assert requests == (
        found.leader_and_isr_version,
        found.update_metadata_version,
        found.stop_replica_version,
    )


def test_the_default_is_the_latest_version() -> None:
    assert ApiVersion().uses_topic_ids


@pytest.mark.parametrize("version", ["", "2", "2.8-IV2", "3.0", "0.8", "two"])
def test_an_unknown_version_is_refused(version: str) -> None:
    assert not is_api_version(version)
    with pytest.raises(InvalidConfig, match=f"Version `{version}` is not a valid version"):
        ApiVersion(version)
