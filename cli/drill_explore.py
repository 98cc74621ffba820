"""`klamm drill explore`: explores every state that a small cluster can reach.

Only parses options and prints; drills/exploring.py explores the states.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, Final

import typer

from klamm.cli.options import (
    AsJson,
    Jobs,
    QuirkNames,
    comma_separated,
    print_json,
    print_lines,
    print_result,
)
from klamm.cli.running import ending_signals_raise
from klamm.cli.terminal import STATUS_LINE
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted, parse_whole_number
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import parse_quirks, quirk_options
from klamm.drills import exploring
from klamm.drills.exploration import SearchSpace, parse_scope
from klamm.drills.exploring import Explored
from klamm.drills.processes import print_no_warnings
from klamm.drills.run import Outcome

EXAMPLES: Final = """
\b
Examples:
  klamm drill explore                                                  # minutes
  klamm drill explore --candidates 1 --replicas 0 --action delete       # seconds
  klamm drill explore --replicas 0,1 --action "kill 1" --action "start 1"  # minutes
  klamm drill explore --action "shutdown 1" --quirks C7
  klamm drill explore --replicas 0,1 --action "kill 1" --path 0.0.0

\b
Exit codes: 0 all states were explored and no invariant is violated, 2 an option is invalid, 10 an
invariant was violated, 12 inconclusive: --max-states was reached.
"""
_ACTIONS: Final = ("kill 1", "start 1")


def explore(
    brokers: Annotated[int, typer.Option(min=1, max=5, help="Number of brokers.")] = 2,
    replicas: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID,..",
            help="Replicas of a partition of topic t; repeat it for more partitions. "
            "[default: 0,1]",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of controller candidates, from broker 0 on. [default: all]"
        ),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTION",
            help="An action that may happen once, at any time: kill ID, start ID, expire ID, "
            "shutdown ID, create ID,.., delete, reassign ID,.. or elect. Repeat it for more. "
            "[default: kill 1, start 1]",
        ),
    ] = None,
    quirks: QuirkNames = None,
    path: Annotated[
        str | None,
        typer.Option(metavar="N.N..", help="Only replay these choices, and print each step."),
    ] = None,
    max_states: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many states. [default: no limit]")
    ] = None,
    jobs: Jobs = None,
    json: AsJson = False,
) -> None:
    """Explore every state that a small cluster can reach, and check all invariants in each one.

    The controller, the brokers and ZooKeeper run in simulation. Every order of events, messages and
    actions is tried, breadth first. A violation is printed with a shortest path to it.
    """
    names = parse_quirks(comma_separated(quirks))
    actions = _ACTIONS if action is None else action
    scope = parse_scope(brokers, candidates or brokers, replicas or ["0,1"], actions, names)
    print_no_warnings()
    with ending_signals_raise():
        if path is not None:
            raise typer.Exit(_replay(scope, _choices(path), as_json=json))
        progress, seconds = _explore(scope, jobs or os.cpu_count() or 1, max_states, quiet=json)
    outcome = _outcome(progress)
    values = _values(scope, progress, seconds) | {"exit_code": int(outcome)}
    if json:
        print_json(values)
    else:
        end = f"; inconclusive: stopped at --max-states {max_states}"
        typer.echo(_summary(progress, seconds) + (end if outcome is Outcome.INCONCLUSIVE else ""))
        if progress.violation is not None:
            print_lines(_violation_lines(values))
    raise typer.Exit(int(outcome))


def _explore(
    scope: SearchSpace, jobs: int, max_states: int | None, *, quiet: bool
) -> tuple[Explored, float]:
    is_live = not quiet and sys.stderr.isatty()
    began_s = time.monotonic()
    progress = Explored()
    try:
        with nullcontext() if is_live or quiet else waiting("all states to be explored"):
            for progress in exploring.explore(scope, jobs, max_states):
                if is_live:
                    STATUS_LINE.refresh(partial(_summary, progress, time.monotonic() - began_s))
    except KeyboardInterrupt:
        STATUS_LINE.erase()
        seconds = time.monotonic() - began_s
        print_result(quiet, _values(scope, progress, seconds), [_summary(progress, seconds)])
        raise
    finally:
        STATUS_LINE.erase()
    return progress, time.monotonic() - began_s


def _outcome(progress: Explored) -> Outcome:
    if progress.violation is not None:
        return Outcome.UNSAFE
    return Outcome.PASSED if progress.is_complete else Outcome.INCONCLUSIVE


def _summary(progress: Explored, seconds: float) -> str:
    rate = progress.states / max(seconds, 0.001)
    text = (
        f"{counted(progress.states, 'state')}, {counted(progress.transitions, 'transition')}, "
        f"depth {progress.depth} ({rate:.0f} states/s)"
    )
    return f"{text}: complete" if progress.is_complete else text


def _replay(scope: SearchSpace, path: tuple[int, ...], *, as_json: bool) -> int:
    steps: list[str] = []
    violation = None
    for text, state in exploring.make_steps(scope, path):
        steps.append(text)
        violation = state.violation()
        if not as_json:
            typer.echo(f"{len(steps)}. {text}")
    code = int(Outcome.PASSED if violation is None else Outcome.UNSAFE)
    if as_json:
        found = None if violation is None else violation._asdict()
        print_json({"exit_code": code, "steps": steps, "violation": found})
    elif violation is not None:
        typer.echo(f"{violation.name}: {violation.seen}")
    return code


def _choices(path: str) -> tuple[int, ...]:
    words = path.split(".")
    choices = [choice for word in words if (choice := parse_whole_number(word)) is not None]
    if len(choices) < len(words):
        raise UsageError(f"--path {path} is not a list of choices", hint="e.g. 0.0.1")
    return tuple(choices)


def _values(scope: SearchSpace, progress: Explored, seconds: float) -> dict[str, Any]:
    violation = progress.violation
    values: dict[str, Any] = {
        "states": progress.states,
        "transitions": progress.transitions,
        "depth": progress.depth,
        "complete": progress.is_complete,
        "seconds": round(seconds, 3),
        "violation": None,
    }
    if violation is not None:
        path = ".".join(map(str, progress.path))
        words = ["klamm", "drill", "explore", "--brokers", str(scope.brokers)]
        words += ["--candidates", str(scope.candidates)]
        for replicas in scope.replicas:
            words += ["--replicas", ",".join(map(str, replicas))]
        for action in scope.actions:
            words += ["--action", action]
        words += quirk_options(scope.quirks)
        values["violation"] = {
            **violation._asdict(),
            "steps": [text for text, _ in exploring.make_steps(scope, progress.path)],
            "repeat": shlex.join([*words, "--path", path]),
        }
    return values


def _violation_lines(values: dict[str, Any]) -> list[str]:
    violation = values["violation"]
    steps = [f"  {number}. {text}" for number, text in enumerate(violation["steps"], 1)]
    return [
        f"{violation['name']}: {violation['seen']}",
        *steps,
        f"repeat it with: {violation['repeat']}",
    ]
