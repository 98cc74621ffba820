"""`klamm`: its commands, in the order of its help. Knows no command's business."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.command_loading import Place, RawCommand, group_class
from klamm.cluster.version import klamm_version

_EXAMPLES = """
\b
Examples:
  klamm demo
  klamm placement assign --brokers 0-4 --partitions 10 --rf 3
  klamm topics --zookeeper localhost:2181 --describe
  klamm zk dump /brokers --zookeeper localhost:2181
"""

_COMMANDS = {
    "Run and watch a cluster": {
        "up": Place("klamm.cli.up", "Run a cluster of simulated brokers over a real ZooKeeper."),
        "status": Place("klamm.cli.status", "Show controller, brokers, pending work and failures."),
        "watch": Place("klamm.cli.watch", "Show the same live, with the latest events."),
        "explain": Place(
            "klamm.cli.explain", "Explain the state of a partition or the effects of an event."
        ),
        "journal": Place("klamm.cli.journal", "Show or follow the journal of a cluster."),
        "demo": Place(
            "klamm.cli.demo", "Run a tour: a cluster, two failures, every check, a replay."
        ),
    },
    "Kafka's tools, as in Kafka 2.8.2": {
        "topics": Place(
            "klamm.cli.kafka_tools",
            "kafka-topics: create, list, describe, alter and delete topics.",
            RawCommand,
        ),
        "reassign-partitions": Place(
            "klamm.cli.kafka_tools",
            "kafka-reassign-partitions: move partitions between brokers.",
            RawCommand,
        ),
        "leader-election": Place(
            "klamm.cli.kafka_tools",
            "kafka-leader-election: elect preferred or unclean leaders.",
            RawCommand,
        ),
        "configs": Place(
            "klamm.cli.kafka_tools",
            "kafka-configs: describe and alter configs of topics and brokers.",
            RawCommand,
        ),
        "log-dirs": Place(
            "klamm.cli.kafka_tools",
            "kafka-log-dirs: describe the log directories of brokers.",
            RawCommand,
        ),
        "preferred-replica-election": Place(
            "klamm.cli.kafka_tools",
            "kafka-preferred-replica-election: elect preferred leaders (deprecated in Kafka).",
            RawCommand,
        ),
    },
    "Clients": {
        "produce": Place(
            "klamm.cli.produce", "Produce lines of standard input, or generated ones."
        ),
        "consume": Place("klamm.cli.consume", "Consume a topic."),
    },
    "Failures": {
        "broker": Place(
            "klamm.cli.broker", "Kill, start, stop, pause, resume, power off and add brokers."
        ),
        "controller": Place("klamm.cli.controller", "Move the controller to another broker."),
        "network": Place("klamm.cli.network", "Isolate brokers from each other."),
        "disk": Place("klamm.cli.disk", "Inject disk faults."),
        "zk": Place("klamm.cli.zk", "Dump, load and protect znodes; kill and pause servers."),
        "drill": Place("klamm.cli.drill", "Run scripted failures, simulated or for real."),
    },
    "Plan and look back": {
        "placement": Place(
            "klamm.cli.placement", "Show where Kafka would place the replicas of a topic."
        ),
        "pools": Place("klamm.cli.pools", "Check and plan which brokers hold which topics."),
        "replay": Place("klamm.cli.replay", "Rebuild what happened in a cluster from its logs."),
    },
}

app = typer.Typer(
    cls=group_class(_COMMANDS),
    help="The ZooKeeper-era Kafka control plane, to watch, rehearse on and break.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"klamm {klamm_version()}")
        raise typer.Exit


@app.callback()
def klamm(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """The ZooKeeper-era Kafka control plane, to watch, rehearse on and break."""
