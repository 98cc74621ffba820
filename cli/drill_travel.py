"""`klamm drill run --until` and `--step`: stops a simulated drill at a moment, and steps from it.

Only parses commands and prints; lab/run/time_travel.py runs the drill.
"""

from __future__ import annotations

import cmd
import contextlib
import shlex
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
import typer

from klamm.cli.errors import print_error
from klamm.cli.explain import explain_subject, explained_lines
from klamm.cli.options import print_json, print_lines
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cli.status import state_lines
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted, parse_whole_number
from klamm.cluster.errors import EnvironmentProblem, KlammError, NotFound, UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.quirks import Quirks
from klamm.cluster.status import ClusterStatus
from klamm.cluster.suggestions import suggestion
from klamm.lab.drills import library
from klamm.lab.language.actions import DRILL_ACTIONS
from klamm.lab.run import text
from klamm.lab.run.time_travel import MOMENT_HINT, Timeline, TimePoint, TimeTravel, parse_moment
from klamm.lab.run.worlds import save_journal
from klamm.world.clock import SIMULATION_START_MS
from klamm.world.explain.journal_text import EventNames, change_text
from klamm.world.status import simulated_status

ROWS_SHOWN: Final = 5
BEGINNING: Final = "step 1"
_FIRST_LINE: Final = "help lists the commands, Ctrl-D ends the session"


class Travel(msgspec.Struct, frozen=True):
    """Options of `klamm drill run` with --until or --step.

    ``repeat``: the command line that repeats the run, without the name of the drill.
    """

    seed: int
    quirks: Quirks
    repeat: Sequence[str]
    data_dir: Path | None
    as_json: bool


def stop_at(word: str, moment: str, options: Travel) -> int:
    """Run a drill up to a moment and print where it is. Return the exit code."""
    with _opened(word, options) as travel:
        chosen = parse_moment(moment, travel.timeline.drill)
        screen = _Screen(travel, options)
        missed: NotFound | None = None
        try:
            with waiting(moment):
                travel.go(chosen)
        except NotFound as error:
            missed = error
        if options.as_json:
            print_json(_values(travel, options.seed))
        else:
            screen.show(ROWS_SHOWN)
            screen.show_status()
        if missed is None:
            return 0
        code = print_error(missed, options.as_json)
        return _exit_code(travel) or code


def step_through(word: str, moment: str | None, options: Travel) -> int:
    """Step through a drill with the commands on standard input. Return the exit code."""
    with _opened(word, options) as travel:
        chosen = parse_moment(moment or BEGINNING, travel.timeline.drill)
        session = _Session(travel, options, chosen)
        with _interruptible(travel) if session.is_interactive else contextlib.nullcontext():
            try:
                session.run()
            except NotFound as error:
                code = print_error(error)
                return _exit_code(travel) or code
        return _exit_code(travel)


def _exit_code(travel: TimeTravel) -> int:
    verdict = travel.timeline.verdict
    return 0 if verdict is None else int(verdict.outcome)


@contextlib.contextmanager
def _opened(word: str, options: Travel) -> Iterator[TimeTravel]:
    """Context manager that yields a drill before its beginning, and finally writes its journal."""
    travel = TimeTravel(
        library.find_text(word), library.source_of(word), options.quirks, options.seed
    )
    with (
        contextlib.closing(travel),
        ending_signals_raise(),
        work_folder(options.data_dir, "klamm-drill-") as folder,
        own_log(folder) as log,
    ):
        log.addFilter(lambda _: not travel.is_repeating)
        try:
            yield travel
        finally:
            out = folder / f"1-{travel.timeline.drill.name}"
            out.mkdir()
            save_journal(travel.timeline.driver.cluster.journal, out)


class _LineDropped(Exception):
    """Ctrl-C was pressed at the prompt: the line that was begun is dropped."""


@contextlib.contextmanager
def _interruptible(travel: TimeTravel) -> Iterator[None]:
    """Context manager in which Ctrl-C stops a run between two simulation steps.

    At the prompt, Ctrl-C raises _LineDropped."""

    def interrupt(number: int, _: FrameType | None) -> None:
        if not travel.is_running:
            raise _LineDropped
        travel.is_stopped_early = True

    earlier = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


