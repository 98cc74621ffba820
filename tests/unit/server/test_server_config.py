"""ServerConfig: the last values that are accepted, and the first that are refused."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.types import EndPoint
from klamm.placement.broker_metadata import MAX_BROKERS
from klamm.server.config import is_loopback
from klamm.server.serve import _Ended, _Signals, url_of
from klamm.world.cluster_spec import check_broker_id
from klamm.zk.security import ZooKeeperTls
from tests.server_configs import server_config

LISTEN: dict[str, Any] = {"brokers": 3}
TLS = ZooKeeperTls(ca=Path("ca.pem"))


@pytest.mark.parametrize(
    ("listen", "hint"),
    [
        ("99999", "use a port from 1 to 65533"),
        ("h:65534", "use a port from 1 to 65533"),
        ("localhost", "end it with :PORT, a port from 1 to 65533"),
    ],
)
def test_a_hint_tells_a_missing_port_from_one_that_is_too_large(listen: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_config(**{**LISTEN, "listen": listen})
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "values",
    [
        {"brokers": MAX_BROKERS},
        {"brokers": 3, "controllers": 1},
        {"brokers": 3, "controllers": 3},
        {"brokers": 3, "racks": ("a", "b", "c")},
        {"brokers": 1, "session_timeout_ms": 1_000},
        {"brokers": 1, "session_timeout_ms": 60_000},
        {"brokers": 1, "port": 0},
        {"brokers": 1, "port": 65_535},
        {"brokers": 1, "state_change_level": "INFO"},
        {"brokers": 1, "zookeeper_port": 1},
        {"brokers": 1, "zookeeper_port": 65_535},
        {"brokers": 1, "zookeeper_port": 65_533, "zookeeper_servers": 3},
        {**LISTEN, "listen": "1"},
        {**LISTEN, "listen": "65533"},
        {**LISTEN, "listen": "9092", "advertised_listener": "h:65533"},
        {**LISTEN, "listen": "0.0.0.0:9092", "advertised_listener": "h"},
    ],
    ids=str,
)
def test_values_at_the_limits_are_accepted(values: dict[str, Any]) -> None:
    assert len(server_config(**values).cluster.broker_ids) == values["brokers"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "Missing option '--brokers'"),
        ({"brokers": 0}, "a cluster cannot have 0 brokers"),
        ({"brokers": -7}, "a cluster cannot have -7 brokers"),
        ({"brokers": MAX_BROKERS + 1}, "a cluster cannot have 10001 brokers"),
        ({"brokers": 3, "controllers": 0}, "--controllers 0: out of range for 3 brokers"),
        ({"brokers": 3, "controllers": 4}, "--controllers 4: out of range for 3 brokers"),
        ({"brokers": 3, "racks": ("a", "b", "c", "d")}, "--racks lists 4 racks for 3 brokers"),
        ({"brokers": 3, "racks": ("a", " ")}, "--racks: a rack name is empty"),
        ({"brokers": 3, "racks": ("\0x",)}, r"--racks: a rack name '\x00x' has control characters"),
        ({"brokers": 1, "session_timeout_ms": 999}, "--session-timeout-ms 999: out of range"),
        ({"brokers": 1, "session_timeout_ms": 60_001}, "--session-timeout-ms 60001: out of range"),
        ({"brokers": 1, "port": -1}, "--port -1 is not a valid port"),
        ({"brokers": 1, "port": 65_536}, "--port 65536 is not a valid port"),
        ({"brokers": 1, "state_change_level": "DEBUG"}, "DEBUG: unknown level"),
        ({"brokers": 1, "zookeeper_port": 0}, "--zookeeper-port 0 is not a valid port"),
        (
            {"brokers": 1, "zookeeper_port": 65_534, "zookeeper_servers": 3},
            "--zookeeper-port 65534 is not a valid port",
        ),
        (
            {"brokers": 1, "zookeeper": "z:1", "zookeeper_servers": 3},
            "give either --zookeeper or --zookeeper-servers, but not both",
        ),
        (
            {"brokers": 1, "zookeeper": "z:1", "zookeeper_port": 2181},
            "give either --zookeeper or --zookeeper-port, but not both",
        ),
        ({"brokers": 1, "zookeeper_tls": TLS}, "the embedded ZooKeeper does not support TLS"),
        ({"brokers": 1, "advertised_listener": "h"}, "--advertised-listener requires --listen"),
        ({**LISTEN, "listen": "0"}, "--listen 0: not a valid port"),
        ({**LISTEN, "listen": "h:99999"}, "--listen h:99999: not a valid port"),
        ({**LISTEN, "listen": "1:2:3"}, "--listen 1:2:3: 1:2 is not a valid host"),
        (
            {**LISTEN, "listen": "9092", "advertised_listener": "1:2:3"},
            "--advertised-listener 1:2:3: 1:2 is not a valid host",
        ),
        ({**LISTEN, "listen": "65534"}, "--listen 65534: the port of broker 2 would be 65536"),
        ({**LISTEN, "listen": "SSL:9092"}, "--listen SSL:9092: SSL is not a valid host"),
        (
            {**LISTEN, "listen": "9092", "advertised_listener": "h:65534"},
            "--advertised-listener h:65534: the port of broker 2 would be 65536",
        ),
        ({**LISTEN, "listen": "[::]:9092"}, "clients cannot connect to ::"),
        ({"brokers": 1, "host": "192.0.2.1"}, "so a token is required"),
        ({"brokers": 1, "host": "0.0.0.0", "token": "t"}, "--host 0.0.0.0 requires --allowed-host"),
    ],
    ids=str,
)
def test_values_beyond_the_limits_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        server_config(**values)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("listen", "advertised", "end_point", "second"),
    [
        ("9092", None, ("127.0.0.1", 9092), ("127.0.0.1", 9093)),
        ("127.0.0.1:9092", None, ("127.0.0.1", 9092), ("127.0.0.1", 9093)),
        ("[::1]:9092", None, ("::1", 9092), ("::1", 9093)),
        ("9092", "h", ("h", 9092), ("127.0.0.1", 9093)),
        ("9092", "h:19092", ("h", 19092), ("127.0.0.1", 9093)),
        ("9092", "[::1]", ("::1", 9092), ("127.0.0.1", 9093)),
        ("9092", "[::1]:19092", ("::1", 19092), ("127.0.0.1", 9093)),
    ],
)
def test_brokers_listen_and_advertise_as_configured(
    listen: str, advertised: str | None, end_point: tuple[str, int], second: tuple[str, int]
) -> None:
    config = server_config(**LISTEN, listen=listen, advertised_listener=advertised)
    assert config.listen_place(1) == second
    assert config.spec("r", None).first_end_point == EndPoint(*end_point)


@pytest.mark.parametrize(
    ("values", "candidates"),
    [
        ({"brokers": 7}, (0, 1, 2, 3, 4)),
        ({"brokers": 3}, (0, 1, 2)),
        ({"brokers": 7, "controllers": 6}, (0, 1, 2, 3, 4, 5)),
        ({"brokers": 7, "controllers": 2}, (0, 1)),
    ],
)
def test_the_lowest_ids_are_candidates(values: dict[str, Any], candidates: tuple[int, ...]) -> None:
    assert server_config(**values).spec("r", None).candidates == candidates


def test_only_the_first_run_has_the_given_seed() -> None:
    config = server_config(brokers=1, seed=7)
    seeds = [config.spec("r", None, incarnation=number).seed for number in range(3)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 3
    assert seeds[1] == config.spec("r", None, incarnation=1).seed


def test_the_first_connection_waits_for_the_session_timeout_unless_configured() -> None:
    assert server_config(brokers=1, session_timeout_ms=3_000).connection_timeout_ms == 3_000
    config = {"zookeeper.connection.timeout.ms": "5"}
    assert server_config(brokers=1, config=config).connection_timeout_ms == 5


def test_the_host_header_may_have_loopback_names_the_host_and_allowed_hosts() -> None:
    loopback = {"localhost", "127.0.0.1", "::1"}
    assert server_config(brokers=1).host_names() == loopback
    own = server_config(brokers=1, host="192.0.2.1", token="t", allowed_hosts=("Klamm", "[::2]"))
    assert own.host_names() == loopback | {"192.0.2.1", "klamm", "::2"}
    every = server_config(brokers=1, host="0.0.0.0", token="t", allowed_hosts=("klamm",))
    assert every.host_names() == loopback | {"klamm"}


def test_a_broker_id_has_a_port() -> None:
    check_broker_id(0)
    check_broker_id(65_535 - 9092)
    for broker_id in (-1, 65_536 - 9092):
        with pytest.raises(UsageError, match="not a valid broker id"):
            check_broker_id(broker_id)


def test_only_loopback_addresses_are_local() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.0.2.1", "::", "example.org", "")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_only_the_first_signal_counts(number: signal.Signals) -> None:
    signals, ended = _Signals(), []
    with pytest.raises(_Ended):
        signals.catch(signal.SIGINT, None)
    signals.on_signal = lambda: ended.append(True)
    signals.catch(number, None)
    assert (signals.exit_code, ended) == (130, [])
    during = _Signals()
    during.on_signal = lambda: ended.append(True)
    during.catch(number, None)
    during.catch(signal.SIGINT, None)
    assert (during.exit_code, ended) == (0, [True])


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:5"),
        ("10.0.0.7", "http://10.0.0.7:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::1", "http://[::1]:5"),
        ("::", "http://[::1]:5"),
    ],
)
def test_the_url_of_a_wildcard_address_is_that_of_the_loopback(host: str, url: str) -> None:
    assert url_of(host, 5) == url
