"""Controlled shutdown: before a broker stops, the controller moves leadership to other brokers.

After ``controlled.shutdown.max.retries`` failed attempts, the broker stops anyway. Mirrors
controlledShutdown of kafka.server.KafkaServer.
"""

from __future__ import annotations

from collections.abc import Callable

from klamm.brokers.config import BrokerConfig
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.protocols import SendRequest
from klamm.cluster.requests import Address, ControlledShutdownRequest, ControlledShutdownResponse
from klamm.cluster.types import TopicPartition


class ControlledShutdownRequests:
    """A broker's requests for a controlled shutdown, with retries.

    - ``find_controller``: returns the broker id of the current controller, or None if there is no
      controller or its broker is not registered.
    - ``is_enabled``: if False, no request is sent.
    - ``is_over``: True once the broker may stop.
    - ``succeeded``: True once the broker leads no partition.
    - ``remaining``: partitions whose leadership the controller could not move.
    - ``error``: the error in the controller's last response.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        find_controller: Callable[[], int | None],
        send: SendRequest,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._find_controller = find_controller
        self._send = send
        self._attempts_left = config.controlled_shutdown_max_retries
        self._in_flight: int | None = None
        self._due_ms: float | None = None
        self.is_enabled = config.controlled_shutdown_enable and self._attempts_left > 0
        self.is_over = not self.is_enabled
        self.succeeded = False
        self.error = Errors.NONE
        self.remaining: tuple[TopicPartition, ...] = ()

    @property
    def timeout_ms(self) -> float:
        """Maximum duration of all attempts together, in milliseconds."""
        config = self._config
        attempt_ms = config.request_timeout_ms + config.controlled_shutdown_retry_backoff_ms
        return (config.controlled_shutdown_max_retries + 1) * attempt_ms

    def attempt(self, broker_epoch: int, now_ms: float) -> None:
        """Send a ControlledShutdown request to the current controller.

        If there is no controller, the attempt fails.
        """
        if self.is_over:
            return
        self._attempts_left -= 1
        try:
            controller_id = self._find_controller()
        except KlammError:
            controller_id = None
        if controller_id is None:
            self._back_off(now_ms)
            return
        request = ControlledShutdownRequest(self._broker_id, broker_epoch)
        self._due_ms = now_ms + self._config.request_timeout_ms
        self._in_flight = self._send(Address("controller", controller_id), request)

    def on_response(
        self, correlation_id: int, response: ControlledShutdownResponse, now_ms: float
    ) -> None:
        """Process the controller's response. Responses to earlier requests are ignored."""
        if correlation_id != self._in_flight:
            return
        self.error, self.remaining = response.error, response.remaining_partitions
        if response.error is Errors.NONE and not response.remaining_partitions:
            self.succeeded = self.is_over = True
            self._in_flight = self._due_ms = None
        else:
            self._back_off(now_ms)

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds, or None if never."""
        return self._due_ms

    def on_timer(self, broker_epoch: int, now_ms: float) -> None:
        """Retry, time out the request in flight, or give up, whichever is due."""
        if self._due_ms is None or now_ms < self._due_ms:
            return
        if self._in_flight is not None:
            self._back_off(now_ms)
        elif self._attempts_left:
            self.attempt(broker_epoch, now_ms)
        else:
            self.is_over, self._due_ms = True, None

    def _back_off(self, now_ms: float) -> None:
        self._in_flight = None
        self._due_ms = now_ms + self._config.controlled_shutdown_retry_backoff_ms
