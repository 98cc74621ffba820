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
    "up": Place("klamm.cli.up"),
    "demo": Place("klamm.cli.demo"),
    "status": Place("klamm.cli.status"),
    "watch": Place("klamm.cli.watch"),
    "explain": Place("klamm.cli.explain"),
    "journal": Place("klamm.cli.journal"),
    "topics": Place("klamm.cli.kafka_tools", RawCommand),
    "reassign-partitions": Place("klamm.cli.kafka_tools", RawCommand),
    "leader-election": Place("klamm.cli.kafka_tools", RawCommand),
    "configs": Place("klamm.cli.kafka_tools", RawCommand),
    "log-dirs": Place("klamm.cli.kafka_tools", RawCommand),
    "preferred-replica-election": Place("klamm.cli.kafka_tools", RawCommand),
    "produce": Place("klamm.cli.produce"),
    "consume": Place("klamm.cli.consume"),
    "broker": Place("klamm.cli.broker"),
    "controller": Place("klamm.cli.controller"),
    "network": Place("klamm.cli.network"),
    "disk": Place("klamm.cli.disk"),
    "zk": Place("klamm.cli.zk"),
    "drill": Place("klamm.cli.drill"),
    "placement": Place("klamm.cli.placement"),
    "pools": Place("klamm.cli.pools"),
    "replay": Place("klamm.cli.replay"),
}

app = typer.Typer(
    cls=group_class(_COMMANDS),
    help="The ZooKeeper-era Kafka control plane, to watch, rehearse on and break.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
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
