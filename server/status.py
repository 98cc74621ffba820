"""`klamm status` as plain values: controller, pending work, brokers, faults, malformed znodes."""

from __future__ import annotations

from typing import Any

from klamm.cluster.errors import StoreError, ZooKeeperUnavailable
from klamm.runtime.real.cluster import RealCluster
from klamm.server.broker_operations import BrokerOperations
from klamm.server.zookeeper import connected_store
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionState
from klamm.zk.znodes import ControllerEpochZNode, ControllerZNode, MalformedZNode

_NOTHING_KNOWN = dict.fromkeys(("partitions", "leaders", "under_replicated", "offline"), 0)


def cluster_status(cluster: RealCluster, operations: BrokerOperations) -> dict[str, Any]:
    """Return the state of the cluster.

    ``controller``: None if no controller is elected; then ``malformed`` of ``zookeeper`` lists the
    znodes that prevent an election. ``live`` of a broker: the controller's view; None without a
    controller. ``reason``: the error of a failed broker. ``is_stale`` of ``zookeeper``: ZooKeeper
    is unreachable, so controller, live brokers, leaders and ISRs are the last known ones, and
    another controller may have been elected. ``failovers``: the number that ``failed`` since the
    last successful one, and the remaining pause of the candidates.
    """
    # Not for an expired session: a server reported the expiry, so ZooKeeper is reachable.
    is_stale = cluster.session_state is SessionState.DISCONNECTED
    status = cluster.status()
    active = status["active_controller"]
    controllers = {c["controller_id"]: c for c in status["controllers"]}
    controller = controllers.get(active)
    known = {broker["id"]: broker for broker in status["brokers"]}
    believed, failure = None, cluster.journal.failure
    if controller is not None and not is_stale:
        believed = {int(id_) for id_ in controller["live_brokers"]}
    return {
        "cluster_id": cluster.spec.cluster_id,
        "run_id": cluster.spec.run_id,
        "session_timeout_ms": cluster.spec.session_timeout_ms,
        "zookeeper": {
            "connect": cluster.connect_string,
            "state": cluster.session_state.name,
            "is_stale": is_stale,
            "malformed": {} if controller is not None else _malformed_election_znodes(cluster),
        },
        "controller": controller,
        "journal": {
            "is_writable": failure is None,
            "failure": None if failure is None else failure.message,
            "failed_for_ms": round(cluster.journal.failed_for_ms),
        },
        "failovers": {
            "failed": cluster.candidacy.failed_failovers,
            "failure": cluster.candidacy.failure,
            "pause_ms": round(cluster.candidacy.pause_ms()),
        },
        "other_active_controllers": [
            {"id": id_, "epoch": other["epoch"]}
            for id_, other in controllers.items()
            if other["is_active"] and id_ != active
        ],
        "brokers": [
            {
                "id": broker_id,
                "rack": cluster.spec.racks.get(broker_id),
                "state": operations.state_of(broker_id),
                "reason": operations.reason_of(broker_id),
                "live": None if believed is None else broker_id in believed,
                "is_candidate": cluster.spec.is_candidate(broker_id),
                "is_controller": broker_id == active,
                "broker_epoch": known.get(broker_id, {}).get("broker_epoch"),
                **{name: known.get(broker_id, _NOTHING_KNOWN)[name] for name in _NOTHING_KNOWN},
            }
            for broker_id in sorted(cluster.spec.broker_ids)
        ],
        "isolated_brokers": cluster.isolated_broker_ids,
        "disk_faults": cluster.disks.describe(),
        "malformed_configs": _malformed_configs(status["brokers"]),
        "errors": cluster.errors,
    }


def _malformed_configs(brokers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the malformed configs and change notifications: reason and brokers, by path."""
    found: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        for path, reason in broker["malformed"].items():
            one = found.setdefault(path, {"reason": reason, "brokers": []})
            one["brokers"].append(broker["id"])
    return found


def _malformed_election_znodes(cluster: RealCluster) -> dict[str, str]:
    """Return the malformed znodes of the controller election, with reasons.

    Empty while ZooKeeper is unreachable.
    """
    malformed: dict[str, str] = {}
    try:
        client = KafkaZkClient(connected_store(cluster))
        for path, read in (
            (ControllerEpochZNode.path, client.get_controller_epoch),
            (ControllerZNode.path, client.get_controller_id),
        ):
            try:
                read()
            except MalformedZNode as error:
                malformed[path] = error.reason
    except (ZooKeeperUnavailable, StoreError):
        pass
    return malformed
