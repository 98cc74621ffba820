"""Controller election, failover and resignation, and the handlers for changes to /controller.

A failover sends requests in Kafka's order, which brokers can observe: first UpdateMetadata with the
live brokers, then the requests of the replica state machine, and then those of the partition state
machine. Mirrors processStartup, processControllerChange, processReelect, elect,
onControllerFailover, onControllerResignation, maybeResign and triggerControllerMove of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.cluster.errors import ControllerMoved, SessionExpired
from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_CONTROLLER
from klamm.controller import loader
from klamm.controller.events import (
    AutoPreferredReplicaLeaderElection,
    ControllerChange,
    Reelect,
    RequestTimeout,
    Startup,
)
from klamm.controller.on_leader_election import resume_preferred_replica_elections
from klamm.controller.on_notifications import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    delete_notifications,
    list_notifications,
)
from klamm.controller.on_reassignment import initialize_partition_reassignments
from klamm.controller.topic_deletion_manager import load_topic_deletions
from klamm.zk.kafka_zk_client import decode_at
from klamm.zk.store import Create, ResultCode, SetData
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import ControllerZNode, FeatureZNode, FeatureZNodeStatus, MalformedZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

FIRST_REBALANCE_MS: Final = 5_000


def process_startup(controller: KafkaController, _: Startup) -> None:
    """Handle the start of the process: watch /controller, and try to be elected controller."""
    elect_controller(controller, takes_over=controller.config.takes_over)


def process_controller_change(controller: KafkaController, _: ControllerChange) -> None:
    """Handle the creation or change of /controller: resign if it names another broker.

    If /controller was deleted before this broker set the watch, no further event follows, so this
    broker tries to be elected. Kafka 2.8.2 does not try, which can leave the cluster without a
    controller.
    """
    maybe_resign(controller)
    if controller.active_controller_id == NO_CONTROLLER:
        elect_controller(controller)


def process_reelect(controller: KafkaController, _: Reelect) -> None:
    """Handle the deletion of /controller: resign if active, and then try to be elected."""
    maybe_resign(controller)
    elect_controller(controller)


def elect_controller(controller: KafkaController, *, takes_over: bool = False) -> None:
    """Try to create /controller and, if that succeeds, become the active controller.

    Do nothing if another broker is the controller, unless ``takes_over``. During the pause after a
    failed failover, the attempt is postponed. During a hold (see candidacy.py), no broker is
    elected, and the active controller resigns.
    """
    log, broker_id = controller.log, controller.config.broker_id
    read_controller_id(controller)
    if controller.candidacy.hold is not None:
        if controller.is_active:
            log.warn(f"Forcing the controller to resign: {controller.candidacy.hold}")
            trigger_controller_move(controller)
        return
    if controller.active_controller_id != NO_CONTROLLER and not takes_over:
        log.debug(
            f"Broker {controller.active_controller_id} has been elected as the controller, "
            "so stopping the election process."
        )
        return
    pause_ms = controller.candidacy.pause_ms()
    if pause_ms > 0:
        controller.events.cancel(lambda event: isinstance(event, Reelect))
        controller.events.schedule(Reelect(), pause_ms)
        return
    try:
        _register(controller, takes_over=takes_over)
        fail_over(controller)
    except ControllerMoved as moved:
        maybe_resign(controller)
        if controller.active_controller_id != NO_CONTROLLER:
            log.debug(
                f"Broker {controller.active_controller_id} was elected as controller instead of "
                f"broker {broker_id}"
            )
        else:
            log.warn(
                "A controller has been elected but just resigned, this will result in another "
                f"round of election: {moved}"
            )
    except Exception as error:
        log.error(
            f"Error while electing or becoming controller on broker {broker_id}. "
            "Trigger controller movement immediately",
            error=error,
        )
        failure = f"{type(error).__name__}: {error}"
        controller.recorder.occurrence(Kind.EVENT_FAILED, detail="failover", outcome=failure)
        # After a session expiry the new session starts an election anyway: not a failed failover.
        if not isinstance(error, SessionExpired):
            controller.candidacy.failover_failed(failure)
        trigger_controller_move(controller)


def _register(controller: KafkaController, *, takes_over: bool) -> None:
    context, broker_id = controller.context, controller.config.broker_id
    epoch, epoch_zk_version = controller.controller_zk.register_controller_and_increment_epoch(
        broker_id, controller.clock.now_ms(), replaces_controller=takes_over
    )
    # Brokers reject requests with an older controller epoch, so a controller without a higher epoch
    # could not control the brokers.
    assert epoch > context.epoch, (
        f"the new controller epoch {epoch} is not higher than the previous epoch {context.epoch}"
    )
    context.epoch, context.epoch_zk_version = epoch, epoch_zk_version
    controller.active_controller_id = broker_id
    controller.is_elected = True
    controller.log.epoch = epoch
    controller.recorder.begin_epoch(epoch)
    controller.recorder.occurrence(Kind.CONTROLLER_ELECTED)
    controller.log.info(
        f"{broker_id} successfully elected as the controller. Epoch incremented to {epoch} "
        f"and epoch zk version is now {epoch_zk_version}"
    )


def fail_over(controller: KafkaController) -> None:
    """Load the cluster state from ZooKeeper, start the state machines, and resume pending work.

    Pending work consists of the reassignments, topic deletions and preferred leader elections that
    the previous controller did not finish.
    """
    context, log = controller.context, controller.log
    # Otherwise the state of an earlier term would be mixed with the state that is loaded now.
    assert not context.assignments and not context.leaderships, (
        "the context of an earlier term was not reset"
    )
    set_up_feature_versioning(controller)
    log.info("Registering handlers")
    controller.watches.activate()
    log.info("Deleting log dir event notifications")
    delete_notifications(controller, LOG_DIR_EVENTS, list_notifications(controller, LOG_DIR_EVENTS))
    log.info("Deleting isr change notifications")
    delete_notifications(controller, ISR_CHANGES, list_notifications(controller, ISR_CHANGES))
    log.info("Initializing controller context")
    loader.initialize_controller_context(controller)
    load_topic_deletions(controller)
    # Brokers must know the live brokers before they can process a LeaderAndIsr request.
    log.info("Sending update metadata request")
    controller.send_update_metadata_request(context.live_or_shutting_down_broker_ids, ())
    controller.replica_state_machine.startup()
    controller.partition_state_machine.startup()
    log.info(f"Ready to serve as the new controller with epoch {context.epoch}")
    initialize_partition_reassignments(controller)
    controller.topic_deletion_manager.try_topic_deletion()
    resume_preferred_replica_elections(controller)
    log.info("Starting the controller scheduler")
    if controller.config.auto_leader_rebalance_enable:
        controller.events.schedule(AutoPreferredReplicaLeaderElection(), FIRST_REBALANCE_MS)
    controller.recorder.occurrence(Kind.CONTROLLER_READY)
    controller.candidacy.failover_succeeded()


def set_up_feature_versioning(controller: KafkaController) -> None:
    """Mark the /feature znode as enabled, or as disabled if the inter-broker protocol is < 2.7."""
    is_enabled = controller.config.is_feature_versioning_supported
    found = controller.zk.get_data_and_stat(FeatureZNode.path)
    wanted = FeatureZNode(
        FeatureZNodeStatus.ENABLED if is_enabled else FeatureZNodeStatus.DISABLED, {}
    )
    op: Create | SetData = Create(FeatureZNode.path, wanted.encode())
    if found is not None:
        try:
            existing = FeatureZNode.decode(found[0])
        except MalformedZNode as error:
            if controller.quirks.malformed_znode_fails_the_event:
                raise
            controller.quarantine_malformed([error.at(FeatureZNode.path)])
            return
        if existing.status is FeatureZNodeStatus.DISABLED and existing.features:
            controller.log.warn(
                f"FeatureZNode at path: {FeatureZNode.path} with disabled status contains "
                f"non-empty features: {_features_text(existing)}"
            )
        if existing == wanted or (is_enabled and existing.status is wanted.status):
            return
        op = SetData(FeatureZNode.path, wanted.encode())
    controller.log.info(
        f"{'Creating' if found is None else 'Updating'} FeatureZNode at path: {FeatureZNode.path} "
        f"with contents: FeatureZNode({'Enabled' if is_enabled else 'Disabled'},Features{{}})"
    )
    result = controller.controller_zk.fenced_write([op], controller.context.epoch_zk_version)[0]
    # NODEEXISTS or a lost reply: the creation may have succeeded, and the content is the same.
    if result.code not in (ResultCode.OK, ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS):
        raise store_error(result.code, FeatureZNode.path)


def _features_text(node: FeatureZNode) -> str:
    features = ", ".join(
        f"({name} -> FinalizedVersionRange[min_version_level:{levels.min}, "
        f"max_version_level:{levels.max}])"
        for name, levels in node.features.items()
    )
    return f"Features{{{features}}}"


def read_controller_id(controller: KafkaController) -> None:
    """Set ``active_controller_id`` from the /controller znode, and watch the znode.

    If this session still owns /controller although this broker has resigned (KAFKA-13461), delete
    the znode so that an election can follow.
    """
    found = controller.zk.get_data_and_stat(ControllerZNode.path, watch=True)
    if found is None:
        controller.active_controller_id = NO_CONTROLLER
        return
    data, stat = found
    broker_id = decode_at(ControllerZNode.path, ControllerZNode.decode, data)
    controller.active_controller_id = NO_CONTROLLER if broker_id is None else broker_id
    is_orphan = (
        broker_id == controller.config.broker_id
        and not controller.is_elected
        and stat.ephemeral_owner == controller.store.session_id
    )
    if is_orphan and not controller.quirks.kafka_13461:
        controller.zk.delete(ControllerZNode.path, stat.version)
        read_controller_id(controller)


def maybe_resign(controller: KafkaController) -> None:
    """Read /controller, and resign if this broker is no longer the controller."""
    was_active = controller.is_active
    read_controller_id(controller)
    if was_active and not controller.is_active:
        resign(controller)


def resign(controller: KafkaController) -> None:
    """Reset the context, watches and channels of this controller, without writing to ZooKeeper."""
    log = controller.log
    log.debug("Resigning")
    controller.watches.clear()
    controller.events.cancel(
        lambda event: isinstance(event, RequestTimeout | AutoPreferredReplicaLeaderElection)
    )
    controller.partition_state_machine.shutdown()
    controller.replica_state_machine.shutdown()
    controller.channels.shutdown()
    controller.context.reset_context()
    controller.reassignments.shutdown()
    controller.malformed.clear()
    controller.topic_deletion_manager.reset()
    controller.recorder.occurrence(Kind.CONTROLLER_RESIGNED)
    controller.recorder.end_epoch()
    controller.is_elected = False
    log.info("Resigned")


def trigger_controller_move(controller: KafkaController) -> None:
    """Resign and delete /controller, so that another election follows."""
    read_controller_id(controller)
    moved = "Controller has already moved when trying to trigger controller movement"
    if not controller.is_active:
        controller.log.warn(moved)
        return
    epoch_zk_version = controller.context.epoch_zk_version
    controller.active_controller_id = NO_CONTROLLER
    resign(controller)
    try:
        controller.controller_zk.delete_controller(epoch_zk_version)
    except ControllerMoved:
        controller.log.warn(moved)
