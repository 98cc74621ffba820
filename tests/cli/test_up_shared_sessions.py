"""klamm broker on a cluster whose brokers are too many for a session each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import klamm_up


@pytest.mark.slow
def test_a_kill_says_whether_the_registration_stays(tmp_path: Path) -> None:
    arguments = ("--brokers", "41", "--controllers", "1", "--session-timeout-ms", "20000")
    with klamm_up(tmp_path, *arguments) as up:
        said = up.ok("broker", "kill", "40")
        assert said == "broker 40 is killed; its registration is deleted\n"
        assert up.json("broker", "kill", "39")["is_session_shared"] is True
        own = up.ok("broker", "kill", "0")
        assert own == "broker 0 is killed; its session expires within about 20000 ms\n"
        up.end()
