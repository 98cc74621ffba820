"""Command groups whose help is not truncated, and whose commands are imported only when run.

Importing every command would take a second of CPU time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import typer
from typer._click import Context, HelpFormatter, Parameter
from typer._click.shell_completion import CompletionItem
from typer._completion_classes import completion_init
from typer.core import TyperCommand, TyperGroup

from klamm.cluster.errors import Interrupted
from klamm.interrupts import interrupts_deferred

HELP_LIMIT: Final = 1_000
_UNITS: Final = ("bytes", "ms", "s")


class Command(TyperCommand):
    """A command whose help describes values by nouns, not by types such as ``<int range>``."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for param in self.params:
            if param.metavar is None:
                param.metavar = _noun(param)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the arguments; record this command in a parse error, so that the hint names it."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            # typer omits the context if an option lacks its value.
            vars(error)["ctx"] = getattr(error, "ctx", None) or ctx
            raise

    def get_help(self, ctx: Context) -> str:
        """Return the help, with typer's limits such as 0<=x<=9 written as "0 to 9"."""
        text = re.sub(r"(-?[\d.]+)<=x<=(-?[\d.]+)", r"\1 to \2", super().get_help(ctx))
        return re.sub(r"\bx>=(-?[\d.]+)", r">= \1", text)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Return the words of the usage line, without typer's braces around arguments."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


def _noun(param: Parameter) -> str:
    """Return the placeholder for a parameter's value in --help.

    If the parameter has choices, the placeholder lists them. Otherwise it is COUNT or the last word
    of the parameter's name.
    """
    choices = getattr(param.type, "choices", None)
    if choices is not None:
        return "|".join(choices)
    noun = (param.name or "").rpartition("_")[2]
    is_count = "int" in param.type.name and noun.endswith("s") and noun not in _UNITS
    return "COUNT" if is_count else noun.upper()


class RawCommand(TyperCommand):
    """A command that receives its arguments unparsed, including `--help` and `--`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options of a Kafka tool, and topic names."""
        from klamm.cli.completion import complete_tool

        words = complete_tool(f"kafka-{self.name}", ctx.args, incomplete)
        return [CompletionItem(word) for word in words]


class Place(NamedTuple):
    """A command's line in the list of commands, and the module that implements the command.

    The command is the module's Typer ``app``. If there is none, the command is the function of the
    same name, its class is ``command_class``, and its help ends with the module's ``EXAMPLES``.
    ``help`` is printed without importing the module. Without ``module``, the module has the name of
    the command.
    """

    help: str
    module: str | None = None
    command_class: type[TyperCommand] = Command


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    def __init__(self, places: Mapping[str, Place], prefix: str) -> None:
        self._places = places
        self._prefix = prefix
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
        with interrupts_deferred():
            module: Any = import_module(f"{self._prefix}{place.module or name}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            examples = getattr(module, "EXAMPLES", None)
            function = getattr(module, name.replace("-", "_"))
            app.command(name, cls=place.command_class, epilog=examples)(function)
        command = typer.main.get_command(app)
        command.name = name
        return cast("TyperCommand | TyperGroup", command)


class CommandGroup(TyperGroup):
    """A command group whose list of commands shows the whole first sentence of each command's help.

    A command without an epilog gets one: the group's examples that use the command.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in self.commands.items():
            command.epilog = command.epilog or _examples_of(name, self.epilog or "")

    def sections(self, ctx: Context) -> Mapping[str, Mapping[str, str]]:
        """Return the help line of each command, keyed by section title and command name."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {
            "Commands": {
                name: command.get_short_help_str(limit=HELP_LIMIT)
                for name, command in found.items()
                if command is not None and not command.hidden
            }
        }

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options or commands of the group; a command's help line is not truncated."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=line)
            for commands in self.sections(ctx).values()
            for name, line in commands.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        for title, commands in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


def _examples_of(name: str, epilog: str) -> str:
    lines = re.findall(rf"^  klamm [a-z]+ {name}\b.*$", epilog, re.MULTILINE)
    return "\n".join(("\b", "Examples:", *lines)) if lines else ""


class GroupApp(typer.Typer):
    """Typer app for a command group; its commands use the class Command by default."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[..., Any]:
        return super().command(name, cls=cls or Command, **settings)

    def add(self, command: TyperCommand) -> None:
        """Add a command that is not made from a function."""
        # Typer makes each command by a call of ``cls`` with what it found in a function.
        super().command(command.name, cls=cast(Any, lambda **_: command))(lambda: None)


def group_class(sections: Mapping[str, Mapping[str, Place]], prefix: str) -> type[TyperGroup]:
    """Return a group class for ``typer.Typer(cls=...)`` that imports each command only when it
    runs.

    ``sections``: the commands of the group, keyed by the section title in the help, then by name.
    ``prefix``: the beginning of the names of all their modules.
    """
    places = {name: place for section in sections.values() for name, place in section.items()}
    helps = {
        title: {name: place.help for name, place in section.items()}
        for title, section in sections.items()
    }

    class LazyGroup(CommandGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = cast("MutableMapping[str, Any]", _Commands(places, prefix))
            completion_init()  # typer calls it only for its own --install-completion
            if "_KLAMM_COMPLETE" in os.environ:
                # typer would wrap help lines, and fish takes each line for a candidate.
                os.environ["TERMINAL_WIDTH"] = str(HELP_LIMIT)

        def sections(self, ctx: Context) -> Mapping[str, Mapping[str, str]]:
            return helps

        def invoke(self, ctx: Context) -> Any:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                # typer would turn it into a silent exit.
                raise Interrupted("Interrupted") from None

    return LazyGroup


def command_group(help: str, epilog: str) -> GroupApp:
    """Return the Typer app for a new group of commands."""
    app = GroupApp(
        cls=CommandGroup,
        help=help,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    # Without a callback, Typer would turn a group of one command into that command.
    app.callback()(lambda: None)
    return app
