"""Scripts that make bash, zsh and fish complete klamm's commands, and their installation."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from typer._completion_shared import get_completion_script, install

Shell = Literal["bash", "zsh", "fish"]

_PROGRAM: Final = "klamm"
_VARIABLE: Final = "_KLAMM_COMPLETE"
_AT_FIRST_TAB: Final = """

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _klamm_completion "$@"
fi"""
"""End of the script for zsh. zsh loads an installed script at the first Tab, and expects that the
script then completes the line; typer's script only defines a function for the next Tab."""


def completion_script(shell: Shell) -> str:
    """Return the completion script for a shell."""
    script = get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)
    return script + (_AT_FIRST_TAB if shell == "zsh" else "")


def install_completion(shell: Shell) -> Path:
    """Write the completion script and load it in the shell's start-up file, below HOME.

    Returns the path of the script.
    """
    _, path = install(shell=shell, prog_name=_PROGRAM, complete_var=_VARIABLE)
    path.write_text(f"{completion_script(shell)}\n")
    return path
