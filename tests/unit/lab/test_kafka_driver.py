"""klamm's controllers beside the brokers of a drill on Kafka, and why a process has ended."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem
from klamm.lab.checks.admin_history import AdminHistory
from klamm.lab.drivers.kafka_driver import BrokersStore
from klamm.world.clock import VirtualClock
from klamm.world.kafka.cluster import controller_ids
from klamm.world.kafka.processes import SupervisedProcess
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import GetChildren
from klamm.zk.znodes import BrokerIdsZNode
from tests.unit.zk.test_embedded_parts import catches
from tests.waiting import wait_until


def test_tools_do_not_see_the_brokers_of_klamms_controllers() -> None:
    memory, broker_ids = MemoryStore(MemoryServer(VirtualClock())), (0, 1000, 1050)
    own = controller_ids(broker_ids)
    store = BrokersStore(memory, AdminHistory(lambda: 0.0), broker_ids)
    assert store.read([GetChildren(BrokerIdsZNode.path)])[0].children is None
    zk = KafkaZkClient(memory)
    for broker_id in (*broker_ids, own[0], own[-1]):
        zk.create_recursive(f"{BrokerIdsZNode.path}/{broker_id}")
    ids, others = store.read([GetChildren(BrokerIdsZNode.path), GetChildren("/brokers")])
    assert (ids.children, others.children) == (["0", "1000", "1050"], ["ids"])


STARTUP_FAILED = "Fatal error during KafkaServer startup. Prepare to shutdown (kafka.server)"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "no output"),
        ("a\nb\n\n", "b"),
        (
            f"[1] INFO a\n[1] ERROR {STARTUP_FAILED}\nE: no id\n\tat kafka\n[1] INFO shutting down",
            f"{STARTUP_FAILED}: E: no id",
        ),
        ("[1] FATAL all log dirs failed\n[1] ERROR Exiting Kafka.\n", "all log dirs failed"),
        ("error: broker 1000 is registered\nhint: choose another id", "broker 1000 is registered"),
        ("Error: no class\nCaused by: E: kafka.Kafka\n", "no class: Caused by: E: kafka.Kafka"),
    ],
)
def test_a_process_ended_for_the_first_error_in_its_output(
    log: str, reason: str, tmp_path: Path
) -> None:
    process = SupervisedProcess("a process", tmp_path, "out")
    process.out.write_text(log)
    with pytest.raises(EnvironmentProblem) as raised:
        _ = process.has_started
    assert raised.value.message == f"a process ended: {reason}"
    assert raised.value.hint == f"its log, {process.out}, is only kept with --data-dir"


class Ready(SupervisedProcess):
    STARTED = "ready"


def test_a_paused_process_that_has_ended_is_not_paused_any_more(tmp_path: Path) -> None:
    process = Ready("a process", tmp_path / "new", "out")
    ends_never = "import threading; print('ready', flush=True); threading.Event().wait()"
    process.run([sys.executable, "-I", "-S", "-c", ends_never])
    try:
        assert process._process is not None
        supervisor = process._process.pid
        wait_until(lambda: process.has_started and catches(supervisor, signal.SIGUSR2))
        assert not process.await_end(0)
        process.pause()
        assert (process.is_running, process.is_paused) == (True, True)
        process.resume()
        assert not process.is_paused
        process.pause()
    finally:
        process.end()
    assert (process.is_running, process.is_paused) == (False, False)
    assert process.await_end(0)
    with pytest.raises(EnvironmentProblem, match="a process ended: ready"):
        _ = process.has_started
