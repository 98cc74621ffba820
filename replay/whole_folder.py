"""Creates output directories atomically: written as DIR.partial, renamed to DIR when complete.

After a failure, DIR does not exist or is the unchanged old directory. Remote file systems may have
no atomic rename, so that there the content of DIR.partial is moved, with the file that marks a
complete directory last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.locations import (
    file_system,
    is_remote,
    remote_errors,
    remove_tree,
)

_PARTIAL: Final = ".partial"
_OLD: Final = ".old"


class FolderKind(NamedTuple):
    """A kind of output directory, such as an event table.

    - ``mark``: name of a file that identifies a complete directory of this kind; written last.
    - ``maker``: name of the job that creates it, for error messages.
    - ``if_there``: hint if the output directory already exists.
    - ``if_other``: text after the directory's name in the error message for an existing directory
      that is not of this kind.
    """

    mark: str
    maker: str
    if_there: str
    if_other: str


def check_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> None:
    """Check that ``folder`` can be used as the output directory.

    Raises UsageError if it exists, unless ``overwrite`` is true and it is an earlier output of the
    same kind. Raises EnvironmentProblem if it is not accessible.
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
    """Return the error to raise if the operating system refuses to create an output path."""
    return EnvironmentProblem(
        f"{path} cannot be created: {error.strerror}", hint="--out needs a writable directory"
    )


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """Context manager that creates the parent directories of a path, and removes them on failure.

    Raises EnvironmentProblem if the directories cannot be created.
    """
    missing: list[Path] = []
    if is_remote(path):
        yield
        return
    try:
        try:
            missing += [folder for folder in path.parents if not folder.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_be_made(path, error) from error
        yield
    except BaseException:
        for folder in missing:
            # Another process may have created files in the directory in the meantime.
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def whole_folder(kind: FolderKind, folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Context manager that yields an empty directory, and renames it to ``folder`` on success.

    The caller must write the file ``kind.mark`` last. Raises UsageError like ``check_folder``, and
    EnvironmentProblem if the directory cannot be created.
    """
    check_folder(kind, folder, overwrite=overwrite)
    partial = folder.with_name(folder.name + _PARTIAL)
    with parents_made(folder):
        _make(kind, folder, partial)
        try:
            yield partial
            assert (partial / kind.mark).is_file(), f"{partial} has no {kind.mark}"
            check_folder(kind, folder, overwrite=overwrite)
            if is_remote(folder):
                _move_content(kind, folder, partial)
            else:
                _replace(folder, partial)
        except BaseException:
            remove_tree(partial)
            raise


def _make(kind: FolderKind, folder: Path, partial: Path) -> None:
    try:
        with remote_errors(folder):
            if is_remote(folder) and partial.exists():
                raise FileExistsError
            partial.mkdir(parents=is_remote(folder))
    except FileExistsError:
        raise UsageError(
            f"{partial} exists: another {kind.maker} is running, or one was killed",
            hint=f"if no other {kind.maker} is running, remove the directory",
        ) from None
    except OSError as error:
        raise cannot_be_made(folder, error) from error


def _replace(folder: Path, partial: Path) -> None:
    old = folder.with_name(folder.name + _OLD)
    try:
        if folder.exists():
            remove_tree(old)
            os.rename(folder, old)
        os.rename(partial, folder)
    except OSError as error:
        raise cannot_be_made(folder, error) from error
    remove_tree(old)


def _move_content(kind: FolderKind, folder: Path, partial: Path) -> None:
    """Move the files of a remote directory into ``folder``, ``kind.mark`` last.

    After a failure, ``folder`` does not exist.
    """
    with remote_errors(folder):
        files = [path for path in partial.rglob("*") if path.is_file()]
        if folder.exists():
            # From here on the old directory is incomplete, and is not read by mistake.
            (folder / kind.mark).unlink()
            remove_tree(folder)
        try:
            for path in sorted(files, key=lambda path: path == partial / kind.mark):
                target = folder / str(path).removeprefix(f"{partial}/")
                target.parent.mkdir(parents=True, exist_ok=True)
                file_system(folder).mv(str(path), str(target))
        except BaseException:
            remove_tree(folder)
            raise
    remove_tree(partial)