class _Screen:
    """Prints what is new at the current moment of a drill."""

    def __init__(self, travel: TimeTravel, options: Travel) -> None:
        self._travel = travel
        self._options = options
        drill = travel.timeline.drill
        if not options.as_json:
            world = f"simulated, seed {options.seed}"
            typer.echo(text.heading(drill.name, world, drill.about))
        self.skip()

    def skip(self) -> None:
        """Regard the steps and rows so far as printed."""
        timeline = self._travel.timeline
        self._results = len(timeline.results)
        self._rows = len(timeline.driver.rows)
        self._has_ended = timeline.verdict is not None

    def show(self, rows: int) -> None:
        """Print the steps that ended, at most this many new rows, and the current moment."""
        timeline = self._travel.timeline
        for result in timeline.results[self._results :]:
            self._echo(text.step_lines(result))
        self.show_rows(min(len(timeline.driver.rows) - self._rows, rows))
        if timeline.verdict is not None and not self._has_ended:
            self._echo(text.verdict_lines(timeline.drill.name, timeline.verdict))
        self._echo([_place_text(timeline)])
        self.skip()

    def show_rows(self, count: int) -> None:
        """Print the last rows of the journal."""
        self._echo(_row_lines(self._travel.rows, count))

    def show_steps(self) -> None:
        """Print the numbered steps of the drill."""
        timeline = self._travel.timeline
        number = 0
        for step in timeline.drill.steps[timeline.drill.preparations :]:
            number += step.trigger is None
            inner = "".join(f"; {one.name}" for branch in step.branches for one in branch)
            label = "" if step.trigger is not None else number
            typer.echo(harmless_line(f"{label:>4}  {step.name}{inner}"))

    def show_explanation(self, subject: str) -> None:
        """Print the explanation of a partition or an event."""
        rows = self._travel.rows
        explained = explain_subject(subject, lambda: rows)
        self._echo(explained_lines(explained))

    def show_status(self) -> None:
        """Print the state of the cluster."""
        self._echo(state_lines(_status(self._travel.timeline)))

    def _echo(self, lines: Iterable[str]) -> None:
        print_lines(map(harmless_line, lines))


