"""Makes commands that send an action to a running cluster.

The limits, defaults and texts of a command's options come from the action's class (lab/actions/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, Final, TypeVar

import typer
from msgspec import inspect

from klamm.cli.client import ServerClient
from klamm.cli.completion import complete_broker, complete_log_dir
from klamm.cli.options import finite, option
from klamm.cli.server_options import Answered, asks_server
from klamm.cluster.errors import UsageError
from klamm.lab.actions.action import Action, Argument, arguments_of

A = TypeVar("A", bound=Action)
_BROKER: Final = {"metavar": "N", "min": 0, "autocompletion": complete_broker}
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "broker": {"help": "Id of a broker.", **_BROKER},
    "isolated": {"help": "Broker ids.", **_BROKER, "metavar": "N..."},
    "log_dir": {"metavar": "DIR", "autocompletion": complete_log_dir},
}
"""Settings of typer's options, by the names of arguments."""
_TYPES: Final[Mapping[type[inspect.Type], Any]] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.StrType: str,
    inspect.UnionType: int,
    inspect.VarTupleType: list[int],
}
"""Types of options. Commands refer to brokers only by their ids."""
_NAME: Final = re.compile(r"'([\w-]+)'|`([^`]+)`")


def sends(
    action: type[A],
    *positional: str,
    more: Callable[..., Mapping[str, Any]] = lambda: {},
    **settings: Mapping[str, Any],
) -> Callable[[Callable[[ServerClient, A], Answered]], Callable[..., None]]:
    """Return a decorator that turns a function, which sends ``action``, into a command.

    Each argument of the action that has a text becomes an option, or a ``positional`` argument of
    the command. Its ``settings`` are those of typer's options, and its ``flag``. ``more`` returns
    further arguments of the action for the options that are its parameters. The help is the first
    paragraph of the action's docstring, followed by the function's docstring.
    """
    arguments = arguments_of(action)
    details: dict[str, dict[str, Any]] = {
        name: {"help": one.description, **_SETTINGS.get(name, {}), **settings.get(name, {})}
        for name, one in arguments.items()
    }
    flags: dict[str, str] = {
        name: one.pop("flag", f"--{name.replace('_', '-')}")
        for name, one in details.items()
        if one["help"]
    }

    def shown(text: str) -> str:
        """Return a text in which arguments are named by their options."""
        return _NAME.sub(lambda at: flags.get(at[1] or at[2]) or at[2] or at[0], text)

    others = signature(more, eval_str=True).parameters
    options = [one.replace(kind=one.KEYWORD_ONLY) for one in others.values()]
    for name, flag in flags.items():
        detail = details[name] | {"help": shown(details[name]["help"])}
        options.append(_option(arguments[name], () if name in positional else (flag,), detail))

    def decorate(ask: Callable[[ServerClient, A], Answered]) -> Callable[..., None]:
        def command(client: ServerClient, /, ctx: typer.Context, **given: Any) -> Answered:
            found = more(**{name: given.pop(name) for name in others})
            try:
                made = action(**given, **found)
            except ValueError as error:
                hint = f"{ctx.command_path} --help lists its options"
                raise UsageError(shown(str(error)), hint=hint) from None
            return ask(client, made)

        about = shown(cleandoc(action.__doc__ or "").partition("\n\n")[0])
        command.__name__ = ask.__name__
        command.__doc__ = "\n\n".join(filter(None, (about, cleandoc(ask.__doc__ or ""))))
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter("_", Parameter.POSITIONAL_ONLY),
                option("ctx", typer.Context, None),
                *options,
            ]
        )
        return asks_server(command)

    return decorate


def _option(argument: Argument, flags: tuple[str, ...], details: dict[str, Any]) -> Parameter:
    """Return an option of a command, or a positional argument if it has no ``flags``."""
    kind: Any = argument.type
    taken = _TYPES.get(type(kind)) or kind.cls
    if taken is float:
        details["callback"] = finite
    details = {"min": getattr(kind, "ge", None), "max": getattr(kind, "le", None), **details}
    info = typer.Option(*flags, **details) if flags else typer.Argument(**details)
    default = Parameter.empty if argument.required else argument.default
    return option(
        argument.name, Annotated[taken if default is not None else taken | None, info], default
    )
