"""`klamm replay`: the group of commands that rebuild what happened in a cluster from its logs."""

from __future__ import annotations

import typer

from klamm.cli.command_loading import Place, group_class
from klamm.cli.replay_ingest import EXAMPLES

_COMMANDS = {
    "ingest": Place("klamm.cli.replay_ingest"),
    "diff": Place("klamm.cli.replay_diff"),
    "run": Place("klamm.cli.replay_run"),
    "sql": Place("klamm.cli.replay_sql"),
    "package": Place("klamm.cli.replay_package"),
    "generate": Place("klamm.cli.replay_generate"),
}

app = typer.Typer(
    cls=group_class(_COMMANDS),
    help="Rebuild what happened in a cluster from its logs, with Spark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)


@app.callback()
def replay() -> None:
    """Rebuild what happened in a cluster from its logs, with Spark."""
