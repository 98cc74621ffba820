"""`klamm replay`: the group of commands that rebuild what happened in a cluster from its logs."""

from __future__ import annotations

import typer

from klamm.cli.command_loading import Place, group_class
from klamm.cli.replay_ingest import EXAMPLES

_COMMANDS = {
    "Commands": {
        "run": Place(
            "klamm.cli.replay_run", "Answer every question: states, elections, reassignments."
        ),
        "ingest": Place("klamm.cli.replay_ingest", "Read logs into an event table."),
        "diff": Place(
            "klamm.cli.replay_diff", "Compare the final states and histories of two logs."
        ),
        "sql": Place("klamm.cli.replay_sql", "Query the events in SQL."),
        "generate": Place("klamm.cli.replay_generate", "Write a seeded history of any size."),
        "package": Place(
            "klamm.cli.replay_package", "Package klamm for the workers of a Spark cluster."
        ),
    }
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
