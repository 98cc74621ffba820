"""The directory of an event table while it is made: DIR.partial, renamed once it is whole.

Whatever goes wrong leaves neither a part that looks like a whole nor the loss of what was there.
Knows nothing of what is in it but the manifest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster.errors import UsageError
from replay.event_table import MANIFEST, is_table

_PARTIAL: Final = ".partial"
_OLD: Final = ".old"


@contextmanager
def new_table_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty directory beside ``folder``, which becomes it when the block has ended well.

    The block writes the manifest last. Raises UsageError if ``folder`` is there and may not be
    overwritten: only a table may, never another directory.
    """
    folder = Path(os.path.abspath(folder))
    _check(folder, overwrite=overwrite)
    partial = folder.with_name(folder.name + _PARTIAL)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.mkdir()
    except FileExistsError:
        raise UsageError(
            f"{partial} is there: another ingest is at work, or one was killed",
            hint="remove it if none is",
        ) from None
    try:
        yield partial
        assert (partial / MANIFEST).is_file(), "the block wrote no manifest"
        _replace(folder, partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _check(folder: Path, *, overwrite: bool) -> None:
    if not folder.name:
        raise UsageError(f"{folder} cannot be made")
    if not folder.exists():
        return
    if not overwrite:
        raise UsageError(f"{folder} is there already", hint="--overwrite replaces an event table")
    if not is_table(folder):
        raise UsageError(f"{folder} is no event table and is not overwritten")


def _replace(folder: Path, partial: Path) -> None:
    old = folder.with_name(folder.name + _OLD)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(folder, old)
    os.rename(partial, folder)
    shutil.rmtree(old, ignore_errors=True)
