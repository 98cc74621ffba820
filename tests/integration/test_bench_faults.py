"""bench/chaos.py and bench/kill9.py on real clusters."""

from __future__ import annotations

import pytest

from bench import chaos, kill9
from klamm.lab.run.drill_run import Outcome

SHORT_SEED = 13


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_drill_of_chaos_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code = chaos.main(["--minutes", "0", "--seed", str(SHORT_SEED)])
    assert code is Outcome.PASSED, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_few_kills_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert kill9.main(["--kills", "2", "--seed", "5"]) == 0, capsys.readouterr().out
