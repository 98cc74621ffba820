"""Command groups whose commands are imported when they are asked for: all of them take a second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup


class RawCommand(TyperCommand):
    """A command that gets its arguments as they were written, `--help` and `--` too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse nothing: the arguments are the context's."""
        ctx.args = list(args)
        return []


class Place(NamedTuple):
    """Where a command is: ``app`` of the module, or else its function of the command's name.

    ``command_class``: of such a function, whose help ends with the module's ``EXAMPLES``.
    """

    module: str
    command_class: type[TyperCommand] = TyperCommand


class _Commands(Mapping[str, Any]):
    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._loaded = cache(self._load)

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._places:
            raise KeyError(name)
        return self._loaded(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _load(self, name: str) -> TyperCommand | TyperGroup:
        place = self._places[name]
        module: Any = import_module(place.module)
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            examples = getattr(module, "EXAMPLES", None)
            function = getattr(module, name.replace("-", "_"))
            app.command(name, cls=place.command_class, epilog=examples)(function)
        command = typer.main.get_command(app)
        command.name = name
        return cast("TyperCommand | TyperGroup", command)


def group_class(places: Mapping[str, Place]) -> type[TyperGroup]:
    """The class, for ``typer.Typer(cls=...)``, of a group of these commands, in this order."""

    class Group(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = cast("MutableMapping[str, Any]", _Commands(places))

    return Group


def command_group(help: str, epilog: str | None = None) -> typer.Typer:
    """Return the Typer of a command that has commands."""
    app = typer.Typer(
        help=help,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    # Without a callback, a group of one command would be that command.
    app.callback()(lambda: None)
    return app
