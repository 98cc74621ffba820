"""The session expires, the login fails, the broker id is taken: who is registered, who decides."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import AlterIsrRequest, AlterIsrResponse
from klamm.cluster.types import NO_CONTROLLER, LeaderAndIsr
from klamm.controller.events import Expire
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import Create, GetData
from klamm.zk.znodes import BrokerInfo, ControllerZNode
from tests.unit.controller.cluster import Cluster, broker_info

ALL = (0, 1, 2)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().start(*ALL, candidates=ALL)


def test_an_expired_controller_registers_again_and_stands_for_election(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1, 2))
    old = cluster.active
    epoch = cluster.active.context.live_broker_epochs[0]
    registered: list[int] = []
    old.on_registered = registered.append
    cluster.paused.add(0)
    cluster.expire(0)
    cluster.run()
    assert cluster.active_among(1)
    cluster.resume()
    assert not old.is_active
    assert old.active_controller_id == 1
    assert cluster.admin.get_sorted_broker_list() == [0, 1, 2]
    assert registered == [cluster.active.context.live_broker_epochs[0]]
    assert registered[0] > epoch
    assert cluster.state(tp) == LeaderAndIsr(1, 2, (1, 2), 2)
    cluster.assert_nothing_failed()
    # It is a full candidate again.
    cluster.kill_broker(1)
    cluster.stop(2)
    assert cluster.active is old
    assert old.context.epoch == 3


def test_a_lone_controller_wins_its_next_session_too(cluster: Cluster) -> None:
    cluster.kill_broker(1)
    cluster.stop(2)
    (tp,) = cluster.create_topic("t", (0,))
    cluster.expire(0)
    cluster.run()
    assert cluster.active.context.epoch == 2
    assert cluster.state(tp).leader == 0
    cluster.assert_nothing_failed()


def test_requests_queued_for_the_old_session_are_answered(cluster: Cluster) -> None:
    controller = cluster.active
    cluster.ask(0, AlterIsrRequest(0, 1, {}))
    assert not cluster.replies
    cluster.expire(0)
    assert cluster.answer() == AlterIsrResponse(Errors.NOT_CONTROLLER, {})
    assert controller.step()
    assert controller.active_controller_id == NO_CONTROLLER


def test_a_session_that_expired_unnoticed_writes_nothing(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (2, 0, 1))
    cluster.paused.add(0)
    cluster.kill_broker(2)
    cluster.expire(0, notify=False)
    cluster.run()
    epoch_2 = cluster.state_of(1, tp)
    cluster.resume()
    assert cluster.state(tp) == epoch_2
    failed = cluster.rows(Kind.EVENT_FAILED)
    assert [(row.controller, row.epoch, row.detail) for row in failed] == [(0, 1, "BrokerChange")]
    assert cluster.admin.get_sorted_broker_list() == [0, 1]


def test_a_failed_login_leaves_a_live_session_alone(cluster: Cluster) -> None:
    controller = cluster.active
    cluster.server.fail_authentication(cluster.stores[0].session_id)
    cluster.run()
    assert cluster.active is controller
    assert controller.context.epoch == 1
    cluster.create_topic("t", (1,))
    cluster.assert_nothing_failed()


def test_with_kafka_13461_a_failed_login_leaves_a_controller_without_topics() -> None:
    cluster = Cluster(Quirks(kafka_13461=True)).start(*ALL, candidates=ALL)
    cluster.create_topic("t", (1,))
    session_id = cluster.stores[0].session_id
    cluster.server.fail_authentication(session_id)
    cluster.run()
    assert cluster.stores[0].session_id == session_id
    assert cluster.active.config.broker_id == 0
    assert not cluster.active.context.all_topics
    cluster.admin.create("/brokers/topics/u", b'{"version":3,"partitions":{"0":[1]}}')
    cluster.run()
    assert not cluster.admin.path_exists("/brokers/topics/u/partitions")


def test_after_resigning_its_own_controller_znode_is_no_bar(cluster: Cluster) -> None:
    """The state of KAFKA-13461 by another way: resigned, with a /controller of this session."""
    controller = cluster.active
    (tp,) = cluster.create_topic("t", (1,))
    cluster.paused.update((1, 2))
    controller.events.clear_and_put(Expire(reopen=False))
    cluster.run()
    assert controller.is_active
    assert controller.context.epoch == 2
    assert tp in controller.context.leaderships
    cluster.assert_nothing_failed()


def test_a_controller_znode_of_a_former_process_is_waited_for() -> None:
    cluster = Cluster()
    former = MemoryStore(cluster.server)
    data = ControllerZNode.encode(0, 0)
    former.write([[Create(ControllerZNode.path, data, ephemeral=True)]])
    cluster.start(0)
    assert not cluster.active_among(0)
    assert cluster.admin.get_controller_id() == 0
    former.close()
    cluster.run()
    assert cluster.active_among(0)


def test_a_session_that_expires_during_a_failover_delays_no_election(cluster: Cluster) -> None:
    def before(session_id: int, op: object) -> None:
        if isinstance(op, GetData) and op.path == "/feature":
            cluster.server.before_op = None
            cluster.server.expire_session(session_id)

    cluster.server.before_op = before
    cluster.fail_over()
    assert cluster.server.before_op is None
    assert cluster.active.context.epoch == 3
    assert cluster.candidacy.pause_ms() == 0


def test_a_broker_id_that_is_taken_is_asked_for_again(cluster: Cluster) -> None:
    controller = cluster.controllers[2]
    cluster.paused.add(2)
    cluster.expire(2)
    usurper = MemoryStore(cluster.server)
    KafkaZkClient(usurper).register_broker(BrokerInfo(broker_info(2, 1)), 0)
    cluster.resume()
    assert (
        "Error processing event RegisterBrokerAndReelect" in cluster.controller_logs[2].getvalue()
    )
    assert "\nNodeExists: " in cluster.controller_logs[2].getvalue()
    usurper.close()
    cluster.advance(999)
    assert 2 not in cluster.admin.get_sorted_broker_list()
    cluster.advance(1)
    found = cluster.admin.get_all_brokers_and_epochs_in_cluster().values[2]
    assert found.broker == controller.broker_info
