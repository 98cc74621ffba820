"""`klamm controller`: forces controller elections, and runs a controller for Kafka's own brokers.

`move` sends a request to the server and prints the response; `run` prints what happens to its
controller until it is interrupted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from klamm.cli.action_commands import sends
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.connect import security_of
from klamm.cli.kafka_tools import ask_before_write
from klamm.cli.own_log import log_to
from klamm.cli.running import stopped_by_signals
from klamm.cli.server_options import Answered
from klamm.cli.up import Configs, parse_configs
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import KlammError
from klamm.cluster.plain_text import harmless_line
from klamm.lab.actions.actions import MoveController
from klamm.server.data_dir import OWN_LOG_FILE, default_data_dir
from klamm.server.garbage import survivors_frozen
from klamm.server.thread_failures import threads_watched
from klamm.world.cluster_spec import DEFAULT_SESSION_TIMEOUT_MS
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_store import KazooStore

if TYPE_CHECKING:
    from klamm.server.controller_server import ControllerServer, ControllerServerConfig
    from klamm.server.kafka_cluster import OwnReplicas

_POLL_S = 0.1
_REPLICAS_POLL_S = 1.0
_TOPICS_SHOWN = 5
_UNCLEAN_ADVICE = (
    "hint: the partitions without another replica then need a leader: kafka-leader-election "
    "--election-type UNCLEAN loses nothing, because nothing was stored"
)
_RUN_EXAMPLES = """
\b
Examples:
  klamm controller run --zookeeper localhost:2181 --listener localhost:9099 --id 1000
  klamm controller run --zookeeper zk1:2181,zk2:2181/kafka --listener INTERNAL://klamm1:9099 \\
    --id 1000 --take-over --yes
  klamm controller run --zookeeper localhost:2181 --listener localhost:9099 --id 1000 \\
    --config inter.broker.protocol.version=2.6 --config default.replication.factor=3
  klamm controller run --zookeeper localhost:2181 --listener SASL_SSL://localhost:9099 \\
    --config ssl.keystore.location=klamm.pem --config ssl.truststore.location=ca.pem \\
    --config sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256 \\
    --config klamm.sasl.inter.broker.user.location=user.txt
"""

app = command_group(
    help="Force a controller election, or run klamm's controller for Kafka's own brokers.",
    epilog="""
\b
Examples:
  klamm controller move
  klamm controller run --zookeeper localhost:2181 --listener localhost:9099 --id 1000
