"""Command groups: whole lines of help, and commands that are imported only when they run.

Importing every command takes a second of CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

HELP_LIMIT: Final = 1_000


class RawCommand(TyperCommand):
    """A command that gets its arguments as they were written, `--help` and `--` too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse nothing: the arguments are the context's."""
        ctx.args = list(args)
        return []

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the tool's options and topics."""
        from click.shell_completion import CompletionItem

        from klamm.cli.completion import complete_tool

        words = complete_tool(f"kafka-{self.name}", ctx.args, incomplete)
        return [CompletionItem(word) for word in words]


class Place(NamedTuple):
    """The module of a command: its ``app``, or else its function of the command's name.

    ``help`` is the command's line in the list of commands, read without the module.
    ``command_class``: of such a function, whose help ends with the module's ``EXAMPLES``.
    """

    module: str
    help: str
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


class Group(TyperGroup):
    """A group whose list of commands shows the whole first sentence of each command's help."""

    def sections(self, ctx: Any) -> Mapping[str, Mapping[str, str]]:
        """Return the help of each command by title and name."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {
            "Commands": {
                name: command.get_short_help_str(limit=HELP_LIMIT)
                for name, command in found.items()
                if command is not None and not command.hidden
            }
        }

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        for title, commands in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


def group_class(sections: Mapping[str, Mapping[str, Place]]) -> type[TyperGroup]:
    """Return the class, for ``typer.Typer(cls=...)``, of a group that imports commands lazily.

    ``sections``: the commands by the title under which the help lists them.
    """
    places = {name: place for section in sections.values() for name, place in section.items()}
    helps = {
        title: {name: place.help for name, place in section.items()}
        for title, section in sections.items()
    }

    class LazyGroup(Group):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = cast("MutableMapping[str, Any]", _Commands(places))

        def sections(self, ctx: Any) -> Mapping[str, Mapping[str, str]]:
            return helps

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            if incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            from click.shell_completion import CompletionItem

            return [
                CompletionItem(name, help=place.help)
                for name, place in places.items()
                if name.startswith(incomplete)
            ]

    return LazyGroup


def command_group(help: str, epilog: str | None = None) -> typer.Typer:
    """Return the Typer of a command that has commands."""
    app = typer.Typer(
        cls=Group,
        help=help,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    # Without a callback, a group of one command would be that command.
    app.callback()(lambda: None)
    return app
