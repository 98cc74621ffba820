"""Which log files belong together, and in which order they were written."""

from __future__ import annotations

from pathlib import Path

from klamm.replay.engines import Engine
from klamm.replay.sources.file_parts import Lines, read_part
from klamm.replay.sources.kafka_log_files import LogPart, files_of_brokers, plan, run_names


def test_rotated_files_are_in_the_order_they_were_written() -> None:
    names = [
        "state-change.log",
        "state-change.log.2021-09-01-10",
        "state-change.log.2021-09-01-09.gz",
        "state-change.log.2021-08-31-23.zst",
    ]
    [group] = files_of_brokers(Path("/b", name) for name in names).values()
    assert [path.name for path in group] == names[:0:-1] + names[:1]


def test_higher_rotation_numbers_are_older_files() -> None:
    names = ["controller.log", "controller.log.1", "controller.log.2.gz", "controller.log.10"]
    [group] = files_of_brokers(Path("/b", name) for name in names).values()
    assert [path.name for path in group] == names[::-1]


def test_higher_positions_of_klamms_own_files_are_newer_files() -> None:
    names = [f"controller.log{ending}" for ending in (f".{900:020}.gz", f".{1800:020}", "")]
    [group] = files_of_brokers(Path("/b", name) for name in names[::-1]).values()
    assert [path.name for path in group] == names


def test_dates_before_the_ending_order_files() -> None:
    names = ["controller-2021-09-01-1.log", "controller.2021-09-02.log.gz", "controller.log"]
    [group] = files_of_brokers(Path("/b", name) for name in names[::-1]).values()
    assert [path.name for path in group] == names


def test_logs_of_different_names_and_folders_are_apart() -> None:
    paths = [Path("/a/controller.log"), Path("/b/controller.log"), Path("/a/b1-controller.log")]
    assert files_of_brokers(paths) == {
        ("/a", "controller.log"): paths[:1],
        ("/b", "controller.log"): paths[1:2],
        ("/a", "b1-controller.log"): paths[2:],
    }


