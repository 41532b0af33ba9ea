"""The commands by name; the module of a command is imported when it runs, not when the help lists it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
import typer.core
from typer.main import get_command

from einmap.cli.command import Command, without_types
from einmap.visible import visible


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its module below `einmap.cli.commands`, with a function `NAME_command`, and how its help begins.

    `needs_arguments`: without any the help is shown.
    """

    module: str
    summary: str
    needs_arguments: bool = True


COMMANDS = {
    "evaluate": Entry("evaluate", "Evaluate a mapping: energy, latency, area, traffic and how full memories are."),
    "map": Entry("map", "Find the best mapping of a workload onto an architecture, and say how good it is."),
    "search": Entry(
        "lab.search", "Compare search strategies on the mapspace of one Einsum, judged against the proven optimum."
    ),
    "census": Entry(
        "lab.census", "Show the shape of a mapspace: how many mappings there are, and how valid ones are distributed."
    ),
    "skislope": Entry(
        "lab.skislope", "Show the least traffic to and from main memory as a function of the capacity of one buffer."
    ),
    "rewrite": Entry("rewriting.rewrite", "Rewrite a mapping so that it computes the same values, and show what that changes."),
    "partition": Entry(
        "rewriting.partition",
        "Partition the ranks of a workload, which goes on to compute the same values, and print it.",
    ),
    "plan-matmul": Entry(
        "plan_matmul", "Block C <- A B + C, A: M x K, B: K x N, for every memory of a machine, and predict the time."
    ),
    "simulate": Entry(
        "simulate",
        "Run a mapping on real tensors through explicit buffers, and compare outputs, counts and usage with the model.",
    ),
    "emit": Entry("emit", "Print the loop nest of a mapping as code: buffers, loops, mvin and mvout, compute."),
    "run": Entry(
        "mesh.run",
        "Partition Einsums over the PEs of a mesh, run them there on random data, and compare with the whole result.",
    ),
    "plan": Entry(
        "mesh.plan",
        "Choose how a workload is distributed over a mesh: the best plan, why others lose, where memory binds.",
    ),
    "import": Entry(
        "exchange.import_files", "Read a model in ONNX, or files of another tool, and write them as a specification."
    ),
    "export": Entry(
        "exchange.export",
        "Write a workload, architecture and mapping in the format of another tool, and list what it cannot say.",
    ),
    "dump": Entry("exchange.dump", "Write a whole specification as one YAML text: templates rendered, files and merges joined."),
    "schema": Entry(
        "catalogue.schema",
        "Print the JSON Schema (draft 2020-12) of specification files, which editors check and complete by.",
        needs_arguments=False,
    ),
    "components": Entry(
        "catalogue.components",
        "List the models of components that `component_class` may name; they give costs that are missing.",
        needs_arguments=False,
    ),
    "explain": Entry(
        "explain", "Explain a mapping: what limits it, where energy and traffic come from, what would help."
    ),
    "diff": Entry(
        "diff", "Compare two mappings, architectures, workloads or whole specifications: structure and cost."
    ),
    "show": Entry(
        "show", "Draw a mapping as a LoopTree, an architecture as a tree, or a workload as a graph: an SVG file."
    ),
    "sweep": Entry("sweep", "Map or evaluate every point of a grid of architectures, and show which are best."),
    "examples": Entry(
        "catalogue.examples",
        "List the shipped architectures, workloads, mappings, machines, sweeps, ...; their names stand for files.",
        needs_arguments=False,
    ),
    "warmup": Entry(
        "warmup",
        "Compile the kernels of the mapper and the simulator, which takes some seconds once on a machine.",
        needs_arguments=False,
    ),
}
"""In the order of the help."""


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
        entry = COMMANDS.get(cmd_name)
        return self.commands.get(cmd_name) if entry is None else _Named(self.commands, cmd_name, entry.summary)


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


def _made(name: str, entry: Entry) -> Any:
    function = getattr(
        import_module(f"einmap.cli.commands.{entry.module}"), f"{entry.module.rpartition('.')[2]}_command"
    )
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=Command, no_args_is_help=entry.needs_arguments)(function)
    return get_command(alone)
