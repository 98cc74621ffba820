"""A thread that fails outside of an event ends `klamm up` with an error and frees everything."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.cli.own_log import OnceForAll
from klamm.cluster.errors import KlammError
from klamm.server.cluster_server import ClusterServer
from klamm.server.serve import serve
from klamm.zk.store import GetData, SetData
from tests.server_configs import server_config


def fail(*_: object) -> None:
    raise ValueError("injected")


def fail_in_the_hub(server: ClusterServer) -> str:
    server.cluster._hub.soon(fail)
    return "broker-hub"


def fail_in_an_event_thread(server: ClusterServer) -> str:
    controller = server.cluster.nodes[1].node.controller
    assert controller is not None
    controller.events.put(None)  # type: ignore[arg-type]
    return "controller-1-event-thread"


def fail_in_a_listener(server: ClusterServer) -> str:
    store = server.cluster.store
    store.add_listener(fail)
    store.read([GetData("/controller_epoch", watch=True)])
    store.write([[SetData("/controller_epoch", b"1")]])
    return "klamm-zookeeper"


def fail_in_a_connection(server: ClusterServer) -> str:
    server.cluster.nodes[1].session._client._connection._read_socket = fail
    return "klamm-zookeeper"


def fail_where_a_broker_is_ended(server: ClusterServer) -> str:
    broker = server.cluster.nodes[1].node.broker
    broker.log_maintenance.abandon = fail  # type: ignore[method-assign]
    server.cluster._on_halted(1, "injected")
    return "broker-1-halt"


@pytest.mark.parametrize(
    "inject",
    [
        fail_in_the_hub,
        fail_in_an_event_thread,
        fail_in_a_listener,
        fail_in_a_connection,
        fail_where_a_broker_is_ended,
    ],
)
def test_a_thread_that_fails_ends_the_process(
    chroot: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    inject: Callable[[ClusterServer], str],
) -> None:
    threads = set(threading.enumerate())
    names = []
    config = server_config(
        brokers=2, zookeeper=chroot, session_timeout_ms=2000, data_dir=tmp_path, port=0
    )
    with pytest.raises(KlammError, match="klamm thread ") as raised:
        serve(config, lambda _: None, lambda server: names.append(inject(server)))
    (name,) = names
    assert f"{name} ended with " in raised.value.message
    (record,) = [r for r in caplog.records if r.name == "klamm.server.thread_failures"]
    assert record.getMessage() == f"thread {name} ended"
    assert record.levelno == logging.ERROR and record.exc_info is not None
    assert not OnceForAll().filter(record), "the error that ends klamm up says the same"
    left = [t for t in threading.enumerate() if t not in threads and "AnyIO" not in t.name]
    assert left == []
    assert not (tmp_path / "server.json").exists()
