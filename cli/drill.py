"""`klamm drill`: runs, shows and checks drills, i.e. scripted failures.

Parses options and prints only. drills/language.py is the compiler, drills/run.py the runner.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from klamm.cli.command_loading import command_group
from klamm.cli.connect import security_of
from klamm.cli.options import AsJson, print_json
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import NAMES as QUIRK_NAMES
from klamm.cluster.quirks import Quirks, parse_quirks
from klamm.cluster.version import klamm_version
from klamm.drills import library, text
from klamm.drills.language import read_drill
from klamm.drills.recordings import Recording, compare, is_recording, read_recording
from klamm.drills.run import Outcome, Verdict, play, worst
from klamm.drills.values import Drill
from klamm.drills.worlds import Worlds

_RUN_EXAMPLES: Final = """
\b
Examples:
  klamm drill run leader-loss
  klamm drill run leader-loss controller-loss --seed 7 --quirks 2.8.2
  klamm drill run mine.yaml --real --data-dir ./drill
  klamm drill run mine.yaml --real --zookeeper localhost:2181/drills --json

\b
Exit codes: 0 all drills passed, 1 a step failed or an expectation did not hold, 2 a file or an
option is invalid, 10 a broker or the controller disagrees with ZooKeeper at the end, 11 a wait
timed out, 12 inconclusive.
"""
_EXAMPLES: Final = """
\b
Examples:
  klamm drill list
  klamm drill run leader-loss
  klamm drill show leader-loss > mine.yaml
  klamm drill check mine.yaml
"""

app = command_group(
    help="Scripted failures: run them in a simulated world or for real.",
    epilog=_EXAMPLES,
)


@app.command("run", epilog=_RUN_EXAMPLES)
def run(
    drills: Annotated[
        list[str],
        typer.Argument(metavar="DRILL", help="File of a drill, or name of a shipped drill."),
    ],
    real: Annotated[
        bool,
        typer.Option(help="Run on a real ZooKeeper in real time, not in a simulated world."),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the simulated world's choices. [default: 0]")
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT/CHROOT",
            help="With --real: an existing ZooKeeper. [default: a private one]",
        ),
    ] = None,
    quirks: Annotated[
        str | None,
        typer.Option(
            metavar="2.8.2|KAFKA-N,..",
            help="Reproduce known bugs of Kafka 2.8.2: all, or those listed.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep each drill's journal, and ZooKeeper's data, in this directory."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Run drills one after the other. In the simulated world the same seed gives byte-identical
    output. Recordings of real Kafka brokers (.json) are run and compared."""
    if real and seed is not None:
        raise UsageError("give either --seed or --real, not both")
    if zookeeper is not None and not real:
        raise UsageError("--zookeeper requires --real", hint="add --real, or omit --zookeeper")
    parsed = parse_quirks([] if quirks is None else [q.strip() for q in quirks.split(",")])
    found = [_find(word) for word in drills]
    for drill in found:
        if isinstance(drill, Drill):
            _check_world(drill, real, zookeeper)
    with (
        ending_signals_raise(),
        work_folder(data_dir, "klamm-drill-") as folder,
        own_log(folder),
        Worlds(
            folder,
            klamm_version(),
            is_real=real,
            zookeeper=zookeeper,
            security=security_of(os.environ),
        ) as worlds,
    ):
        runs = _Runs(worlds, parsed, seed or 0, quiet=json)
        outcomes = [runs.run(drill, word) for drill, word in zip(found, drills, strict=True)]
    code = worst(outcomes)
    if json:
        print_json({"exit_code": int(code), "drills": runs.reports})
    elif len(outcomes) > 1:
        passed = outcomes.count(Outcome.PASSED)
        typer.echo(f"{passed} of {len(outcomes)} drills passed")
    if data_dir is not None and not json:
        typer.echo(f"Journals: {data_dir}")
    raise typer.Exit(int(code))


