"""The controller's metrics under Kafka's names: plain values, and their Prometheus text.

Reading a metric never touches the controller context: gauges are copied once an event ends, so
that any thread may read them. Mirrors the gauges of kafka/controller/KafkaController.scala,
ControllerStats, ControllerEventManager.scala and ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from controller.channel_manager import ChannelManager
from controller.event_manager import EventManager
from controller.timer import Timer
from statemachines.context import ControllerContext
from statemachines.topic_deletion import DeletionCounts

CONTROLLER = "kafka_controller_KafkaController"
STATS = "kafka_controller_ControllerStats"
EVENTS = "kafka_controller_ControllerEventManager"
CHANNELS = "kafka_controller_ControllerChannelManager"


class ControllerMetrics:
    """The metrics of one controller; gauges are as they were when the last event ended."""

    def __init__(self, events: EventManager, channels: ChannelManager) -> None:
        self.active_controller_count = 0
        self.offline_partitions_count = 0
        self.preferred_replica_imbalance_count = 0
        self.global_topic_count = 0
        self.global_partition_count = 0
        self.topic_deletions = DeletionCounts()
        self.unclean_leader_elections = 0
        self._events = events
        self._channels = channels

    def update(self, context: ControllerContext, is_active: bool) -> None:
        """Copy the gauges from the context; all are 0 if the controller is not active."""
        self.active_controller_count = int(is_active)
        self.offline_partitions_count = context.offline_partition_count if is_active else 0
        self.preferred_replica_imbalance_count = (
            context.preferred_replica_imbalance_count if is_active else 0
        )
        self.global_topic_count = len(context.all_topics) if is_active else 0
        self.global_partition_count = len(context.leaderships) if is_active else 0

    def gauges(self) -> dict[str, int]:
        """{name under KafkaController: value}."""
        return {
            "ActiveControllerCount": self.active_controller_count,
            "OfflinePartitionsCount": self.offline_partitions_count,
            "PreferredReplicaImbalanceCount": self.preferred_replica_imbalance_count,
            "ControllerState": self._events.state.number,
            "GlobalTopicCount": self.global_topic_count,
            "GlobalPartitionCount": self.global_partition_count,
            "TopicsToDeleteCount": self.topic_deletions.topics,
            "ReplicasToDeleteCount": self.topic_deletions.replicas,
            "TopicsIneligibleToDeleteCount": self.topic_deletions.ineligible_topics,
            "ReplicasIneligibleToDeleteCount": self.topic_deletions.ineligible_replicas,
        }

    def rate_and_time(self) -> dict[str, Timer]:
        """{name under ControllerStats: timer}."""
        return self._events.rate_and_time

    def event_queue(self) -> tuple[int, Timer]:
        """Events that wait, and the time events have waited."""
        return self._events.event_queue_size, self._events.event_queue_time_ms

    def channels(self) -> dict[int, tuple[int, Timer]]:
        """{broker id: requests that wait, and the time requests have waited}."""
        return self._channels.queue_sizes()


class ControllerCollector(Collector):
    """Renders the metrics of the controllers of one process; each has the label ``controller``."""

    def __init__(self) -> None:
        self._controllers: dict[int, ControllerMetrics] = {}

    def add(self, controller_id: int, metrics: ControllerMetrics) -> None:
        """Show a controller; one with the same id is replaced."""
        self._controllers[controller_id] = metrics

    def remove(self, controller_id: int) -> None:
        """Show a controller no more."""
        self._controllers.pop(controller_id, None)

    def collect(self) -> Iterator[Metric]:
        """One family per Kafka name."""
        controllers = [(str(id_), m) for id_, m in sorted(self._controllers.items())]
        yield from self._collect_gauges(controllers)
        yield from self._collect_timers(controllers)
        yield from self._collect_channels(controllers)

    def _collect_gauges(self, controllers: Controllers) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for label, metrics in controllers:
            for name, value in metrics.gauges().items():
                family = families.get(name)
                if family is None:
                    family = families[name] = GaugeMetricFamily(
                        f"{CONTROLLER}_{name}", f"Kafka's {name}", labels=["controller"]
                    )
                family.add_metric([label], value)
        yield from families.values()

    def _collect_timers(self, controllers: Controllers) -> Iterator[Metric]:
        families: dict[str, SummaryMetricFamily] = {}
        unclean = CounterMetricFamily(
            f"{STATS}_UncleanLeaderElectionsPerSec",
            "Unclean leader elections",
            labels=["controller"],
        )
        queue_size = GaugeMetricFamily(
            f"{EVENTS}_EventQueueSize", "Events that wait", labels=["controller"]
        )
        queue_time = SummaryMetricFamily(
            f"{EVENTS}_EventQueueTimeMs", "Time events waited", labels=["controller"]
        )
        for label, metrics in controllers:
            for name, timer in metrics.rate_and_time().items():
                family = families.get(name)
                if family is None:
                    family = families[name] = SummaryMetricFamily(
                        f"{STATS}_{name}", f"Kafka's {name}", labels=["controller"]
                    )
                family.add_metric([label], timer.count, timer.sum_ms)
            unclean.add_metric([label], metrics.unclean_leader_elections)
            size, waited = metrics.event_queue()
            queue_size.add_metric([label], size)
            queue_time.add_metric([label], waited.count, waited.sum_ms)
        yield from families.values()
        yield from (unclean, queue_size, queue_time)

    def _collect_channels(self, controllers: Controllers) -> Iterator[Metric]:
        labels = ["controller", "broker_id"]
        total = GaugeMetricFamily(
            f"{CHANNELS}_TotalQueueSize", "Control requests that wait", labels=["controller"]
        )
        size = GaugeMetricFamily(
            f"{CHANNELS}_QueueSize", "Control requests that wait for a broker", labels=labels
        )
        time = SummaryMetricFamily(
            f"{CHANNELS}_RequestRateAndQueueTimeMs", "Time control requests waited", labels=labels
        )
        for label, metrics in controllers:
            channels = metrics.channels()
            total.add_metric([label], sum(waiting for waiting, _ in channels.values()))
            for broker_id, (waiting, timer) in sorted(channels.items()):
                size.add_metric([label, str(broker_id)], waiting)
                time.add_metric([label, str(broker_id)], timer.count, timer.sum_ms)
        yield from (total, size, time)


Controllers = Iterable[tuple[str, ControllerMetrics]]
