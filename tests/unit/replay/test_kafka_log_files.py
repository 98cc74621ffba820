"""Which log files belong together, and in which order they were written."""

from __future__ import annotations

from pathlib import Path

from klamm.replay.sources.kafka_log_files import files_of_brokers, run_names


def test_rotated_files_are_in_the_order_they_were_written() -> None:
    names = [
        "state-change.log",
        "state-change.log.2021-09-01-10",
        "state-change.log.2021-09-01-09.gz",
        "state-change.log.2021-08-31-23.zst",
    ]
    [group] = files_of_brokers(Path("/b", name) for name in names).values()
    assert [path.name for path in group] == names[:0:-1] + names[:1]


def test_numbers_count_into_the_past() -> None:
    names = ["controller.log", "controller.log.1", "controller.log.2.gz", "controller.log.10"]
    [group] = files_of_brokers(Path("/b", name) for name in names).values()
    assert [path.name for path in group] == names[::-1]


def test_klamms_own_numbers_grow() -> None:
    names = [f"controller.log{ending}" for ending in (f".{900:020}.gz", f".{1800:020}", "")]
    [group] = files_of_brokers(Path("/b", name) for name in names[::-1]).values()
    assert [path.name for path in group] == names


def test_dates_before_the_ending() -> None:
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
