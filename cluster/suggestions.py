"""Hints for error messages about unknown names: the closest known name, or all known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(
    word: str, known: Iterable[str], otherwise: str | None = None, likeness: float = 0.6
) -> str:
    """Return a hint such as "did you mean orders?" with the known name that is closest to ``word``.

    If no known name is similar, return ``otherwise`` or, if that is None, a list of all names.
    ``likeness``: from 0 to 1, how similar a name must be, apart from upper and lower case.
    """
    names = list(known)
    by_folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=likeness)
    if close:
        return f"did you mean {by_folded[close[0]]}?"
    return f"known: {', '.join(names)}" if otherwise is None else otherwise