def made(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return paths


def test_a_run_is_the_folder_of_the_brokers_folders(tmp_path: Path) -> None:
    paths = made(tmp_path, "one/b0/controller.log", "one/b1/controller.log", "two/controller.log")
    assert run_names(paths) == ["one", "one", "two"]
    # A broker that wrote only the other log is one of them all the same.
    [path, _] = made(tmp_path, "three/b0/controller.log", "three/b1/state-change.log")
    assert run_names([path]) == ["three"]


def test_clusters_of_one_name_are_distinguished(tmp_path: Path) -> None:
    names = [f"{site}/kafka/b{n}/controller.log" for site in ("east", "west") for n in (0, 1)]
    paths = made(tmp_path, *names)
    assert run_names(paths) == ["east/kafka", "east/kafka", "west/kafka", "west/kafka"]
    assert run_names(paths[:2]) == ["kafka", "kafka"]
    deeper = made(tmp_path, *(f"{site}/prod/kafka/controller.log" for site in ("east", "west")))
    assert run_names(deeper) == ["east/prod/kafka", "west/prod/kafka"]


RECORD = "[2021-09-01 10:{minute:02}:00,000] INFO [Controller id=1] {text} (kafka.controller)\n"


def log(folder: Path, name: str, *texts: str) -> Path:
    """A log with one record a minute."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(RECORD.format(minute=n, text=text) for n, text in enumerate(texts)), "utf-8"
    )
    return path


def planned(
    engine: Engine, *paths: Path, part_bytes: int, zone: str | None = None
) -> list[LogPart]:
    tasks = plan(engine, paths, run=None, zone=zone, part_bytes=part_bytes)
    for task in tasks:
        assert len(task) == 1 or sum(p.part.end - p.part.begin for p in task) <= part_bytes
    return [part for task in tasks for part in task]


def lines_of(part: LogPart) -> list[tuple[int, str]]:
    found = []
    for block in read_part(part.part):
        assert isinstance(block, Lines)
        found += list(enumerate(block.data.decode().splitlines(), block.first_line))
    return found


def test_a_file_is_cut_at_records_into_parts_of_the_size(duckdb: Engine, tmp_path: Path) -> None:
    texts = ["a", "b\n\tat some.Class", "c", "d\n\tat other.Class\n\tat more", "e", "f", "g"]
    path = log(tmp_path, "controller.log", *texts)
    whole = path.read_text()
    size = len(RECORD.format(minute=0, text="a"))
    parts = planned(duckdb, path, part_bytes=2 * size)
    read = [lines_of(part) for part in parts]
    assert [line for lines in read for line in lines] == list(enumerate(whole.splitlines(), 1))
    assert all(lines[0][1].startswith("[2021") for lines in read)
    assert [len(lines) for lines in read] == [3, 4, 3]
    assert [part.before for part in parts] == [part.part.begin for part in parts]
    (one,) = planned(duckdb, path, part_bytes=len(whole))
    assert lines_of(one) == [line for lines in read for line in lines]


def test_a_part_begins_in_no_hour_that_occurs_twice(duckdb: Engine, tmp_path: Path) -> None:
    path = tmp_path / "controller.log"
    times = [f"2021-10-31 0{hour}:{minute}" for hour in (1, 2, 3) for minute in (10, 40)]
    path.write_text("".join(f"[{time}:00,000] INFO x (k)\n" for time in times))
    for zone, begins in (("Europe/Berlin", ["01:10", "01:40", "03:10", "03:40"]), ("UTC", None)):
        parts = planned(duckdb, path, part_bytes=1, zone=zone)
        assert [lines_of(part)[0][1][12:17] for part in parts] == (
            begins or [time[11:] for time in times]
        )


def test_a_line_that_an_earlier_line_announces_is_not_cut_off(
    duckdb: Engine, tmp_path: Path
) -> None:
    updated = "Successfully updated assignment of partition t-0 to x"
    path = log(
        tmp_path, "controller.log", "a", "Updating assignment of partition t-0", updated, "b"
    )
    parts = planned(duckdb, path, part_bytes=1)
    assert [len(lines_of(part)) for part in parts] == [1, 2, 1]
    assert {part.names_updates for part in parts} == {True}
    other = log(tmp_path / "other", "controller.log", "a", updated)
    assert {part.names_updates for part in planned(duckdb, other, part_bytes=1)} == {False}


def test_a_part_knows_the_epoch_in_which_it_begins(duckdb: Engine, tmp_path: Path) -> None:
    elected = "1 successfully elected as the controller. Epoch incremented to {} and epoch zk"
    older = log(tmp_path / "b1", "controller.log.1", "a", elected.format(7), "b", "c")
    ready = "Ready to serve as the new controller with epoch 8"
    newer = log(tmp_path / "b1", "controller.log", "d", ready, "e", "Resigned", "f")
    newer.write_text(newer.read_text().replace("Resigned (kafka.controller)", "Resigned (k)"))
    other = log(tmp_path / "b2", "controller.log", "g", "h")
    parts = planned(duckdb, newer, other, older, part_bytes=1)
    assert [lines_of(part)[0][1].split("] ")[2].split(" ")[0] for part in parts] == [
        *("a", "1", "b", "c"),
        *("d", "Ready", "e", "Resigned", "f"),
        *("g", "h"),
    ]
    assert [part.epoch for part in parts] == [0, 0, 7, 7, 7, 7, 8, 8, 0, 0, 0]
    assert {part.run for part in parts} == {tmp_path.name}
    sizes = [path.stat().st_size for path in (older, newer)]
    starts = [part.before for part in parts if part.part.begin == 0]
    assert starts == [0, sizes[0], sum(sizes)]


def test_text_that_looks_like_an_election_changes_no_epoch(duckdb: Engine, tmp_path: Path) -> None:
    elected = "1 successfully elected as the controller. Epoch incremented to 7 and epoch zk"
    ready = "Ready to serve as the new controller with epoch 8"
    too_large = ready.replace("8", str(1 << 23))
    texts = (elected, ready, "x: Epoch incremented to 9", too_large, "c")
    parts = planned(duckdb, log(tmp_path, "controller.log", *texts), part_bytes=1)
    assert [part.epoch for part in parts] == [0, 7, 8, 8, 8]
