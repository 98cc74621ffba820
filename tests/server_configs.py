"""Configurations of `klamm up`, by the names of its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from klamm.server.config import ServerConfig, described_cluster
from klamm.server.dumped_cluster import DumpedCluster
from klamm.world.cluster_spec import BROKERS_FOLDER, ClusterSpec

_OF_CLUSTERS = frozenset(field.name for field in fields(ClusterSpec))


def server_config(
    brokers: int | None = None,
    *,
    racks: Sequence[str] = (),
    controllers: int | None = None,
    dump: DumpedCluster | None = None,
    segments: bool = False,
    **options: Any,
) -> ServerConfig:
    """The configuration that these options make; the others are fields of cluster and server."""
    cluster = replace(
        described_cluster(brokers, racks, controllers, dump),
        segments=BROKERS_FOLDER if segments else None,
        **{name: value for name, value in options.items() if name in _OF_CLUSTERS},
    )
    own = {name: value for name, value in options.items() if name not in _OF_CLUSTERS}
    return ServerConfig(cluster=cluster, dump=dump, **own)