""",
)


@sends(app, MoveController)
def move(client: ServerClient, action: MoveController) -> Answered:
    with waiting("the next controller"):
        answer = client.act(action)
    before, after = answer["from"], answer["to"]
    return answer, (
        f"controller: broker {before['id']} (epoch {before['epoch']}) -> "
        f"broker {after['id']} (epoch {after['epoch']})"
    )


@app.command(epilog=_RUN_EXAMPLES)
def run(
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT/CHROOT", help="The zookeeper.connect of the brokers.")
    ],
    listener: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME://]HOST:PORT",
            help="Where the brokers and clients find this controller. NAME is the brokers' "
            "inter-broker listener; repeatable for their other listeners. [default of NAME: "
            "PLAINTEXT]",
        ),
    ],
    broker_id: Annotated[
        int, typer.Option("--id", help="Broker id of the controller; no broker may have it.")
    ] = 1000,
    rack: Annotated[
        str | None, typer.Option(help="Rack of the controller; required if the brokers have racks.")
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Replace the active controller at once. Without it, wait for the next election.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    config: Configs = None,
    session_timeout_ms: Annotated[
        int, typer.Option(help="ZooKeeper session timeout of this controller, in ms.")
    ] = DEFAULT_SESSION_TIMEOUT_MS,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory for journal and logs. [default: controller-ID in KLAMM_DATA_DIR, "
            "~/.klamm]"
        ),
    ] = None,
) -> None:
    """Run a controller candidate in a cluster of Kafka 2.8 brokers until Ctrl-C.

    The controller is a broker that hosts no replicas. When it ends, a Kafka broker is elected.
    """
    # kio takes 0.3 s to import.
    from klamm.server.controller_server import ControllerServerConfig
    from klamm.server.kafka_cluster import parse_listener

    folder = data_dir or default_data_dir(os.environ) / f"controller-{broker_id}"
    checked = ControllerServerConfig(
        zookeeper=zookeeper,
        listeners=tuple(map(parse_listener, listener)),
        broker_id=broker_id,
        data_dir=folder,
        config=parse_configs(config or ()),
        session_timeout_ms=session_timeout_ms,
        rack=rack,
        takes_over=take_over,
        zookeeper_security=security_of(os.environ),
    )
    if not yes:
        with contextlib.closing(checked.session()) as session:
            ask_before_write(KafkaZkClient(KazooStore(session)))
    _run(checked)


def _run(config: ControllerServerConfig) -> None:
    from klamm.server.controller_server import ControllerServer, await_successor

    failures: list[KlammError] = []
    with stopped_by_signals("klamm controller run was interrupted") as stop:

        def fail(error: KlammError) -> None:
            failures.append(error)
            stop.set()

        log_to(config.data_dir / OWN_LOG_FILE)
        with (
            survivors_frozen(),
            threads_watched(fail),
            ControllerServer(config, stop, fail) as server,
        ):
            _report(server, stop)
            was_active = _is_active(server)
        if failures:
            raise failures[0]
        if was_active:
            with waiting("the next controller"):
                successor = await_successor(config)
            typer.echo(
                "no broker became the controller"
                if successor is None
                else f"broker {successor.broker_id} is the controller now, epoch {successor.epoch}"
            )


def _report(server: ControllerServer, stop: threading.Event) -> None:
    """Print every change of the controller until ``stop`` is set."""
    config, known = server.config, None
    warnings = _ReplicaWarnings(config)
    typer.echo(
        f"controller {config.broker_id} is registered, listening on "
        f"{', '.join(f'{one.host}:{one.port}' for one in config.listeners)}; "
        f"journal and logs: {config.data_dir}"
    )
    checked_s = 0.0
    while not stop.is_set():
        found = server.known_controller()
        if found not in (None, known):
            who = "this process" if found.broker_id == config.broker_id else "a Kafka broker"
            typer.echo(f"broker {found.broker_id} ({who}) is the controller, epoch {found.epoch}")
            known = found
        if time.monotonic() - checked_s >= _REPLICAS_POLL_S:
            warnings.show(server.own_replicas())
            checked_s = time.monotonic()
        stop.wait(_POLL_S)
    warnings.show_left(server.own_replicas())


class _ReplicaWarnings:
    """Prints a warning about each topic that has replicas on the controller's broker."""

    def __init__(self, config: ControllerServerConfig) -> None:
        self._where = f"broker {config.broker_id}"
        self._advice = (
            "hint: move these replicas to other brokers: klamm reassign-partitions --zookeeper "
            f"{config.zookeeper} --execute --reassignment-json-file FILE, or "
            "kafka-reassign-partitions"
        )
        self._known: frozenset[str] = frozenset()

    def show(self, found: Sequence[OwnReplicas]) -> None:
        """Print a warning about topics that had no such replicas at the last call."""
        new = [one for one in found if one.topic not in self._known]
        self._known = frozenset(one.topic for one in found)
        self._print(f"{self._where} is this controller, which stores nothing", new)

    def show_left(self, found: Sequence[OwnReplicas]) -> None:
        """Print a warning about the topics that have such replicas at the end."""
        self._print(f"{self._where} ends, and stored nothing", found)

    def _print(self, what: str, topics: Sequence[OwnReplicas]) -> None:
        for one in topics[:_TOPICS_SHOWN]:
            typer.echo(harmless_line(f"warning: {what}: {one.text}"), err=True)
        if len(topics) > _TOPICS_SHOWN:
            more = counted(len(topics) - _TOPICS_SHOWN, "more topic")
            typer.echo(f"warning: {what}: {more} with replicas there", err=True)
        if topics:
            typer.echo(self._advice, err=True)
        if any(one.alone for one in topics):
            typer.echo(_UNCLEAN_ADVICE, err=True)


def _is_active(server: ControllerServer) -> bool:
    known = server.known_controller()
    return known is not None and known.broker_id == server.config.broker_id
