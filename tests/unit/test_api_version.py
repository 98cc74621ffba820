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
def test_what_a_version_decides(
    version: str, alter_isr: bool, features: bool, topic_ids: bool
) -> None:
    found = ApiVersion(version)
    assert found.is_alter_isr_supported is alter_isr
    assert found.is_feature_versioning_supported is features
    assert found.uses_topic_ids is topic_ids


def test_the_latest_by_default() -> None:
    assert ApiVersion().uses_topic_ids


@pytest.mark.parametrize("version", ["", "2", "2.8-IV2", "3.0", "0.8", "two"])
def test_what_is_no_version_is_refused(version: str) -> None:
    assert not is_api_version(version)
    with pytest.raises(InvalidConfig, match=f"Version `{version}` is not a valid version"):
        ApiVersion(version)
