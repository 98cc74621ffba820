"""`klamm drill compare`: runs drills in simulation and on brokers of Kafka, and compares them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from klamm.cli.connect import security_of
from klamm.cli.drill_world import DRILLS, WORLD_NAMES, check_options, why_left_out
from klamm.cli.errors import INCONCLUSIVE
from klamm.cli.options import AsJson, print_json, print_lines
from klamm.cli.running import ending_signals_raise, own_log, work_folder
from klamm.cli.waiting import waiting
from klamm.cluster.errors import KlammError
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.version import klamm_version
from klamm.lab.drill import Drill
from klamm.lab.drills import library
from klamm.lab.run.comparison import OF_WORLDS, WorldResult, differences, summary, worlds_that_ran
from klamm.lab.run.drill_run import play, verdict_of
from klamm.lab.run.possible_on_kafka import prepare
from klamm.lab.run.worlds import World, Worlds

EXAMPLES: Final = """
\b
Examples:
  klamm drill compare leader-loss
  klamm drill compare c1 c11 kafka-10149 --json

\b
Exit codes: 0 the worlds that can run the drills agree, 1 they differ, 12 a drill was run by
fewer than two worlds.
"""


def compare(
    drills: Annotated[list[str], DRILLS],
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the brokers' logs and files in this directory.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Run drills in simulation, and on Kafka's brokers under klamm's controller and their own.

    Prints the outcome in each world, and the partition states at the end if they differ.
    """
    for world in OF_WORLDS:
        check_options(world, None, None, False, None, None)
    found = [library.find_drill(word) for word in drills]
    results: list[dict[World, WorldResult]] = []
    with (
        ending_signals_raise(),
        work_folder(data_dir, "klamm-drill-") as folder,
        own_log(folder),
        contextlib.ExitStack() as stack,
    ):
        worlds = {}
        for world in OF_WORLDS:
            place = folder / world
            place.mkdir()
            worlds[world] = stack.enter_context(
                Worlds(place, klamm_version(), world=world, security=security_of(os.environ))
            )
        for drill in found:
            results.append({world: _result(drill, one) for world, one in worlds.items()})
            if not json:
                print_lines(summary(drill.name, results[-1]))
    if json:
        print_json([_values(one, of) for one, of in zip(found, results, strict=True)])
    if any(map(differences, results)):
        raise typer.Exit(1)
    if any(len(worlds_that_ran(one)) < 2 for one in results):
        raise typer.Exit(INCONCLUSIVE)


def _result(drill: Drill, worlds: Worlds) -> WorldResult:
    """Run a drill in one world, up to its end."""
    world = worlds.world
    reason = why_left_out(drill, world)
    if reason is not None:
        return WorldResult(None, reason)
    has_klamm = world is World.KAFKA_WITH_KLAMM
    prepared = prepare(drill, has_klamm=has_klamm) if world.has_kafka else drill
    try:
        with (
            waiting(f"{drill.name} {WORLD_NAMES[world]}"),
            worlds.open(prepared.spec(NO_QUIRKS, 0), drill.name) as driver,
        ):
            return WorldResult.of(verdict_of(play(prepared, driver)), driver)
    except KlammError as error:
        return WorldResult(None, error.message)


def _values(drill: Drill, results: dict[World, WorldResult]) -> dict[str, object]:
    return {
        "drill": drill.name,
        "worlds": {str(world): result.values() for world, result in results.items()},
        "differences": differences(results),
    }
