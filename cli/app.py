"""The Typer app of `klamm`, and its commands in the order in which the help lists them.

Contains names, help lines, and the options of the program itself; each command is in its own file.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import typer
from typer._completion_shared import get_completion_script, install

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

Shell = Literal["bash", "zsh", "fish"]
_SHELLS = "|".join(get_args(Shell))
_PROGRAM: Final = "klamm"
_VARIABLE: Final = "_KLAMM_COMPLETE"
_AT_FIRST_TAB: Final = """

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _klamm_completion "$@"
fi"""
"""End of the script for zsh. zsh loads an installed script at the first Tab, and expects that the
script then completes the line; typer's script only defines a function for the next Tab."""


def _tool(help: str) -> Place:
    return Place(help, "kafka_tools", RawCommand)


_COMMANDS = {
    "Run and watch a cluster": {
        "up": Place("Run a cluster of simulated brokers over a real ZooKeeper."),
        "status": Place("Show controller, brokers, pending work and failures."),
        "watch": Place("Show the status live, with the latest events."),
        "explain": Place("Explain the state of a partition or the effects of an event."),
        "journal": Place("Show or follow the journal of a cluster."),
        "demo": Place("Take a tour: run a cluster, cause two failures, check and replay them."),
    },
    "Kafka's tools, as in Kafka 2.8.2": {
        "topics": _tool("kafka-topics: create, list, describe, alter and delete topics."),
        "reassign-partitions": _tool("kafka-reassign-partitions: move partitions between brokers."),
        "leader-election": _tool("kafka-leader-election: elect preferred or unclean leaders."),
        "configs": _tool("kafka-configs: describe and alter configs of topics and brokers."),
        "log-dirs": _tool("kafka-log-dirs: describe the log directories of brokers."),
        "preferred-replica-election": _tool(
            "kafka-preferred-replica-election: elect preferred leaders (deprecated in Kafka)."
        ),
    },
    "Clients": {
        "produce": Place("Produce generated records, or the lines of standard input."),
        "consume": Place("Consume a topic."),
    },
    "Failures": {
        "broker": Place("Start, stop, break and add brokers."),
        "controller": Place(
            "Force a controller election; run a controller for Kafka's own brokers."
        ),
        "network": Place("Cut, clog, delay and degrade network links."),
        "disk": Place("Inject disk faults."),
        "zk": Place("Dump, load and protect znodes; kill and pause ZooKeeper servers."),
        "drill": Place("Run scripted failures, in simulation or on a real ZooKeeper."),
        "hunt": Place("Search for violated invariants with random drills."),
    },
    "Plan changes and analyze logs": {
        "placement": Place("Show where Kafka would place the replicas of a topic."),
        "pools": Place("Check topics against pools of brokers, and plan moves."),
        "replay": Place("Reconstruct what happened in a cluster from its logs."),
    },
}

app = typer.Typer(
    cls=group_class(_COMMANDS, "klamm.cli."),
    help="Run Kafka's ZooKeeper-era control plane, rehearse changes on it, and inject failures.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"klamm {klamm_version()}")
        raise typer.Exit


def _completion_script(shell: Shell) -> str:
    script = get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)
    return script + (_AT_FIRST_TAB if shell == "zsh" else "")


def _install_completion(shell: Shell | None) -> None:
    if shell is not None:
        _, path = install(shell=shell, prog_name=_PROGRAM, complete_var=_VARIABLE)
        path.write_text(f"{_completion_script(shell)}\n")
        typer.echo(f"{shell} completion is installed in {path}; it works in new shells")
        raise typer.Exit


def _show_completion(shell: Shell | None) -> None:
    if shell is not None:
        typer.echo(_completion_script(shell))
        raise typer.Exit


@app.callback()
def klamm(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    install_completion: Annotated[
        Shell | None,
        typer.Option(
            metavar=_SHELLS,
            callback=_install_completion,
            is_eager=True,
            help="Install completion for a shell.",
        ),
    ] = None,
    show_completion: Annotated[
        Shell | None,
        typer.Option(
            metavar=_SHELLS,
            callback=_show_completion,
            is_eager=True,
            help="Print the completion script for a shell.",
        ),
    ] = None,
) -> None:
    """Run Kafka's ZooKeeper-era control plane, rehearse changes on it, and inject failures."""
