"""/metrics: metrics of controllers and brokers under Kafka's names, in Prometheus text format.

The values are read from the running nodes for every scrape. controller/metrics.py has the
controllers' metrics; the metrics of a broker mirror kafka/server/ReplicaManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from klamm.brokers.status import broker_counts
from klamm.controller.metrics import ControllerCollector
from klamm.world.real.cluster import RealCluster

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_REPLICA_MANAGER: Final = "kafka_server_ReplicaManager"
_GAUGES: Final = {
    "PartitionCount": ("partitions", "Partitions with a replica on the broker"),
    "LeaderCount": ("leaders", "Partitions that the broker leads"),
    "UnderReplicatedPartitions": (
        "under_replicated",
        "Partitions that the broker leads and whose ISR lacks a replica",
    ),
    "OfflineReplicaCount": ("offline", "Replicas in failed log directories"),
}


class ClusterCollector(Collector):
    """Gauges for the brokers, and for problems that prevent the election of a controller."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """Yield a metric family for each gauge: Kafka's gauges, then klamm's own gauges."""
        nodes = sorted(tuple(self._cluster.nodes.items()))
        with self._cluster.broker_thread_paused():
            counts = {id_: broker_counts(running.node.broker) for id_, running in nodes}
        for name, (field, text) in _GAUGES.items():
            family = GaugeMetricFamily(f"{_REPLICA_MANAGER}_{name}", text, labels=["broker"])
            for broker_id, of_broker in counts.items():
                family.add_metric([str(broker_id)], getattr(of_broker, field))
            yield family
        yield GaugeMetricFamily(
            "klamm_journal_writable",
            "1 if the journal and the logs can be written, else 0 (no controller is then elected)",
            value=float(self._cluster.guard.failure is None),
        )
        yield GaugeMetricFamily(
            "klamm_failed_failovers",
            "Controller failovers that have failed since the last successful one",
            value=self._cluster.candidacy.failed_failovers,
        )


def metrics_text(cluster: RealCluster, *others: Collector) -> bytes:
    """Return the metrics of controllers, brokers and ``others`` in the Prometheus text format."""
    controllers = ControllerCollector()
    for broker_id, running in sorted(dict(cluster.nodes).items()):
        controller = running.node.controller
        if controller is not None:
            controllers.add(broker_id, controller.metrics)
    registry = CollectorRegistry()
    for collector in (controllers, ClusterCollector(cluster), *others):
        registry.register(collector)
    return generate_latest(registry)
