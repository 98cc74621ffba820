"""Atomic creation of an output directory: written as DIR.partial, renamed when complete.

A failure leaves neither a partial directory under the final name nor a damaged old one. Handles
files only; their content is the caller's.
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
    """A kind of output directory, recognized by the file ``mark``, which is written last.

    ``maker`` names the job in errors. ``if_there``: hint if the directory already exists.
    ``if_other``: end of the error for an existing directory without the mark.
    """

    mark: str
    maker: str
    if_there: str
    if_other: str


def check_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> None:
    """Check that ``folder`` may be created; only a directory of its kind may be overwritten.

    Raises UsageError if it may not, EnvironmentProblem if the directory is not accessible.
    """
    if not folder.name:
        raise UsageError(f"{folder} cannot be created")
    try:
        if not folder.exists() and not folder.is_symlink():
            return
        is_kind = (folder / kind.mark).is_file()
    except OSError as error:
        raise cannot_be_made(folder, error) from error
    if not overwrite:
        raise UsageError(f"{folder} already exists", hint=kind.if_there)
    if not is_kind:
        raise UsageError(f"{folder} {kind.if_other} and is not overwritten")


def cannot_be_made(path: Path, error: OSError) -> EnvironmentProblem:
    """Return the error for an output path that the operating system refuses to create."""
    return EnvironmentProblem(
        f"{path} cannot be created: {error.strerror}", hint="--out needs a writable place"
    )


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """Create the parent directories of a path; if the block fails, remove those created here.

    Raises EnvironmentProblem if they cannot be created.
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
            # Another process may have put files into it meanwhile.
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def whole_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty directory that is renamed to ``folder`` if the block succeeds.

    The block must write the mark last. Raises UsageError like ``check_folder``, EnvironmentProblem
    if the directory cannot be created.
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
            f"{partial} exists: another {kind.maker} is running, or one was killed",
            hint="remove the directory if none is running",
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
