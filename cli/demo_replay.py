"""The last two steps of `klamm demo`: the replay of its journal with DuckDB, and with Spark."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from klamm.lab.demo.demo import DemoEnd, DemoStep, StepBegins
from klamm.replay.diff import compare, side_of, stored_side
from klamm.replay.engines import DUCKDB, SPARK, Engine
from klamm.replay.event_table import open_table, some_damaged
from klamm.replay.ingest import make_table
from klamm.replay.opening import EngineOptions, open_engine
from klamm.replay.page import life_rows, replay_page
from klamm.replay.page_head import Replayed
from klamm.replay.run import answering
from klamm.report.page import page_html

SPARK_TITLE: Final = "Start Spark and rebuild the final states from the journal"
REPLAY_TITLE: Final = "Replay the journal and plot what happened"
CORES: Final = 2
MEMORY_MB: Final = 1024
DIFFERENCES_SHOWN: Final = 20


def replay_steps(end: DemoEnd, table: Path, page: Path) -> Generator[StepBegins | DemoStep]:
    """Replay the journal and plot the answers, then rebuild the final states with Spark.

    The page is removed if the generator is closed before the caller has printed its path.
    """
    yield StepBegins(REPLAY_TITLE)
    try:
        with open_engine(EngineOptions(DUCKDB, None, CORES, MEMORY_MB), 0, page.parent) as duckdb:
            drawn = draw_replay(duckdb, end.journal, table, page)
        yield drawn
    except BaseException:
        page.unlink(missing_ok=True)
        raise
    begun_s = time.monotonic()
    yield StepBegins(SPARK_TITLE)
    with open_engine(EngineOptions(SPARK, None, CORES, MEMORY_MB), 0, page.parent) as spark:
        start_s = time.monotonic() - begun_s
        yield compare_states(spark, end, table, start_s)


def compare_states(engine: Engine, end: DemoEnd, table: Path, start_s: float) -> DemoStep:
    """Compare the final states rebuilt from the journal with the states in ZooKeeper.

    ``start_s``: how long Spark took to start.
    """
    begun_s = time.monotonic()
    znodes = end.stored.assignments, end.stored.states, end.stored.broker_epochs
    tree = stored_side(engine, "ZooKeeper", "its znodes", *znodes)
    journal = side_of(open_table(engine, table), "the journal")
    found = compare(engine, journal, tree, DIFFERENCES_SHOWN, versions=True)
    unreadable = some_damaged(engine, table, DIFFERENCES_SHOWN)
    job_s = time.monotonic() - begun_s
    differing = len(unreadable) + found.total
    shown = ["{file}:{line}: {problem}: {text}".format(**at) for at in unreadable]
    shown += [at.text("in the journal", "in ZooKeeper") for at in found.shown]
    lines = [
        f"Spark started in {start_s:.1f} s; the job took {job_s:.1f} s.",
        f"Compared {found.partitions} partitions and {found.replicas} replicas with ZooKeeper.",
        f"{differing} differ:" if differing else "All agree.",
        *shown,
    ]
    facts = {
        "partitions": found.partitions,
        "replicas": found.replicas,
        "differing": differing,
        "disagreements": shown,
    }
    return DemoStep(SPARK_TITLE, tuple(lines), facts, round((start_s + job_s) * 1000))


def draw_replay(engine: Engine, journal: Path, table: Path, page: Path) -> DemoStep:
    """Replay the journal as `klamm replay run` does, and write the answers as an HTML page.

    ``table``: a new directory for the event table. It is not deleted.
    """
    begun_s = time.monotonic()
    make_table(engine, [journal], table)
    opened = open_table(engine, table)
    with answering(opened) as answers:
        asked = Replayed("the demo", None, [("journal", str(journal))], {})
        drawn = replay_page(asked, answers, life_rows(opened, answers))
        counts, violations = dict(answers.counts), answers.violations
    with page.open("x", encoding="utf-8") as file:
        file.write(page_html(drawn))
    figures = ", ".join(f"{figure.value} {figure.name}" for figure in drawn.figures)
    lines = [f"{figures}.", drawn.verdict, f"Open this page in a browser: {page}"]
    facts = {
        "page": str(page),
        "counts": counts,
        "violations": violations,
        "disagreements": [drawn.verdict] if violations else [],
    }
    elapsed_ms = round((time.monotonic() - begun_s) * 1000)
    return DemoStep(REPLAY_TITLE, tuple(lines), facts, elapsed_ms)
