"""`klamm placement assign`, in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from typer.testing import CliRunner

from klamm.cli.main import main
from klamm.cli.placement import app

_RACKS = "0:a,5:a,3:b,4:b,1:c,2:c"
_RACKED = "--brokers 0-5 --partitions 7 --rf 3 --start-index 0 --shift 0"


def run(line: str, *more: str) -> tuple[int, str, str]:
    with (
        pytest.MonkeyPatch.context() as piped,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
            piped.delenv(name, raising=False)
        code = main(["placement", "assign", *line.split(), *more])
    return code, out.getvalue(), err.getvalue()


def test_prints_the_table_the_leaders_and_who_takes_over() -> None:
    code, out, err = run(_RACKED, "--racks", _RACKS)
    assert (code, err) == (0, "")
    assert out == (
        "Broker list: 0,3,1,5,4,2\n"
        "Start index: 0  Next replica shift: 0\n"
        "\n"
        "Assignment\n"
        "Partition  Leader  Replicas  Racks\n"
        "0          0       0,3,1     a,b,c\n"
        "1          3       3,1,5     b,c,a\n"
        "2          1       1,5,4     c,a,b\n"
        "3          5       5,4,2     a,b,c\n"
        "4          4       4,2,0     b,c,a\n"
        "5          2       2,0,3     c,a,b\n"
        "6          0       0,4,2     a,b,c\n"
        "\n"
        "Leaders per broker\n"
        "Broker  Leads  Replicas  Leads partitions  Rack\n"
        "0       2      4         0,6               a\n"
        "1       1      3         2                 c\n"
        "2       1      4         5                 c\n"
        "3       1      3         1                 b\n"
        "4       1      4         4                 b\n"
        "5       1      3         3                 a\n"
        "\n"
        "If one broker dies\n"
        "Dead  New leaders           Without a leader\n"
        "0     3 leads 0; 4 leads 6  -\n"
        "1     5 leads 2             -\n"
        "2     0 leads 5             -\n"
        "3     1 leads 1             -\n"
        "4     2 leads 4             -\n"
        "5     4 leads 3             -\n"
    )


def test_racks_in_the_order_of_the_brokers_mean_the_same() -> None:
    by_id = run(_RACKED, "--racks", _RACKS)
    listed = "--brokers 5,0,3-4,2,1 --partitions 7 --rf 3 --start-index 0 --shift 0"
    assert run(listed, "--racks", "a,a,b,b,c,c") == by_id


def test_a_terminal_gets_drawn_tables_with_racks_as_they_are_written() -> None:
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "100"}
    line = "assign --brokers 0-1 --partitions 2 --rf 2 --seed 1 --racks [red]a,b"
    result = CliRunner(env=terminal).invoke(app, line.split())
    assert result.exit_code == 0
    assert "─" in result.stdout
    assert "[red]a,b" in result.stdout


def test_an_assignment_is_printed_as_json() -> None:
    line = "--brokers 10-12 --partitions 3 --rf 1 --start-index 1 --next-replica-shift 2 --json"
    code, out, _ = run(line)
    assert code == 0
    assert json.loads(out) == {
        "brokers": [{"id": id_, "rack": None} for id_ in (10, 11, 12)],
        "broker_list": [10, 11, 12],
        "start_index": 1,
        "next_replica_shift": 2,
        "seed": None,
        "partitions": [
            {"partition": partition, "leader": leader, "replicas": [leader]}
            for partition, leader in enumerate((11, 12, 10))
        ],
        "leaders": [
            {"broker": 10, "leads": [2], "follows": []},
            {"broker": 11, "leads": [0], "follows": []},
            {"broker": 12, "leads": [1], "follows": []},
        ],
        "takeovers": [
            {"dead": 10, "new_leaders": {}, "leaderless": [2]},
            {"dead": 11, "new_leaders": {}, "leaderless": [0]},
            {"dead": 12, "new_leaders": {}, "leaderless": [1]},
        ],
    }


def test_a_seed_draws_what_java_draws_and_is_printed() -> None:
    line = "--brokers 1001-1008 --partitions 1 --replication-factor 4 --json"
    drawn = json.loads(run(line, "--seed", "80")[1])
    assert (drawn["start_index"], drawn["next_replica_shift"]) == (5, 5)
    assert drawn["partitions"][0]["replicas"] == [1006, 1004, 1005, 1007]
    unseeded = json.loads(run(line)[1])
    assert json.loads(run(line, "--seed", str(unseeded["seed"]))[1]) == unseeded


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--brokers 0-2 --partitions 0 --rf 1", "Number of partitions must be larger than 0."),
        ("--brokers 0-2 --partitions 1 --rf 0", "Replication factor must be larger than 0."),
        (
            "--brokers 0-2 --partitions 1 --rf 4",
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            "--brokers 0-2 --partitions 1 --rf 1 --racks 0:a,1:b",
            "Not all brokers have rack information for replica rack aware assignment.",
        ),
        ("--brokers 0,x --partitions 1 --rf 1", "'x' is not a broker id"),
        ("--brokers , --partitions 1 --rf 1", "'' is not a broker id"),
        ("--brokers 3-1 --partitions 1 --rf 1", "the range 3-1 is descending"),
        ("--brokers 0-2,1-3 --partitions 1 --rf 1", "broker 1,2 is listed twice"),
        ("--brokers 0-10000 --partitions 1 --rf 1", "more than 10000 brokers"),
        (
            "--brokers 2147483648 --partitions 1 --rf 1",
            "id 2147483648 exceeds the maximum of 2147483647",
        ),
        ("--brokers 0-1 --partitions 1000001 --rf 1", "exceeds the maximum of 1000000"),
        ("--brokers 0-1 --partitions 1 --rf 1 --racks a", "lists 1 racks for 2 brokers"),
        ("--brokers 0-1 --partitions 1 --rf 1 --racks a,", "a rack name is empty"),
        ("--brokers 0-1 --partitions 1 --rf 1 --racks 0:a,b", "mixes a,b,c with 0:a,1:b"),
        ("--brokers 0-1 --partitions 1 --rf 1 --racks 0:a,7:b", "broker 7 is not in --brokers"),
        ("--brokers 0-1 --partitions 1 --rf 1 --racks 0:a,0:b", "broker 0 is listed twice"),
        (
            "--brokers 0-1 --partitions 1 --rf 1 --start-index 0 --shift 0 --seed 1",
            "--seed has no effect",
        ),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(line: str, message: str) -> None:
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and message in err
    first, *hint = err.splitlines()
    assert message in first and all(line.startswith("hint: ") for line in hint)


@pytest.mark.parametrize("flag", ["--bogus", "--start-index -1", "--shift x", "--seed -1"])
def test_unknown_flags_and_values_exit_with_2(flag: str) -> None:
    code, out, err = run(f"--brokers 0-1 --partitions 1 --rf 1 {flag}")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_help_shows_examples() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "klamm placement assign --brokers 0-4 --partitions 10 --rf 3" in out
