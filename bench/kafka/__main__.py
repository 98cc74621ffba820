"""``python -m bench.kafka``: time Kafka 2.8.2's controller alone, and print a table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.kafka.run import DEFAULT_STEPS, problems, run_kafka
from bench.kafka.steps import Result
from bench.kafka.table import HEADER, row
from klamm.cluster.errors import KlammError


def main() -> int:
    """Run the steps asked for. Returns 1 when any came out wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--partitions-per-topic", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=5)
    parser.add_argument("--steps", nargs="+", default=DEFAULT_STEPS, metavar="NAME[:COUNT]")
    parser.add_argument("--work-dir", type=Path, help="an empty folder for data and logs, kept")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--json", type=Path, help="append every result to this file, one a line")
    options = parser.parse_args()

    shown: list[Result] = []

    def show(result: Result) -> None:
        if not shown:
            print(HEADER)
        shown.append(result)
        print(row(result), flush=True)
        for problem in problems(result):
            print(f"  {result['step']}: {problem}", flush=True)
        if options.json is not None:
            with options.json.open("a") as file:
                file.write(json.dumps(result) + "\n")

    try:
        run_kafka(
            options.partitions,
            options.partitions_per_topic,
            options.brokers,
            options.steps,
            work_dir=options.work_dir,
            settings=options.settings,
            on_result=show,
        )
    except KlammError as error:
        print(f"error: {error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    return 1 if any(problems(result) for result in shown) else 0


if __name__ == "__main__":
    sys.exit(main())
