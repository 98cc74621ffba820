"""Runs the text of a drill in simulation, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import parse_quirks
from klamm.lab.drills.library import check_simulated
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.page.page import drill_headline, run_page
from klamm.lab.page.trace import RunTrace
from klamm.lab.python.arguments import call_text, check_is_text, quirk_words, whole_number
from klamm.lab.python.errors import ClusterError
from klamm.lab.run.drill_run import Outcome, play, verdict_of
from klamm.lab.run.runner import StepResult

__tracebackhide__ = True
_NAME = "drill"


class DrillError(ClusterError):
    """A drill did not pass. ``page_text``: a page (HTML) that shows its run."""

    def __init__(self, message: str, *, replay: str, page: str) -> None:
        super().__init__(message, replay=replay)
        self.page_text = page


def run_drill(text: str, *, seed: int = 0, quirks: Sequence[str] = ()) -> None:
    """Run a drill, given as the text of a drill file, in a simulated cluster.

    Raises ClusterError if the drill is invalid or does not pass. ``quirks``: known bugs of Kafka
    2.8.2 to reproduce, such as KAFKA-13972.
    """
    options = {"seed": seed, **({"quirks": quirks} if quirks else {})}
    replay = call_text("run_drill", options, "DRILL")
    try:
        check_is_text("drill", text)
        whole_number("seed", seed, 0)
        drill = parse_drill(text, _NAME)
        check_simulated(drill, "run it with klamm drill run --real")
        driver = SimulatedDriver(drill.simulated_world(parse_quirks(quirk_words(quirks)), seed))
    except UsageError as error:
        raise ClusterError(error.message, replay=replay, hint=error.hint) from None
    trace = RunTrace(driver)
    results: list[StepResult] = []
    verdict = verdict_of(play(drill, driver), results.append)
    if verdict.outcome is not Outcome.PASSED:
        found = [f"{failure.place}: {failure}" for failure in verdict.failures]
        page = run_page(drill_headline(drill, verdict, f"seed {seed}", replay), trace, results)
        raise DrillError("\n".join(found), replay=replay, page=page)
