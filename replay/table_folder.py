"""The directory of an event table while it is made: whole, or not there.

Knows nothing of what is in it but the manifest, which is written last.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from replay.event_table import MANIFEST
from replay.whole_folder import FolderKind, whole_folder

_KIND: Final = FolderKind(
    mark=MANIFEST,
    maker="ingest",
    if_there="--overwrite replaces an event table",
    if_other="is no event table",
)


def new_table_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """An empty directory that becomes ``folder``; see ``whole_folder``."""
    return whole_folder(_KIND, Path(os.path.abspath(folder)), overwrite=overwrite)
