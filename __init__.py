"""Runs Kafka 2.8's ZooKeeper-era control plane, to rehearse changes on it and inject failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["ClusterError", "LocalCluster", "SimulatedCluster"]

if TYPE_CHECKING:
    from klamm.testing.cluster import ClusterError, LocalCluster, SimulatedCluster
else:

    def __getattr__(name: str) -> object:
        """Import a public class when it is first used, so that `import klamm` costs nothing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from klamm.testing import cluster

        return getattr(cluster, name)

    def __dir__() -> list[str]:
        """Return the public classes, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
