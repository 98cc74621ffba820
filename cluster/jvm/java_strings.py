"""Java's way to divide, to trim and to match a text, on which Kafka's tools rely.

Mirrors java.lang.String.split and trim. Unlike Python's, they do not know Unicode's white space.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

_ALIKE: Final = re.compile(
    r"""(?: \\.                                 # an escaped character
    | \[\^?\]? (?: \\. | [^\[\]\\] )*+ \]       # a set of characters
    | \{ [0-9]+ (?: , [0-9]* )? \}              # a repetition
    | [^\[{\\] )*+""",
    re.VERBOSE | re.DOTALL,
)
"""The beginning of a regular expression that Java and Python read alike."""
_BLANKS: Final = "".join(map(chr, range(0x21)))


def java_split(text: str, pattern: str) -> list[str]:
    """Return the parts of ``text`` between the matches of a regex, without empty parts at the end.

    A text without a match is one part, even if it is empty.
    """
    parts = re.split(pattern, text, flags=re.ASCII)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression of a user, who may have written it for Java.

    Raises ValueError if Python does not accept it, or if Java reads it differently: a set
    operation such as ``[a-z&&[^b]]`` or ``[a[b]]``, or a brace that is no repetition.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise ValueError(str(error)) from error
    alike = _ALIKE.match(pattern)
    assert alike is not None
    if alike.end() < len(pattern):
        what = "set in a set" if pattern[alike.end()] == "[" else "brace that is no repetition"
        raise ValueError(f"{what} at position {alike.end()}")
    return found


def java_trim(text: str) -> str:
    """Return ``text`` without blanks and control characters at both ends."""
    return text.strip(_BLANKS)
