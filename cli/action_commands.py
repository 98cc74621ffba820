"""Makes commands that send an action to a running cluster.

The limits, defaults and texts of a command's options come from the action's class (lab/actions/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final, Generic, TypeVar

import typer
from msgspec import inspect
from typer._click import Context
from typer.core import TyperArgument, TyperOption
from typer.main import get_click_param, get_params_convertors_ctx_param_name_from_function
from typer.models import ParamMeta

from klamm.cli.client import ServerClient, find_server
from klamm.cli.command_loading import Command, GroupApp
from klamm.cli.completion import complete_broker, complete_log_dir
from klamm.cli.options import AsJson, finite, print_result
from klamm.cli.server_options import Answered, DataDirectory, Server
from klamm.cluster.errors import UsageError
from klamm.lab.actions.action import Action, Argument, arguments_of

A = TypeVar("A", bound=Action)
_BROKER: Final = {"metavar": "N", "min": 0, "autocompletion": complete_broker}
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "broker": {"help": "Id of a broker.", **_BROKER},
    "isolated": {"help": "Broker ids.", **_BROKER, "metavar": "N..."},
    "log_dir": {"metavar": "DIR", "autocompletion": complete_log_dir},
    "bytes_per_s": {"metavar": "RATE"},
    "client": {"metavar": "ID"},
}
"""Settings of Typer's options, by the names of arguments."""
_FLAGS: Final = {"client": "--client-id"}
"""Names of options that are not those of the arguments."""
_TYPES: Final[Mapping[type[inspect.Type], type]] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.StrType: str,
    inspect.UnionType: int,
    inspect.VarTupleType: list[int],
}
"""Types of options. Commands refer to brokers only by their ids."""

_Ask = Callable[[ServerClient, A], Answered]


def _no_more() -> Mapping[str, object]:
    return {}


def sends(
    app: GroupApp,
    action: type[A],
    *positional: str,
    name: str | None = None,
    more: Callable[..., Mapping[str, object]] = _no_more,
    epilog: str | None = None,
) -> Callable[[_Ask[A]], _Ask[A]]:
    """Return a decorator that adds to ``app`` the command of a function, which sends ``action``.

    Each argument of the action that has a text becomes an option, or a ``positional`` argument of
    the command. The parameters of ``more`` are further options, for which it returns further
    arguments of the action. By default the command has the ``name`` of the function.
    """

    def add(ask: _Ask[A]) -> _Ask[A]:
        word = name or ask.__name__.replace("_", "-")
        app.add(_ActionCommand(word, action, ask, positional, more, epilog))
        return ask

    return add


class _ActionCommand(Command, Generic[A]):
    """A command that sends an action and prints the answer.

    Its help is the first paragraph of the action's docstring, followed by the docstring of ``ask``.
    """

    def __init__(
        self,
        name: str,
        action: type[A],
        ask: _Ask[A],
        positional: Sequence[str],
        more: Callable[..., Mapping[str, object]],
        epilog: str | None,
    ) -> None:
        self._action, self._ask, self._more = action, ask, more
        arguments = [
            one
            for key, one in arguments_of(action).items()
            if one.description or "help" in _SETTINGS.get(key, {})
        ]
        self._flags = {
            one.name: _FLAGS.get(one.name, f"--{one.name.replace('_', '-')}") for one in arguments
        }
        others, self._converters, _ = get_params_convertors_ctx_param_name_from_function(more)
        servers, converters, _ = get_params_convertors_ctx_param_name_from_function(_server)
        self._others = [str(one.name) for one in others]
        self._converters |= converters
        own = [self._parameter(one, is_option=one.name not in positional) for one in arguments]
        about = self._with_flags(cleandoc(action.__doc__ or "").partition("\n\n")[0])
        super().__init__(
            name,
            params=[*others, *own, *servers],
            help="\n\n".join(filter(None, (about, cleandoc(ask.__doc__ or "")))),
            epilog=epilog,
            rich_markup_mode=None,
        )

    def invoke(self, ctx: Context) -> None:
        given: dict[str, Any] = dict(ctx.params)
        for name, convert in self._converters.items():
            given[name] = convert(given[name])
        client, as_json = _server(*(given.pop(name) for name in ("server", "data_dir", "json")))
        found = self._more(**{name: given.pop(name) for name in self._others})
        try:
            action = self._action(**given, **found)
        except ValueError as error:
            hint = f"{ctx.command_path} --help lists its options"
            raise UsageError(self._with_flags(str(error)), hint=hint) from None
        answer, text = self._ask(client, action)
        print_result(as_json, answer, text.split("\n"))

    def _parameter(self, argument: Argument, *, is_option: bool) -> TyperOption | TyperArgument:
        kind: Any = argument.type
        details = {
            "min": getattr(kind, "ge", None),
            "max": getattr(kind, "le", None),
            "help": self._with_flags(argument.description),
            **_SETTINGS.get(argument.name, {}),
        }
        taken = _TYPES.get(type(kind)) or kind.cls
        if taken is float:
            details["callback"] = finite
        default = ... if argument.required else argument.default
        info = (
            typer.Option(default, self._flags[argument.name], **details)
            if is_option
            else typer.Argument(default, **details)
        )
        made, converter = get_click_param(
            ParamMeta(name=argument.name, default=info, annotation=taken)
        )
        if converter is not None:
            self._converters[argument.name] = converter
        return made

    def _with_flags(self, text: str) -> str:
        """Return a text of the action in which quoted arguments are named by their options."""
        for name, flag in self._flags.items():
            text = text.replace(f"'{name}'", flag).replace(f"`{name}`", flag)
        return text.replace("`", "")


def _server(
    server: Server = None, data_dir: DataDirectory = None, json: AsJson = False
) -> tuple[ServerClient, bool]:
    """Return a client, and whether to print JSON. The parameters are options of all commands."""
    return find_server(server, data_dir), json
