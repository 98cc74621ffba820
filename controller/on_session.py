"""Handlers for the expiry of the ZooKeeper session, the start of a new session, and shutdown.

When the session expires, all queued events are dropped, and queued requests get an error response.
Nothing can be written to ZooKeeper until a new session starts. Mirrors the StateChangeHandler of
kafka/controller/KafkaController.scala, processExpire and processRegisterBrokerAndReelect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.cluster.types import NO_CONTROLLER
from klamm.controller.controller_election import (
    elect_controller,
    maybe_resign,
    resign,
)
from klamm.controller.events import Expire, RegisterBrokerAndReelect, ShutdownEventThread
from klamm.zk.store import SessionEvent, SessionState
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import BrokerInfo

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

REGISTRATION_RETRY_MS: Final = 1_000


def on_session_event(controller: KafkaController, event: SessionEvent) -> None:
    """Enqueue the event for a session state change. Called from the ZooKeeper client's thread.

    With the quirk KAFKA-13461, an authentication failure is treated as an expiry: as in Kafka
    2.8.2, the controller resigns although its live session still owns /controller.
    """
    if event.state is SessionState.EXPIRED:
        controller.events.clear_and_put(Expire())
    elif event.state is SessionState.AUTH_FAILED and controller.quirks.kafka_13461:
        controller.events.clear_and_put(Expire(reopen=False))


def process_expire(controller: KafkaController, event: Expire) -> None:
    """Resign as controller, and open a new ZooKeeper session."""
    controller.active_controller_id = NO_CONTROLLER
    # The registration of the old session may still exist when the new session registers the broker.
    controller.zk.registered_by_session = controller.store.session_id
    resign(controller)
    if event.reopen:
        controller.store.reopen()
    controller.events.put_caused(RegisterBrokerAndReelect())


def process_register_broker_and_reelect(
    controller: KafkaController, _: RegisterBrokerAndReelect
) -> None:
    """Register the broker in the new session, then try to be elected."""
    try:
        info = BrokerInfo(controller.broker_info)
        broker_epoch = controller.zk.register_broker(info, controller.clock.now_ms())
    except NodeExists:
        # The session that owns the broker id may expire later. Without a retry this broker would
        # stay unregistered.
        controller.events.schedule(RegisterBrokerAndReelect(), REGISTRATION_RETRY_MS)
        raise
    if controller.on_registered is not None:
        controller.on_registered(broker_epoch)
    maybe_resign(controller)
    elect_controller(controller)


def process_shutdown(controller: KafkaController, _: ShutdownEventThread) -> None:
    """Resign without deleting /controller, which ZooKeeper deletes when the session ends.

    As in Kafka, a controller that is not active resigns, too.
    """
    if controller.is_active:
        controller.active_controller_id = NO_CONTROLLER
    resign(controller)
    controller.is_shut_down = True
