"""`einmap emit`: the loop nest of a mapping as code with explicit data movement."""

from __future__ import annotations

from pathlib import Path

from einmap.cli.inputs import Source
from einmap.cli.options import flag, force_option, group, option, output_option
from einmap.cli.output import print_notes
from einmap.cli.writing.target import Target, write_or_print
from einmap.emit.emit import printer_of


@group
class Options:
    """Language of the code, and where to write it."""

    lang: str = option(
        "pseudo|python|c",
        "pseudo: text; python: a function on NumPy arrays; c: a C99 file that checks itself.",
        default="pseudo",
    )
    fast: bool = flag(
        "C of one product or convolution as fast as the mapping is: packed tiles, vectors, threads; it counts nothing."
    )
    output: Path | None = output_option("Write the code instead of printing it.")
    force: bool = force_option()


def emit_command(options: Options, source: Source) -> None:
    """Print the loop nest of a mapping as code: buffers, loops, mvin and mvout, compute.

    The code moves exactly what the model counts (preset `exact`), and says so when it runs.

    Example: einmap emit simple matmul simple_matmul --lang c -o matmul.c

    Example: einmap emit cpu.yaml matmul best.yaml -D BITS=32 --lang c --fast -o fast.c
    """
    printer = printer_of(options.lang, fast=options.fast)
    target = Target.of(options.output, options.force, source.words)
    spec = source.load(target)
    write_or_print(printer(spec), target)
    print_notes([*spec.load_notes, *spec.bound_workload.notes])
