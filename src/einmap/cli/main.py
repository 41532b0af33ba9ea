"""The command line: one function for each command, errors as exit status 2."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

import einmap
from einmap.cli.registry import LazyGroup
from einmap.errors import EinmapError

BAD_INPUT = 2
"""Exit status for input that einmap refuses, as for wrong use of the command line."""

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line. Ends with SystemExit: 0, 1 when a check fails, 2 for bad input, 130 when interrupted."""
    # None where the stream was closed from outside: what is printed goes nowhere then
    sys.stdout, sys.stderr = (stream or Path(os.devnull).open("w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    try:
        with _ended_by_ctrl_c():
            app(args, prog_name="einmap")
    except OSError as error:
        # files are read and written with errors of their own: this is the stream that is printed to
        reason = error.strerror or str(error)
        print(f"error: cannot print: {reason}", file=sys.stderr)
        _forget_output()
        raise SystemExit(BAD_INPUT) from None
    except MemoryError as error:
        # what was being made is gone by now, so that there is memory to say so
        print(f"error: there is not enough memory: {error}", file=sys.stderr)
        print("  hint: for a search, limit what it may use: --option memory_limit=BYTES", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from None
    except EinmapError as error:
        # Here, not above: what prints takes long to import, and most commands end well.
        from einmap.cli.output import print_error

        print_error(error)
        raise SystemExit(BAD_INPUT) from None


def _forget_output() -> None:
    """Leave nothing in the buffer that Python would try to write once more at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"einmap {einmap.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end."),
]


@app.callback()
def options(_version: Version = False) -> None:
    """Model tensor accelerators, and map cascades of Einsums onto them optimally.

    Example: einmap evaluate simple matmul simple_matmul
    """
