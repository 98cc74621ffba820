"""Controller metrics with Kafka's names, and a Prometheus collector that exports them.

Gauges are copied from the controller context after each event, so that any thread may read them
without accessing the context. Mirrors the gauges of kafka/controller/KafkaController.scala,
ControllerStats, ControllerEventManager.scala and ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from klamm.controller.channel_manager import ChannelManager
from klamm.controller.event_manager import EventManager
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.topic_deletion import DeletionCounts

CONTROLLER = "kafka_controller_KafkaController"
STATS = "kafka_controller_ControllerStats"
EVENTS = "kafka_controller_ControllerEventManager"
CHANNELS = "kafka_controller_ControllerChannelManager"
_LABELS: Final = ("controller",)
_BROKER: Final = ("controller", "broker_id")


class _Counts(NamedTuple):
    active_controller: int = 0
    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0
    global_topics: int = 0
    global_partitions: int = 0


_NO_COUNTS: Final = _Counts()


class ControllerMetrics:
    """Metrics of one controller. Gauges are updated after each event."""

    def __init__(self, events: EventManager, channels: ChannelManager) -> None:
        self.events = events
        self.channels = channels
        self.topic_deletions = DeletionCounts()
        self.unclean_leader_elections = 0
        self._counts = _NO_COUNTS

    def update(self, context: ControllerContext, is_active: bool) -> None:
        """Copy gauge values from the context, or set them to 0 if the controller is not active."""
        self._counts = _NO_COUNTS
        if is_active:
            self._counts = _Counts(
                active_controller=1,
                offline_partitions=context.offline_partition_count,
                preferred_replica_imbalance=context.preferred_replica_imbalance_count,
                global_topics=len(context.all_topics),
                global_partitions=len(context.leaderships),
            )

    def gauges(self) -> dict[str, int]:
        """Return {name: value} for the gauges in kafka.controller:type=KafkaController."""
        return {
            "ActiveControllerCount": self._counts.active_controller,
            "OfflinePartitionsCount": self._counts.offline_partitions,
            "PreferredReplicaImbalanceCount": self._counts.preferred_replica_imbalance,
            "ControllerState": self.events.state.number,
            "GlobalTopicCount": self._counts.global_topics,
            "GlobalPartitionCount": self._counts.global_partitions,
            "TopicsToDeleteCount": self.topic_deletions.topics,
            "ReplicasToDeleteCount": self.topic_deletions.replicas,
            "TopicsIneligibleToDeleteCount": self.topic_deletions.ineligible_topics,
            "ReplicasIneligibleToDeleteCount": self.topic_deletions.ineligible_replicas,
        }


class ControllerCollector(Collector):
    """Prometheus collector for all controllers of a process.

    The label ``controller`` is the broker id.
    """

    def __init__(self) -> None:
        self._controllers: dict[int, ControllerMetrics] = {}

    def add(self, controller_id: int, metrics: ControllerMetrics) -> None:
        """Export a controller's metrics instead of any exported before for the same broker id."""
        self._controllers[controller_id] = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield one Prometheus metric family per Kafka metric, with one value per controller."""
        gauges: dict[str, GaugeMetricFamily] = {}
        timers: dict[str, SummaryMetricFamily] = {}
        unclean = CounterMetricFamily(
            f"{STATS}_UncleanLeaderElectionsPerSec", "Unclean leader elections", labels=_LABELS
        )
        events = _gauge(EVENTS, "EventQueueSize", "Events in the queue")
        event_time = _summary(EVENTS, "EventQueueTimeMs", "Time events spend queued, in ms")
        total = _gauge(CHANNELS, "TotalQueueSize", "Queued control requests")
        size = _gauge(CHANNELS, "QueueSize", "Queued control requests per broker", _BROKER)
        time = _summary(
            CHANNELS, "RequestRateAndQueueTimeMs", "Time requests spend queued, in ms", _BROKER
        )
        for controller_id, metrics in sorted(self._controllers.items()):
            label = [str(controller_id)]
            for name, value in metrics.gauges().items():
                if name not in gauges:
                    gauges[name] = _gauge(CONTROLLER, name, f"Kafka's {name}")
                gauges[name].add_metric(label, value)
            for name, timer in metrics.events.rate_and_time.items():
                if name not in timers:
                    timers[name] = _summary(STATS, name, f"Kafka's {name}")
                timers[name].add_metric(label, timer.count, timer.sum_ms)
            unclean.add_metric(label, metrics.unclean_leader_elections)
            events.add_metric(label, metrics.events.event_queue_size)
            waited = metrics.events.event_queue_time_ms
            event_time.add_metric(label, waited.count, waited.sum_ms)
            channels = metrics.channels.queue_sizes()
            total.add_metric(label, sum(waiting for waiting, _ in channels.values()))
            for broker_id, (waiting, waited) in sorted(channels.items()):
                size.add_metric([*label, str(broker_id)], waiting)
                time.add_metric([*label, str(broker_id)], waited.count, waited.sum_ms)
        yield from (*gauges.values(), *timers.values(), unclean, events, event_time)
        yield from (total, size, time)


def _gauge(group: str, name: str, text: str, labels: Sequence[str] = _LABELS) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{group}_{name}", text, labels=labels)


def _summary(
    group: str, name: str, text: str, labels: Sequence[str] = _LABELS
) -> SummaryMetricFamily:
    return SummaryMetricFamily(f"{group}_{name}", text, labels=labels)
