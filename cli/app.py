"""`klamm`: its commands, in the order of its help. Knows no command's business."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.command_loading import Place, RawCommand, group_class
from cluster.version import klamm_version

_EXAMPLES = """
\b
Examples:
  klamm demo
  klamm placement assign --brokers 0-4 --partitions 10 --rf 3
  klamm topics --zookeeper localhost:2181 --describe
  klamm zk dump /brokers --zookeeper localhost:2181
"""

_COMMANDS = {
    "up": Place("cli.up"),
    "demo": Place("cli.demo"),
    "status": Place("cli.status"),
    "watch": Place("cli.watch"),
    "explain": Place("cli.explain"),
    "journal": Place("cli.journal"),
    "topics": Place("cli.kafka_tools", RawCommand),
    "reassign-partitions": Place("cli.kafka_tools", RawCommand),
    "leader-election": Place("cli.kafka_tools", RawCommand),
    "configs": Place("cli.kafka_tools", RawCommand),
    "log-dirs": Place("cli.kafka_tools", RawCommand),
    "preferred-replica-election": Place("cli.kafka_tools", RawCommand),
    "produce": Place("cli.produce"),
    "consume": Place("cli.consume"),
    "broker": Place("cli.broker"),
    "controller": Place("cli.controller"),
    "network": Place("cli.network"),
    "disk": Place("cli.disk"),
    "zk": Place("cli.zk"),
    "drill": Place("cli.drill"),
    "placement": Place("cli.placement"),
    "pools": Place("cli.pools"),
    "replay": Place("cli.replay"),
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
