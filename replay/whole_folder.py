"""A directory that is whole or not there: made as DIR.partial, renamed when all is in it.

Whatever goes wrong leaves neither a part that looks like a whole nor the loss of what was there.
Knows files, not what they mean.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cluster.errors import EnvironmentProblem, UsageError

_PARTIAL: Final = ".partial"
_OLD: Final = ".old"


class FolderKind(NamedTuple):
    """What is made: ``mark`` is the file that is written last, and that only this kind has.

    ``maker`` names the work; ``if_there`` is the hint where there is such a directory already, and
    ``if_other`` says what one without the mark is.
    """

    mark: str
    maker: str
    if_there: str
    if_other: str


def check_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> None:
    """Raises UsageError if ``folder`` is there and may not be overwritten: only one of its kind
    ever is."""
    if not folder.name:
        raise UsageError(f"{folder} cannot be made")
    if not folder.exists() and not folder.is_symlink():
        return
    if not overwrite:
        raise UsageError(f"{folder} is there already", hint=kind.if_there)
    if not (folder / kind.mark).is_file():
        raise UsageError(f"{folder} {kind.if_other} and is not overwritten")


@contextmanager
def whole_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty directory beside ``folder``, which becomes it when the block has ended well.

    The block writes the mark last. Raises UsageError as ``check_folder`` does, EnvironmentProblem
    if the disk refuses the directory.
    """
    check_folder(kind, folder, overwrite=overwrite)
    partial = folder.with_name(folder.name + _PARTIAL)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
    except OSError as error:
        if not partial.exists():
            raise EnvironmentProblem(f"{folder} cannot be made: {error.strerror}") from error
        raise UsageError(
            f"{partial} is there: another {kind.maker} is at work, or one was killed",
            hint="remove it if none is",
        ) from None
    try:
        yield partial
        assert (partial / kind.mark).is_file(), f"the block wrote no {kind.mark}"
        check_folder(kind, folder, overwrite=overwrite)
        _replace(folder, partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _replace(folder: Path, partial: Path) -> None:
    old = folder.with_name(folder.name + _OLD)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(folder, old)
    os.rename(partial, folder)
    shutil.rmtree(old, ignore_errors=True)