@app.command("list")
def list_drills(json: AsJson = False) -> None:
    """List the shipped drills."""
    drills = [library.named_drill(name) for name in library.NAMES]
    if json:
        print_json([{"name": d.name, "about": d.about, "worlds": d.worlds} for d in drills])
        return
    width = max(len(drill.name) for drill in drills)
    for drill in drills:
        where = "" if drill.worlds == "both" else f"({drill.worlds}) "
        typer.echo(f"{drill.name:{width}}  {where}{drill.about}")


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of a shipped drill.")]) -> None:
    """Print the file of a shipped drill, to read it or as a template for a new one."""
    typer.echo(library.named_text(name), nl=False)


@app.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of drills.")],
) -> None:
    """Check the files of drills without running them. Exit code 2 at the first invalid file."""
    for path in files:
        drill = read_drill(path)
        typer.echo(f"{path}: {drill.name} is well-formed")


def _find(word: str) -> Drill | Recording:
    path = Path(word)
    return read_recording(path) if is_recording(path) else library.find_drill(word)


def _check_world(drill: Drill, is_real: bool, zookeeper: str | None) -> None:
    """Raise UsageError for a step that the chosen world does not support."""
    if is_real and drill.simulated_only is not None:
        step, needs, hint = drill.simulated_only, "requires the simulated world", "without --real"
    elif not is_real and drill.real_only is not None:
        step, needs, hint = drill.real_only, "requires real ZooKeeper servers", "with --real"
    elif zookeeper is not None and drill.real_only is not None:
        step, needs = drill.real_only, "requires klamm's embedded ZooKeeper"
        hint = "without --zookeeper"
    else:
        return
    raise UsageError(f"{drill.name}: the step '{step}' {needs}", hint=f"run it {hint}")


class _Runs:
    """Runs drills and prints their steps and verdicts, or collects them for JSON."""

    def __init__(self, worlds: Worlds, quirks: Quirks, seed: int, *, quiet: bool) -> None:
        self._worlds = worlds
        self._quirks = quirks
        self._seed = seed
        self._quiet = quiet
        self.reports: list[dict[str, Any]] = []

    def run(self, drill: Drill | Recording, word: str) -> Outcome:
        """Run a drill or a recording and return its outcome."""
        world = "real" if self._worlds.is_real else f"simulated, seed {self._seed}"
        self._say(text.heading(drill.name, world, drill.about))
        spec = drill.spec(self._quirks, self._seed)
        steps: list[dict[str, Any]] = []
        verdict: Verdict | None = None
        own = None
        if isinstance(drill, Drill) and drill.real_only is not None:
            own = drill.cluster.zookeeper_servers
        with self._worlds.open(spec, drill.name, own) as driver:
            played = compare(drill, driver) if isinstance(drill, Recording) else play(drill, driver)
            with contextlib.closing(played):
                for part in played:
                    if isinstance(part, Verdict):
                        verdict = part
                        break
                    steps.append(text.step_values(part))
                    self._say(*text.step_lines(part))
        assert verdict is not None, "a drill ends with a verdict"
        repeat = self._command(word)
        self._say(*text.verdict_lines(drill.name, verdict))
        if verdict.outcome is not Outcome.PASSED:
            self._say(f"repeat it with: {repeat}")
        self.reports.append(
            {
                "drill": drill.name,
                "world": "real" if self._worlds.is_real else "simulated",
                "seed": None if self._worlds.is_real else self._seed,
                **text.verdict_values(verdict),
                "repeat": repeat,
                "steps": steps,
            }
        )
        return verdict.outcome

    def _command(self, word: str) -> str:
        """Return the command that repeats the run."""
        words = ["klamm", "drill", "run", word]
        words += ["--real"] if self._worlds.is_real else ["--seed", str(self._seed)]
        chosen = [name for name, field in QUIRK_NAMES.items() if getattr(self._quirks, field)]
        if chosen:
            every = len(chosen) == len(QUIRK_NAMES)
            words += ["--quirks", "2.8.2" if every else ",".join(chosen)]
        return shlex.join(words)

    def _say(self, *lines: str) -> None:
        if not self._quiet:
            for line in lines:
                typer.echo(line)
