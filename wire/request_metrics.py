"""Metrics of listeners per API: requests, their time, errors. Mirrors kafka.network.RequestChannel.

Kafka's names; a Summary has the number of requests and the sum of their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client import Counter, Gauge, Summary
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from klamm.cluster.api_errors import Errors

MALFORMED: Final = "MALFORMED"
"""In place of an error: the request cost its connection."""
_METRICS: Final = "kafka_network_RequestMetrics"


class RequestMetrics(Collector):
    """Metrics of all listeners of a cluster."""

    def __init__(self) -> None:
        labels = ["broker", "request"]
        self._times = Summary(
            f"{_METRICS}_TotalTimeMs",
            "Time from a request to its response, in milliseconds",
            labels,
            registry=None,
        )
        self._errors = Counter(
            f"{_METRICS}_Errors",
            "Errors in responses, and requests that cost their connection",
            [*labels, "error"],
            registry=None,
        )
        self.failed_authentications = Counter(
            "kafka_server_socket_server_metrics_failed_authentication",
            "Connections that ended in the TLS handshake or in the authentication with SASL",
            ["broker"],
            registry=None,
        )
        self.connections = Gauge(
            "kafka_server_socket_server_metrics_connection_count",
            "Connections of clients",
            ["broker"],
            registry=None,
        )

    def observe(self, broker_id: int, api: str, time_ms: float) -> None:
        """Count a request that has been answered."""
        self._times.labels(broker_id, api).observe(time_ms)

    def count_errors(self, broker_id: int, api: str, values: object) -> None:
        """Count the errors in the values of a response."""
        for error in _errors(values):
            self.count_error(broker_id, api, error.name)

    def count_error(self, broker_id: int, api: str, error: str) -> None:
        """Count one error."""
        self._errors.labels(broker_id, api, error).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        for one in (self._times, self._errors, self.failed_authentications, self.connections):
            yield from one.collect()


def _errors(values: Any) -> Iterator[Errors]:
    if isinstance(values, Mapping):
        for value in values.values():
            if isinstance(value, Errors):
                if value:
                    yield value
            elif isinstance(value, Mapping | list | tuple):
                yield from _errors(value)
    elif values and isinstance(values[0], Mapping | list | tuple):
        for value in values:
            yield from _errors(value)
