"""`klamm`: puts the command groups together, in the order of its help.

Knows no command's business: one file a group beside this one.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import (
    broker,
    configs,
    consume,
    controller,
    demo,
    disk,
    drill,
    explain,
    journal,
    leader_election,
    log_dirs,
    network,
    placement,
    pools,
    preferred_replica_election,
    produce,
    reassign_partitions,
    replay,
    replay_diff,
    replay_generate,
    replay_package,
    replay_run,
    replay_sql,
    status,
    topics,
    up,
    watch,
    zk,
)
from cluster.version import klamm_version

_EXAMPLES = """
\b
Examples:
  klamm demo
  klamm placement assign --brokers 0-4 --partitions 10 --rf 3
  klamm topics --zookeeper localhost:2181 --describe
  klamm zk dump /brokers --zookeeper localhost:2181
"""

app = typer.Typer(
    help="The ZooKeeper-era Kafka control plane, to watch, rehearse on and break.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up", epilog=up.EXAMPLES)(up.up)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.add_typer(drill.app, name="drill")
app.add_typer(placement.app, name="placement")
app.add_typer(zk.app, name="zk")
app.add_typer(pools.app, name="pools")
app.command("topics", cls=topics.RawCommand)(topics.topics)
app.command("reassign-partitions", cls=topics.RawCommand)(reassign_partitions.reassign_partitions)
app.command("leader-election", cls=topics.RawCommand)(leader_election.leader_election)
app.command("configs", cls=topics.RawCommand)(configs.configs)
app.command("log-dirs", cls=topics.RawCommand)(log_dirs.log_dirs)
app.command("preferred-replica-election", cls=topics.RawCommand)(
    preferred_replica_election.preferred_replica_election
)
app.command("produce", epilog=produce.EXAMPLES)(produce.produce)
app.command("consume", epilog=consume.EXAMPLES)(consume.consume)
app.command("status", epilog=status.EXAMPLES)(status.status)
app.add_typer(broker.app, name="broker")
app.add_typer(controller.app, name="controller")
app.add_typer(network.app, name="network")
app.add_typer(disk.app, name="disk")
app.add_typer(journal.app, name="journal")
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
replay.app.command("diff", epilog=replay_diff.EXAMPLES)(replay_diff.diff)
replay.app.command("run", epilog=replay_run.EXAMPLES)(replay_run.run)
replay.app.command("sql", epilog=replay_sql.EXAMPLES)(replay_sql.sql)
replay.app.command("package", epilog=replay_package.EXAMPLES)(replay_package.package)
app.add_typer(replay.app, name="replay")
replay.app.command("generate", epilog=replay_generate.EXAMPLES)(replay_generate.generate)
app.command("watch", epilog=watch.EXAMPLES)(watch.watch)


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
