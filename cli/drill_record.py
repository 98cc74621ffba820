"""`klamm drill record`: turns a journal into a drill."""

from __future__ import annotations

import typer

from klamm.cli.journal_origin import CountedRows, JournalFile, chosen_source
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.lab.drills.from_journal import drill_from_journal

EXAMPLES = """
\b
Examples:
  klamm drill record > mine.yaml
  klamm drill record --journal ./rehearsal/journal.jsonl > mine.yaml
"""


def record(
    journal: JournalFile = None, server: Server = None, data_dir: DataDirectory = None
) -> None:
    """Print a drill that repeats what happened to a cluster, according to its journal.

    The drill starts and ends brokers, moves the controller, creates, reassigns and deletes topics,
    in the order and at about the times of the journal's last run. Records, pauses, disk faults,
    configs and requested elections are not repeated, and another broker may become the controller.
    """
    rows = CountedRows(chosen_source(journal, server, data_dir))
    with waiting("the whole journal"):
        recorded = list(rows.rows())
    typer.echo(drill_from_journal(recorded, "recorded"), nl=False)
