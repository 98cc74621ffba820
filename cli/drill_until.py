"""`klamm drill run --until`: stops a simulated drill at a moment, and shows where it is.

Only prints; lab/run/until.py runs the drill.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from klamm.cli.errors import print_error
from klamm.cli.options import print_json, print_lines
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cli.status import state_lines
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import NotFound
from klamm.cluster.journal import JournalRow
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import Quirks
from klamm.lab.drill import Drill
from klamm.lab.run import text
from klamm.lab.run.until import RunUntil, parse_moment
from klamm.lab.run.worlds import save_journal
from klamm.world.clock import SIMULATION_START_MS
from klamm.world.explain.journal_text import EventNames, change_text
from klamm.world.status import simulated_status

_ROWS_SHOWN: Final = 5


def run_until(
    drill: Drill, moment: str, seed: int, quirks: Quirks, data_dir: Path | None, *, as_json: bool
) -> int:
    """Run a drill up to a moment and print where it is. Return the exit code."""
    run, missed = RunUntil(drill, quirks, seed), None
    with (
        ending_signals_raise(),
        work_folder(data_dir, "klamm-drill-") as folder,
        own_log(folder),
    ):
        chosen = parse_moment(moment, drill)
        if not as_json:
            typer.echo(text.heading(drill.name, f"simulated, seed {seed}", drill.about))
        try:
            with waiting(moment):
                run.run(chosen)
        except NotFound as error:
            missed = error
        finally:
            out = folder / f"1-{drill.name}"
            out.mkdir()
            save_journal(run.driver.cluster.journal, out)
        if as_json:
            print_json(_values(run, seed))
        else:
            _print(run)
    if missed is None:
        return 0
    code = print_error(missed, as_json)
    assert run.verdict is not None
    return int(run.verdict.outcome) or code


def _print(run: RunUntil) -> None:
    """Print the steps that ended, the last rows, the moment, and the state of the cluster."""
    lines = [line for result in run.results for line in text.step_lines(result)]
    lines += _last_rows(run.driver.rows)
    if run.verdict is not None:
        lines += text.verdict_lines(run.drill.name, run.verdict)
    at_s = run.driver.elapsed_ms / 1000
    lines.append(f"row {len(run.driver.rows)}, {at_s:.3f} s, {_step_text(run)}")
    lines += state_lines(simulated_status(run.driver.cluster, run.driver.store))
    print_lines(map(harmless_line, lines))


def _step_text(run: RunUntil) -> str:
    number, step = run.number, run.step
    if run.verdict is not None:
        return "at the end"
    if step is None and number is not None:
        return "after the last step"
    if step is None:
        name = "the final check"
    elif number is None:
        name = f"'{step.name}'"
    else:
        name = f"step {number} of {run.steps_in_turn} ({step.name})"
    if run.is_before_step:
        return f"before {name}"
    elapsed_ms, steps_run = run.since_step
    steps = counted(steps_run, "simulation step")
    return f"in {name}, {elapsed_ms / 1000:.3f} s and {steps} after its beginning"


def _last_rows(rows: Sequence[JournalRow]) -> list[str]:
    """Return the last rows of a journal as lines: number, simulated time, and change."""
    names, lines = EventNames(), deque[str](maxlen=_ROWS_SHOWN)
    for number, row in enumerate(rows, 1):
        values = msgspec.to_builtins(row)
        names.see(values)
        if number > len(rows) - _ROWS_SHOWN:
            at_s = (row.t_ms - SIMULATION_START_MS) / 1000
            lines.append(f"{number:>6} {at_s:9.3f} s  {change_text(values, names)}")
    return list(lines)


def _values(run: RunUntil, seed: int) -> dict[str, Any]:
    """Return where a drill is as plain values."""
    return {
        "drill": run.drill.name,
        "seed": seed,
        "row": len(run.driver.rows),
        "at_ms": round(run.driver.elapsed_ms, 3),
        "step": {
            "number": run.number,
            "name": None if run.step is None else run.step.name,
            "has_begun": not run.is_before_step,
            "elapsed_ms": round(run.since_step.at_ms, 3),
            "advance": run.since_step.steps_run,
        },
        "steps": [text.step_values(result) for result in run.results],
        "verdict": None if run.verdict is None else text.verdict_values(run.verdict),
        "rows": run.driver.rows[-_ROWS_SHOWN:],
        "status": simulated_status(run.driver.cluster, run.driver.store),
    }
