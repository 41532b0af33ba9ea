"""The command line: one function for each command, errors as exit status 2."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from einmap.cli.diff import diff_command
from einmap.cli.dump import dump_command
from einmap.cli.emit import emit_command
from einmap.cli.evaluate import evaluate_command
from einmap.cli.examples import examples_command
from einmap.cli.explain import explain_command
from einmap.cli.map import map_command
from einmap.cli.ordered import OrderedCommand
from einmap.cli.output import print_error
from einmap.cli.partition import partition_command
from einmap.cli.plan_matmul import plan_matmul_command
from einmap.cli.rewrite import rewrite_command
from einmap.cli.run import run_command
from einmap.cli.schema import schema_command
from einmap.cli.show import show_command
from einmap.cli.simulate import simulate_command
from einmap.cli.warmup import warmup_command
from einmap.errors import EinmapError

BAD_INPUT = 2
"""Exit status for input that einmap refuses, as for wrong use of the command line."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate", no_args_is_help=True)(evaluate_command)
app.command("map", no_args_is_help=True)(map_command)
app.command("rewrite", no_args_is_help=True)(rewrite_command)
app.command("partition", no_args_is_help=True, cls=OrderedCommand)(partition_command)
app.command("plan-matmul", no_args_is_help=True)(plan_matmul_command)
app.command("simulate", no_args_is_help=True)(simulate_command)
app.command("emit", no_args_is_help=True)(emit_command)
app.command("run", no_args_is_help=True)(run_command)
app.command("dump", no_args_is_help=True)(dump_command)
app.command("schema")(schema_command)
app.command("explain", no_args_is_help=True)(explain_command)
app.command("diff", no_args_is_help=True)(diff_command)
app.command("show", no_args_is_help=True)(show_command)
app.command("examples")(examples_command)
app.command("warmup")(warmup_command)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line. Ends with SystemExit: 0, 1 when a check fails, 2 for bad input, 130 when interrupted."""
    try:
        with _ended_by_ctrl_c():
            app(args, prog_name="einmap")
    except EinmapError as error:
        print_error(error)
        raise SystemExit(BAD_INPUT) from None


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the program also where SIGINT was ignored at its start, as in jobs of a script."""
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if not is_ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"einmap {_version()}")
        raise typer.Exit


def _version() -> str:
    try:
        return version("einmap")
    except PackageNotFoundError:
        return "(not installed)"


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end."),
]


@app.callback()
def options(_version: Version = False) -> None:
    """Model tensor accelerators, and map cascades of Einsums onto them optimally.

    Example: einmap evaluate simple matmul simple_matmul
    """
