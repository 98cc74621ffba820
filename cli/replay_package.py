"""`klamm replay package`: writes an archive of klamm for remote Spark workers to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from klamm.cluster.errors import UsageError

EXAMPLES = """
\b
Examples:
  klamm replay package --out klamm.zip
  spark-submit --master spark://host:7077 --py-files klamm.zip klamm_job.py replay run ./events
"""


def package(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The archive to create.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
) -> None:
    """Write klamm's packages as an archive for spark-submit --py-files. Commands with --master do
    not need this archive, because they send klamm's packages to the workers.
    """
    from klamm.replay.spark_cluster import write_packages
    from klamm.replay.whole_folder import cannot_be_made, parents_made

    partial = out.with_name(f"{out.name}.partial")
    try:
        if out.exists() and not (overwrite and out.is_file()):
            raise UsageError(f"{out} already exists", hint="--overwrite replaces a file")
        with parents_made(out):
            try:
                write_packages(partial)
                partial.replace(out)
            finally:
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_be_made(out, error) from error
    typer.echo(f"Written: {out}")
