"""`klamm replay generate`: writes the logs of a synthetic cluster.

Only parses options, shows progress and prints.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from klamm.cli.options import AsJson, finite, print_result
from klamm.cli.running import ending_signals_raise
from klamm.cli.terminal import STATUS_LINE
from klamm.cli.waiting import waiting
from klamm.cluster.errors import UsageError
from klamm.replay.generate.options import Format, HistoryOptions, kinds_of, parse_planted

if TYPE_CHECKING:
    from klamm.replay.generate.generate import Truth


def _formats() -> str:
    """Return help text: the formats, and the kinds of anomaly that each format can contain."""
    lines = []
    for written_as in Format:
        words = f"{written_as:<17} {', '.join(kinds_of(written_as))}"
        lines += textwrap.wrap(words, 96, initial_indent="  ", subsequent_indent=" " * 20)
    return "\n".join(lines)


EXAMPLES = f"""
\b
Formats, and the kinds of anomaly that can be planted in each:
{_formats()}
  parquet is an event table.
\b
Examples:
  klamm replay generate --out ./made --seed 7 --plant illegal=5,gap=3
  klamm replay generate --out ./big --format parquet --partitions 200000 --events 20000000
"""


def generate(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory to create; it must not exist.")
    ],
    partitions: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Number of partitions.")
    ] = 1_000,
    events: Annotated[int, typer.Option(min=1, help="Number of journal rows.")] = 100_000,
    failure_rate: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=finite,
            help="Share of the steps, 12 in half an hour, in which a broker or controller fails; "
            "above 0, at least one of 12. Even with 0, the controller changes every half hour.",
        ),
    ] = 0.02,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed gives byte-identical output.")
    ] = 0,
    plant: Annotated[
        str, typer.Option(metavar="KIND=N,..", help="Kinds of anomaly to plant, and how many.")
    ] = "",
    written_as: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format to write.")
    ] = "journal",
    brokers: Annotated[int, typer.Option(min=5, max=10_000, help="Number of brokers.")] = 12,
    partitions_per_topic: Annotated[
        int, typer.Option(metavar="COUNT", min=1, help="Number of partitions per topic.")
    ] = 100,
    skew: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=finite,
            help="Share of all partitions that belong to one large topic.",
        ),
    ] = 0.0,
    restarts: Annotated[
        int, typer.Option(min=0, max=10_000, help="How often the whole cluster is restarted.")
    ] = 0,
    json: AsJson = False,
) -> None:
    """Write the logs of a synthetic cluster: a consistent history with planted anomalies.

    DIR/planted.json lists the planted anomalies and where they are.
    """
    from klamm.replay.generate.generate import TRUTH, generate

    if written_as not in list(Format):
        raise UsageError(f"--format {written_as} is unknown", hint=f"formats: {', '.join(Format)}")
    options = HistoryOptions(
        partitions=partitions,
        events=events,
        failure_rate=failure_rate,
        seed=seed,
        planted=parse_planted(plant),
        brokers=brokers,
        partitions_per_topic=partitions_per_topic,
        skew=skew,
        restarts=restarts,
    )
    with ending_signals_raise(), _progress(events) as on_rows:
        truth = generate(options, Format(written_as), out, on_rows=on_rows)
    created = f"Created {out}; {out / TRUTH} lists the planted anomalies"
    value = {"folder": str(out), **msgspec.structs.asdict(truth)}
    print_result(json, value, (*_lines(truth), created))


@contextmanager
def _progress(events: int) -> Iterator[Callable[[int], None]]:
    """Context manager that shows, on the terminal's last line, the percentage of rows written.

    Yields a callback that takes the number of rows written so far.
    """
    if not sys.stderr.isatty():
        with waiting(f"{events:,} rows to be written"):
            yield lambda rows: None
        return
    try:
        yield lambda rows: STATUS_LINE.refresh(lambda: f"{rows / events:.0%} of {events:,} rows")
    finally:
        STATUS_LINE.erase()


def _lines(truth: Truth) -> Iterator[str]:
    yield (
        f"run {truth.run}: {truth.rows:,} rows, {truth.partitions:,} partitions, "
        f"{truth.brokers} brokers, {truth.epochs} controller epochs"
    )
    yield from (f"  {kind}: {count}" for kind, count in truth.counts.items() if count)
