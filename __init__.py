"""Runs Kafka 2.8's ZooKeeper-era control plane, to rehearse changes on it and inject failures."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

# An editable install reaches the checkout through a link (setup.py). Tracebacks, debuggers and
# coverage show and compare the paths of modules: let them be those of the files.
__path__ = [os.path.realpath(folder) for folder in __path__]

__all__ = ["ClusterError", "LocalCluster", "SimulatedCluster", "run_drill"]

if TYPE_CHECKING:
    from klamm.lab.python.cluster import LocalCluster, SimulatedCluster
    from klamm.lab.python.errors import ClusterError
    from klamm.lab.python.run_drill import run_drill
else:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used, so that `import klamm` costs nothing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from klamm.lab.python import cluster, errors, run_drill

        homes = {"ClusterError": errors, "run_drill": run_drill}
        return getattr(homes.get(name, cluster), name)

    def __dir__() -> list[str]:
        """Return the public names, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
