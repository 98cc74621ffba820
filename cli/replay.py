"""`klamm replay`: the commands that reconstruct from logs what happened in a cluster."""

from __future__ import annotations

import typer

from klamm.cli.command_loading import Place, group_class

_EXAMPLES = """
\b
Examples:
  klamm replay run ./rehearsal/journal.jsonl
  klamm replay ingest ./rehearsal/journal.jsonl --out ./events
  klamm replay diff ./journal.jsonl ./zookeeper/version-2
  klamm replay sql "DESCRIBE events" ./events
  klamm replay generate --out ./made --seed 7 --plant illegal=5,gap=3
  klamm replay package --out klamm.zip
"""
_COMMANDS = {
    "Commands": {
        "run": Place("Report what a cluster did: states, elections, reassignments."),
        "ingest": Place("Read logs into an event table."),
        "diff": Place("Compare the final states and histories of two logs."),
        "sql": Place("Query the events with SQL."),
        "generate": Place("Generate the logs of a synthetic cluster."),
        "package": Place("Package klamm for the workers of a Spark cluster."),
    }
}

app = typer.Typer(
    cls=group_class(_COMMANDS, "klamm.cli.replay_"),
    help="Reconstruct what happened in a cluster from its logs, with DuckDB or Spark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog=_EXAMPLES,
)


@app.callback()
def replay() -> None:
    """Reconstruct what happened in a cluster from its logs, with DuckDB or Spark."""
