"""The world in which `klamm drill run` runs drills: its options, and which drills it can run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from klamm.cli.completion import complete_drill
from klamm.cluster.errors import UsageError
from klamm.lab.drill import Drill
from klamm.lab.drills import library
from klamm.lab.recordings.recordings import Recording, is_recording, read_recording
from klamm.lab.run.possible_on_kafka import prepare, why_impossible
from klamm.lab.run.worlds import World
from klamm.world.kafka.jars import require_kafka_libs
from klamm.zk.java import find_java

WORLD_NAMES: Final = {
    World.SIMULATION: "simulated",
    World.ZOOKEEPER: "real",
    World.KAFKA: "on kafka",
    World.KAFKA_WITH_KLAMM: "on kafka-with-klamm",
}
"""The worlds in the output."""

DRILLS: Final = typer.Argument(
    metavar="DRILL...",
    help="Drill files, or names of shipped drills.",
    autocompletion=complete_drill,
)
OnKafka = Annotated[
    Literal["kafka", "kafka-with-klamm"] | None,
    typer.Option(
        "--on",
        help="Run on brokers of Kafka 2.8.2, under their own controller or klamm's.",
    ),
]


def chosen_world(real: bool, on: str | None) -> World:
    """Return the world that --real and --on choose. Raises UsageError if both are given."""
    if on is None:
        return World.ZOOKEEPER if real else World.SIMULATION
    if real:
        raise UsageError("give either --real or --on, but not both")
    return World(on)


def world_options(world: World) -> list[str]:
    """Return the options that choose a world."""
    if world.has_kafka:
        return ["--on", str(world)]
    return ["--real"] if world is World.ZOOKEEPER else []


def check_options(
    world: World,
    seed: int | None,
    zookeeper: str | None,
    twice: bool,
    quirks: str | None,
    page: Path | None,
) -> None:
    """Raise UsageError if the world does not have one of these options.

    Also raises EnvironmentProblem or JavaNotFound if brokers of Kafka cannot be started."""
    chosen = " ".join(world_options(world))
    is_real = world is not World.SIMULATION
    if is_real and twice:
        raise UsageError("--twice requires the simulated world", hint=f"omit {chosen}")
    if is_real and seed is not None:
        raise UsageError(f"give either --seed or {chosen}, but not both")
    if zookeeper is not None and world is not World.ZOOKEEPER:
        raise UsageError("--zookeeper requires --real", hint="add --real, or omit --zookeeper")
    if not world.has_kafka:
        return
    if quirks:
        raise UsageError(
            "--quirks is for klamm's brokers and controllers", hint=f"omit {chosen} or --quirks"
        )
    if page is not None:
        raise UsageError("--page requires klamm's own brokers", hint=f"omit {chosen} or --page")
    require_kafka_libs()
    find_java()


def why_left_out(drill: Drill, world: World) -> str | None:
    """Return why a world cannot run a drill, or None if it can."""
    if world.has_kafka:
        return why_impossible(drill, has_klamm=world is World.KAFKA_WITH_KLAMM)
    unsupported = "real only" if world is World.SIMULATION else "simulated only"
    return unsupported if drill.worlds == unsupported else None


def not_run_words(left_out: dict[str, str]) -> list[str]:
    """Describe the drills that were left out, grouped by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names.setdefault(reason, []).append(name)
    return [
        f"{len(found)} not run ({reason}): {', '.join(found)}" for reason, found in names.items()
    ]


def find_for_world(word: str, world: World, zookeeper: str | None) -> Drill | Recording:
    """Return a drill or a recording. Raises UsageError if the chosen world cannot run it."""
    path = Path(word)
    if is_recording(path):
        if world.has_kafka:
            raise UsageError(f"{word}: a recording is run on klamm's brokers", hint="omit --on")
        return read_recording(path)
    drill = library.find_drill(word)
    if world.has_kafka:
        return prepare(drill, has_klamm=world is World.KAFKA_WITH_KLAMM)
    _check_world(drill, world, zookeeper)
    return drill


def _check_world(drill: Drill, world: World, zookeeper: str | None) -> None:
    """Raise UsageError if the drill has a step that the chosen world does not support."""
    if world is World.SIMULATION:
        library.check_simulated(drill, "run it with --real")
        return
    if drill.simulated_only is not None:
        step, needs, hint = drill.simulated_only, "requires the simulated world", "without --real"
    elif zookeeper is not None and drill.real_only is not None:
        step, needs = drill.real_only, "requires klamm's embedded ZooKeeper"
        hint = "without --zookeeper"
    else:
        return
    raise UsageError(f"{drill.name}: the step '{step}' {needs}", hint=f"run it {hint}")
