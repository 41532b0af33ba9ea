"""The commands by name; the module of a command is imported when it runs, not when the help lists it."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
import typer.core
from typer.main import get_command

from einmap.cli.command import Command, without_types
from einmap.visible import visible

COMMANDS = {
    "evaluate": "evaluate",
    "map": "map",
    "search": "lab.search",
    "census": "lab.census",
    "skislope": "lab.skislope",
    "rewrite": "rewriting.rewrite",
    "partition": "rewriting.partition",
    "gradient": "rewriting.gradient",
    "plan-matmul": "plan_matmul",
    "simulate": "simulate",
    "emit": "emit",
    "machine": "catalogue.machine",
    "bench": "lab.bench",
    "run": "mesh.run",
    "plan": "mesh.plan",
    "train-plan": "mesh.train_plan",
    "pipeline": "mesh.pipeline",
    "tokens": "mesh.tokens",
    "import": "exchange.import_files",
    "export": "exchange.export",
    "dump": "exchange.dump",
    "schema": "catalogue.schema",
    "components": "catalogue.components",
    "explain": "explain",
    "diff": "diff",
    "show": "show",
    "studio": "lab.studio",
    "sweep": "sweep",
    "plugins": "catalogue.plugins",
    "examples": "catalogue.examples",
    "warmup": "warmup",
}
"""The modules of the commands below `einmap.cli.commands`, each with a function `NAME_command`; in the order of the
help.
"""


def summary_of(name: str) -> str:
    """How the help of a command begins, from the text of its module, which is not imported for that."""
    file = Path(__file__).parent.joinpath("commands", *COMMANDS[name].split(".")).with_suffix(".py")
    found = re.search(r'^def \w+_command\(.*?"""(.*?)(?:\n\n|""")', file.read_text(), re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


class Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is first looked up; others may be added."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, COMMANDS[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**COMMANDS, **self._made})

    def __len__(self) -> int:
        return len({**COMMANDS, **self._made})


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are imported when they run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, the one for the help among them."""
        return without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names, in the order of the help."""
        return list(self.commands)

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context in which a command runs. Raises the parser's usage errors, their text escaped."""
        with _escaped_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises the parser's usage errors, their text escaped."""
        with _escaped_usage_errors():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """A placeholder for the help, which imports the command when it runs."""
        is_named = cmd_name in COMMANDS
        return _Named(self.commands, cmd_name, summary_of(cmd_name)) if is_named else self.commands.get(cmd_name)


@contextmanager
def _escaped_usage_errors() -> Iterator[None]:
    """Escape what the parser says of the arguments: names of files may hold control characters."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # of the parser that typer brings along
            error.message = visible(str(getattr(error, "message", "")))  # type: ignore[attr-defined]
        raise


class _Named(typer.core.TyperCommand):
    """A command that is not imported yet: its name and the first words of its help."""

    def __init__(self, commands: MutableMapping[str, Any], name: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._commands = commands

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the real command, which is imported here and then runs."""
        return self._commands[str(self.name)].make_context(info_name, args, parent, **extra)


def _made(name: str, module: str) -> Any:
    from einmap.cli.options import expanded  # here, since the help of the whole makes no command

    function = getattr(import_module(f"einmap.cli.commands.{module}"), f"{module.rpartition('.')[2]}_command")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=Command)(expanded(function))
    command = get_command(alone)
    command.no_args_is_help = any(parameter.required for parameter in command.params)
    return command
