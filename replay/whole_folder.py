"""A directory that is whole or not there: made as DIR.partial, renamed when all is in it.

Whatever goes wrong leaves neither a part that looks like a whole nor the loss of what was there.
Knows files, not what they mean.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem, UsageError

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
    ever is. Raises EnvironmentProblem if nobody may look there."""
    if not folder.name:
        raise UsageError(f"{folder} cannot be made")
    try:
        if not folder.exists() and not folder.is_symlink():
            return
        is_kind = (folder / kind.mark).is_file()
    except OSError as error:
        raise cannot_be_made(folder, error) from error
    if not overwrite:
        raise UsageError(f"{folder} is there already", hint=kind.if_there)
    if not is_kind:
        raise UsageError(f"{folder} {kind.if_other} and is not overwritten")


def cannot_be_made(path: Path, error: OSError) -> EnvironmentProblem:
    """What the disk says, of the path that was asked for."""
    return EnvironmentProblem(
        f"{path} cannot be made: {error.strerror}", hint="--out names what can be made and written"
    )


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """The directories above a path, which are gone again if the block fails and were not there.

    Raises EnvironmentProblem if the disk refuses them.
    """
    missing: list[Path] = []
    try:
        try:
            missing += [folder for folder in path.parents if not folder.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_be_made(path, error) from error
        yield
    except BaseException:
        for folder in missing:
            # Somebody else may have put something there meanwhile.
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def whole_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty directory beside ``folder``, which becomes it when the block has ended well.

    The block writes the mark last. Raises UsageError as ``check_folder`` does, EnvironmentProblem
    if the disk refuses the directory.
    """
    check_folder(kind, folder, overwrite=overwrite)
    partial = folder.with_name(folder.name + _PARTIAL)
    with parents_made(folder):
        _make(kind, folder, partial)
        try:
            yield partial
            assert (partial / kind.mark).is_file(), f"the block wrote no {kind.mark}"
            check_folder(kind, folder, overwrite=overwrite)
            _replace(folder, partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _make(kind: FolderKind, folder: Path, partial: Path) -> None:
    try:
        partial.mkdir()
    except FileExistsError:
        raise UsageError(
            f"{partial} is there: another {kind.maker} is at work, or one was killed",
            hint="remove it if none is",
        ) from None
    except OSError as error:
        raise cannot_be_made(folder, error) from error


def _replace(folder: Path, partial: Path) -> None:
    old = folder.with_name(folder.name + _OLD)
    try:
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(folder, old)
        os.rename(partial, folder)
    except OSError as error:
        raise cannot_be_made(folder, error) from error
    shutil.rmtree(old, ignore_errors=True)
