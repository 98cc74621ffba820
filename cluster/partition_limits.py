"""Limits on the number of partitions per request and per cluster.

The limits are enforced like a kafka.server.policy.CreateTopicPolicy. They are checked before
replicas are placed, so that a request for too many partitions uses no memory.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.cluster.errors import PolicyViolation, UsageError

_HINT = "klamm up --max-partitions-per-request and --max-partitions set the limits"


class PartitionLimits(msgspec.Struct, frozen=True):
    """Limits on the number of partitions: per request, and for the whole cluster.

    Raises UsageError if a limit is less than 1.
    """

    per_request: int = 200_000
    cluster: int = 1_000_000

    def __post_init__(self) -> None:
        for name, value in (
            ("--max-partitions-per-request", self.per_request),
            ("--max-partitions", self.cluster),
        ):
            if value < 1:
                raise UsageError(
                    f"{name} must be at least 1, not {value}",
                    hint=f"the defaults are {DEFAULT_LIMITS.per_request} partitions per request "
                    f"and {DEFAULT_LIMITS.cluster} in the cluster",
                )

    def check_request(self, added: int) -> None:
        """Raise PolicyViolation if a request adds more partitions than allowed per request."""
        if added > self.per_request:
            raise PolicyViolation(
                f"The request adds {added} partitions; at most {self.per_request} are allowed in"
                " one request.",
                hint=_HINT,
            )

    def check_cluster(self, existing: int, added: int) -> None:
        """Raise PolicyViolation if ``existing`` + ``added`` partitions exceed the cluster limit."""
        if existing + added > self.cluster:
            raise PolicyViolation(
                f"The cluster has {existing} partitions and would have {existing + added}; at"
                f" most {self.cluster} are allowed.",
                hint=_HINT,
            )


DEFAULT_LIMITS: Final = PartitionLimits()
