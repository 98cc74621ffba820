"""The line of offline partitions, of intervals of time."""

from __future__ import annotations

from klamm.replay.data_loss import DataLoss
from klamm.replay.listings import Listing
from klamm.replay.page_plots import offline_plots
from klamm.replay.run import Answers

RUN = {"source": "journal", "run": "r"}


def test_no_interval_hides_who_was_offline_in_it() -> None:
    intervals = (
        {**RUN, "bucket_ms": -10, "offline": 2, "most": 9},
        {**RUN, "bucket_ms": 0, "offline": 0, "most": 3},
        {**RUN, "bucket_ms": 50, "offline": 0, "most": 15},
        {**RUN, "bucket_ms": 70, "offline": 4, "most": 4},
    )
    listings = {
        "offline_intervals": Listing(total=1),
        "offline_timeline": Listing(intervals, len(intervals)),
        "epochs": Listing((RUN,), 1),
    }
    assert not listings["offline_intervals"].is_whole
    nothing = DataLoss({}, 0, Listing(), Listing())
    (plot,) = offline_plots(Answers({}, 0, 90, 10, listings, {}, nothing), 0)
    assert plot.steps.points == [
        *((0, 0), (0, 2), (0, 3), (10, 0)),
        *((50, 15), (60, 0), (70, 4), (80, 4)),
    ]
    assert plot.end_ms == 90
    (empty,) = offline_plots(Answers({}, 0, None, 10, listings, {}, nothing), 0)
    assert empty.end_ms == 0
