"""How many partitions there may be, which options of klamm up may change."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import PolicyViolation, UsageError
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits


def test_the_limits_themselves_are_allowed() -> None:
    assert (DEFAULT_LIMITS.per_request, DEFAULT_LIMITS.cluster) == (200_000, 1_000_000)
    limits = PartitionLimits(per_request=1, cluster=3)
    limits.check_request(1)
    limits.check_cluster(2, 1)
    with pytest.raises(PolicyViolation, match="adds 2 partitions; at most 1 are allowed in one"):
        limits.check_request(2)
    with pytest.raises(PolicyViolation, match="has 2 partitions and would have 4; at most 3 are"):
        limits.check_cluster(2, 2)


@pytest.mark.parametrize(
    ("limits", "option"),
    [({"per_request": 0}, "--max-partitions-per-request"), ({"cluster": 0}, "--max-partitions")],
)
def test_a_limit_is_at_least_1(limits: dict[str, int], option: str) -> None:
    with pytest.raises(UsageError, match=f"^{option} must be at least 1, not 0") as raised:
        PartitionLimits(**limits)
    assert raised.value.hint == (
        "the defaults are 200000 partitions per request and 1000000 in the cluster"
    )