class _Session(cmd.Cmd):
    """The commands of --step. The docstring of each command is its help, after its usage."""

    def __init__(self, travel: TimeTravel, options: Travel, begin: TimePoint) -> None:
        super().__init__()
        self.is_interactive = sys.stdin.isatty()
        self.use_rawinput = self.is_interactive
        self.prompt = "klamm> " if self.is_interactive else ""
        self._travel = travel
        self._options = options
        self._begin = begin
        self._screen = _Screen(travel, options)

    def run(self) -> None:
        """Go to the first moment, then carry out commands until the end of the input.

        An error ends the session, unless commands are typed on a terminal."""
        self._attempt(lambda: self._move(lambda: self._travel.go(self._begin)))
        if self.is_interactive:
            typer.echo(_FIRST_LINE)
        while True:
            try:
                return self.cmdloop()
            except _LineDropped:
                typer.echo()

    # -- commands: the first line of a docstring is the usage and a summary

    def do_next(self, words: str) -> None:
        """next [N]: run until the journal has N more rows"""
        count = _count(words)
        self._move(lambda: self._travel.next_rows(count), rows=count)

    def do_step(self, words: str) -> None:
        """step [N]: run to the beginning of the next step of the drill, or of the N-th"""
        self._move(lambda: self._travel.next_steps(_count(words)))

    def do_advance(self, words: str) -> None:
        """advance [N]: run N simulation steps"""
        self._move(lambda: self._travel.advance(_count(words)))

    def do_until(self, words: str) -> None:
        """until MOMENT: run to a moment: row 78, 6.4s, step 5, or on: {kind: broker_offline}"""
        moment = self._moment(words)
        self._move(lambda: self._travel.go(moment))

    def do_continue(self, words: str) -> None:
        """continue: run to the end of the drill, with all its checks"""
        self._move(self._travel.finish)

    def do_back(self, words: str) -> None:
        """back [N], back to MOMENT: go back N rows, or to a moment; forget what was done since"""
        to, _, moment_text = words.partition(" ")
        if to == "to":
            moment = self._moment(moment_text)
            self._return(lambda: self._travel.back_to(moment))
        else:
            self._return(lambda: self._travel.back(_count(words)))

    def do_do(self, words: str) -> None:
        """do STEP: add a step to the drill here, and run it: do kill: 1"""
        if not words:
            raise UsageError("do needs a step", hint="as in do kill: 1")
        self._move(lambda: self._travel.do(words))

    def do_where(self, words: str) -> None:
        """where: show the current moment"""
        self._screen.show(0)

    def do_steps(self, words: str) -> None:
        """steps: list the steps of the drill, with their numbers"""
        self._screen.show_steps()

    def do_status(self, words: str) -> None:
        """status: show the state of the cluster, as klamm status does"""
        self._screen.show_status()

    def do_journal(self, words: str) -> None:
        """journal [N]: show the last N rows of the journal"""
        self._screen.show_rows(_count(words, 20))

    def do_explain(self, words: str) -> None:
        """explain PARTITION|EVENT: explain t-0, or event #17, as klamm explain does"""
        if not words:
            raise UsageError("explain needs a partition or an event", hint="as in explain t-0")
        self._screen.show_explanation(words)

    def do_save(self, words: str) -> None:
        """save FILE: write the drill with the steps that were added, which repeats this run"""
        if not words:
            raise UsageError("save needs the name of a file", hint="as in save fork.yaml")
        path = Path(words)
        try:
            with path.open("x") as file:
                file.write(self._travel.text)
        except OSError as error:
            raise EnvironmentProblem(f"{path} cannot be written: {error.strerror}") from error
        again = shlex.join(["klamm", "drill", "run", str(path), *self._options.repeat])
        typer.echo(f"repeat it with: {again}")

    def do_quit(self, words: str) -> bool:
        """quit: end the session"""
        return True

    def do_EOF(self, words: str) -> bool:
        """Ctrl-D: end the session"""
        if self.is_interactive:
            typer.echo()
        return True

    def do_help(self, words: str) -> None:
        """help: list the commands"""
        for name in self.get_names():
            if name.startswith("do_"):
                typer.echo(f"  {getattr(self, name).__doc__}")

    # -- how commands are read and carried out

    def onecmd(self, line: str) -> bool:
        """Carry out a line. Return True to end the session."""
        return self._attempt(lambda: bool(super(_Session, self).onecmd(line.strip())))

    def emptyline(self) -> bool:
        """Do nothing for an empty line."""
        return False

    def default(self, line: str) -> None:
        """Raise UsageError for an unknown command."""
        word = line.split()[0]
        names = [name.removeprefix("do_") for name in self.get_names() if name.startswith("do_")]
        raise UsageError(f"unknown command '{word}'", hint=suggestion(word, names, "try help"))

    def complete_do(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Complete the first word of a step."""
        return [f"{word}: " for word in DRILL_ACTIONS if word.startswith(text)]

    def _attempt(self, command: Callable[[], bool | None]) -> bool:
        try:
            return bool(command())
        except KlammError as error:
            if not self.is_interactive:
                raise
            print_error(error)
            return False

    def _move(self, move: Callable[[], None], rows: int = ROWS_SHOWN) -> None:
        before = self._travel.timeline.place
        try:
            with waiting("the next moment"):
                move()
        except KlammError:
            if self._travel.timeline.place != before:
                self._screen.show(rows)
            raise
        self._screen.show(rows)

    def _return(self, move: Callable[[], None]) -> None:
        with waiting("the earlier moment"):
            move()
        self._screen.skip()
        self._screen.show(0)

    def _moment(self, words: str) -> TimePoint:
        if not words:
            raise UsageError("a moment is missing", hint=MOMENT_HINT)
        return parse_moment(words, self._travel.timeline.drill)


def _count(words: str, default: int = 1) -> int:
    if not words:
        return default
    number = parse_whole_number(words)
    if number is None or not 1 <= number < 2**31:
        raise UsageError(f"'{words}' is not a number of steps or rows", hint="write 1 or more")
    return number


def _place_text(timeline: Timeline) -> str:
    """Return where a drill stands, as one line of text."""
    rows, at_s = len(timeline.driver.rows), timeline.driver.elapsed_ms / 1000
    return f"row {rows}, {at_s:.3f} s, {_step_text(timeline)}"


def _step_text(timeline: Timeline) -> str:
    number, step = timeline.number, timeline.step
    if timeline.verdict is not None:
        return "at the end"
    if step is None and number is not None:
        return "after the last step"
    if step is None:
        name = "the final check"
    elif number is None:
        name = f"'{step.name}'"
    else:
        name = f"step {number} of {timeline.steps_in_turn} ({step.name})"
    if timeline.is_before_step:
        return f"before {name}"
    elapsed_ms, steps_run = timeline.since_step
    steps = counted(steps_run, "simulation step")
    return f"in {name}, {elapsed_ms / 1000:.3f} s and {steps} after its beginning"


def _row_lines(rows: Sequence[JournalRow], count: int) -> list[str]:
    """Return the last rows of a journal as lines: number, simulated time, and change."""
    names, lines = EventNames(), deque[str](maxlen=count)
    for number, row in enumerate(rows, 1):
        values = msgspec.to_builtins(row)
        names.see(values)
        if number > len(rows) - count:
            at_s = (row.t_ms - SIMULATION_START_MS) / 1000
            lines.append(f"{number:>6} {at_s:9.3f} s  {change_text(values, names)}")
    return list(lines)


def _values(travel: TimeTravel, seed: int) -> dict[str, Any]:
    """Return the current moment of a drill as plain values."""
    timeline = travel.timeline
    return {
        "drill": timeline.drill.name,
        "seed": seed,
        "row": len(timeline.driver.rows),
        "at_ms": round(timeline.driver.elapsed_ms, 3),
        "step": {
            "number": timeline.number,
            "name": None if timeline.step is None else timeline.step.name,
            "has_begun": not timeline.is_before_step,
            "elapsed_ms": round(timeline.since_step.at_ms, 3),
            "advance": timeline.since_step.steps_run,
        },
        "steps": [text.step_values(result) for result in timeline.results],
        "verdict": None if timeline.verdict is None else text.verdict_values(timeline.verdict),
        "rows": timeline.driver.rows[-ROWS_SHOWN:],
        "status": _status(timeline),
    }


def _status(timeline: Timeline) -> ClusterStatus:
    return simulated_status(timeline.driver.cluster, timeline.driver.store)
