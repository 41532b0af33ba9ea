"""`einmap machine`: the processor at hand as an architecture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from einmap.cli.options import flag, force_option, group, option, output_option
from einmap.cli.progress_bar import searching
from einmap.cli.writing.target import Target, write_or_print

if TYPE_CHECKING:
    from einmap.matmul.measured.as_arch import Core
    from einmap.progress import Progress


@group
class Options:
    """Which machine, and where to write it."""

    this_cpu: bool = flag("The processor at hand.", "--this-cpu")
    cores: int = option("N", "Cores to map for: with more than 1 a fanout over cores.", default=1, min=1)
    measure: bool = flag(
        "Measure rates and latencies, a few seconds; else usual ones.", "--measure/--no-measure", default=True
    )
    output: Path | None = output_option("Write the architecture instead of printing it.")
    force: bool = force_option()


def machine_command(options: Options) -> None:
    """Describe the processor at hand as an architecture: caches, vector registers, cores, rates.

    `einmap map` finds nests for it that `einmap emit --lang c --fast` can run.

    Example: einmap machine --this-cpu -o cpu.yaml
    """
    if not options.this_cpu:
        raise typer.BadParameter("say which machine: --this-cpu", param_hint="--this-cpu")
    from einmap.matmul.measured.as_arch import arch_text

    target = Target.of(options.output, options.force)
    with searching() as search:
        core = core_at_hand(options.measure, search.progress)
    write_or_print(arch_text(core, options.cores), target)


def core_at_hand(measure: bool, progress: Progress) -> Core:
    """One core of the processor at hand; usual rates and latencies where they are not measured, or that is stopped."""
    from einmap.matmul.measured.as_arch import Core, assumed_latencies
    from einmap.matmul.measured.latency import measured_latencies
    from einmap.matmul.measured.measure import Stopped, measured_rates
    from einmap.matmul.measured.this_cpu import assumed_rates, detect

    processor = detect()
    if measure:
        try:
            return Core(processor, measured_rates(processor, progress), measured_latencies(processor, progress))
        except Stopped:
            pass
    return Core(processor, assumed_rates(processor), assumed_latencies(processor))
