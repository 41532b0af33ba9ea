"""`einmap bench`: a workload on the processor at hand, beside libraries and beside the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from einmap.cli.commands.catalogue.machine import core_at_hand
from einmap.cli.commands.map import mapper_options
from einmap.cli.inputs import Source, reading_inputs
from einmap.cli.options import EFFORT, flag, group, option, output_option, several
from einmap.cli.output import print_hint, print_notes
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import Tables
from einmap.cli.writing.target import Target
from einmap.errors import SpecError
from einmap.report.bench.benchmark import benchmark_report

if TYPE_CHECKING:
    from einmap.bench.search import Way
    from einmap.progress import Progress
    from einmap.spec.spec import Spec

WRONG = 1
"""Exit status when values of the code are wrong."""
SECONDS, LONGER = 10.0, 60.0
"""Limits of a search that no limit is given for."""


@group
class Options:
    """Which mapping is run, how often, and beside what."""

    cores: int = option("N", "Cores of the processor at hand; not where FILES have an architecture.", default=1, min=1)
    measure: bool = flag(
        "Measure its rates first, a few seconds; else usual ones.", "--measure/--no-measure", default=True
    )
    time_limit: float | None = option(
        "S", "Seconds of the search.", default=None, shown="10; several Einsums: 60", min=0, panel=EFFORT
    )
    fuse: bool = flag(
        "Several Einsums: keep what is between them in a cache, if that is possible.", "--fuse/--no-fuse", default=True
    )
    mapper_option: list[str] = several(
        "NAME=VALUE", "An option of the mapper, named as under `mapper:`; repeatable.", "--option"
    )
    repeats: int = option("N", "Runs of each contender, cold and warm.", default=15, min=1, panel=EFFORT)
    budget: float = option("S", "Seconds after which runs end, after three.", default=20.0, min=0, panel=EFFORT)
    compare: bool = flag("Run NumPy, and PyTorch where it is installed, too.", "--compare/--no-compare", default=True)
    output: Path | None = output_option("Write the C code that was run.")


def bench_command(options: Options, output: Tables, source: Source) -> None:
    """Map a workload onto the processor at hand, run it as fast C, and say how fast that is.

    FILES: a workload, with an architecture or a mapping of one's own where wanted. Needs a C compiler.

    Example: einmap bench matmul -D M=1024 -D K=1024 -D N=1024 -D BITS=32
    """
    # Here, not above: they import numpy and the searches, which other commands do not need
    from einmap.bench.bench import benchmark
    from einmap.bench.compiler import compiler_at_hand
    from einmap.bench.search import best_mapped

    target = Target.of(options.output, output.force, source.words)
    files = output.files("einmap.bench.result.Benchmark", source.words)
    compiler_at_hand()  # before anything that takes long
    asked = mapper_options(options.mapper_option)
    with searching(maps=True) as search:
        with reading_inputs(source.define, target, files):
            ways = with_architecture(source, options, search.progress)
        spec = ways[0].spec
        if spec.raw.get("mapping") is None:
            spec = best_mapped(ways, time_limit_of(options, spec), asked, search.progress)
        found = benchmark(
            spec, search.progress, rounds=options.repeats, budget_s=options.budget, compare=options.compare
        )
    if target is not None:
        target.write(found.code)
    output.show(found.to_dict, lambda: benchmark_report(found))
    print_notes(spec.load_notes)
    if target is not None:
        print_hint(f"wrote the code to {target.path}")
    files.write(found)
    if not found.correct:
        raise typer.Exit(WRONG)


def emptying() -> int:
    """Bytes to write so that no cache holds anything else, at most 1 GiB: twice the largest one, where it is known."""
    from einmap.bench.timing import FLUSHED
    from einmap.matmul.measured.this_cpu import detect

    try:
        return min(2 * max(cache.size_bytes for cache in detect().caches), 2**30)
    except SpecError:
        return FLUSHED


def with_architecture(source: Source, options: Options, progress: Progress) -> list[Way]:
    """The specification, with the processor at hand where its files have no architecture; for several cores one, too.

    Where several Einsums are to be mapped there are two, of which the first keeps intermediates in a core's cache.
    """
    from einmap.bench.job import check_workload
    from einmap.bench.search import Way

    spec = source.spec(source.files)
    check_workload(spec.workload)  # before anything is measured
    if spec.raw.get("arch") is not None:
        if options.cores != 1:
            raise typer.BadParameter("the files have an architecture: leave it out", param_hint="--cores")
        return [Way(spec)]
    from einmap.matmul.measured.as_arch import arch_text

    core = core_at_hand(options.measure, progress)
    may_fuse = options.fuse and spec.raw.get("mapping") is None and len(spec.workload.einsums) > 1
    ways = (True, False) if may_fuse else (False,)
    found = []
    with tempfile.TemporaryDirectory(prefix="einmap-") as folder:
        file = Path(folder, "this_cpu.yaml")
        for fused in ways:
            specs = []
            for cores in dict.fromkeys((options.cores, 1)):
                file.write_text(arch_text(core, cores, fused=fused))
                specs.append(source.spec([str(file), *source.files]))
            found.append(Way(*specs))
    return found


def time_limit_of(options: Options, spec: Spec) -> float:
    """Seconds of a search; more for several Einsums, which have far more mappings."""
    if options.time_limit is not None:
        return options.time_limit
    return SECONDS if len(spec.workload.einsums) == 1 else LONGER
