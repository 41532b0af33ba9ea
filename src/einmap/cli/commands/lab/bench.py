"""`einmap bench`: a workload on the processor at hand, beside libraries and beside the model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
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
from einmap.errors import NoMappingError, NotSupportedError, SpecError
from einmap.report.bench.benchmark import benchmark_report

if TYPE_CHECKING:
    from einmap.progress import Progress
    from einmap.spec.spec import Spec

WRONG = 1
"""Exit status when values of the code are wrong."""
SECONDS, LONGER = 10.0, 60.0
"""Limits of a search that no limit is given for."""
COARSER = (2, 4)
"""By how many times tile shapes differ at least, in searches after one that finds no mapping."""


@group
class Options:
    """Which mapping is run, how often, and beside what."""

    cores: int = option("N", "Cores of the processor at hand; not where FILES have an architecture.", default=1, min=1)
    measure: bool = flag(
        "Measure its rates first, a few seconds; else usual ones.", "--measure/--no-measure", default=True
    )
    time_limit: float | None = option(
        "S", "Seconds of the search.", default=None, shown="10; several Einsums or cores: 60", min=0, panel=EFFORT
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

    target = Target.of(options.output, output.force, source.words)
    files = output.files("einmap.bench.result.Benchmark", source.words)
    compiler_at_hand()  # before anything that takes long
    asked = mapper_options(options.mapper_option)
    with searching(maps=True) as search:
        with reading_inputs(source.define, target, files):
            spec, *others = with_architecture(source, options, search.progress)
        if spec.raw.get("mapping") is None:
            spec = best_mapped([spec, *others], time_limit_of(options, spec), asked, search.progress)
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


def with_architecture(source: Source, options: Options, progress: Progress) -> list[Spec]:
    """The specification, with the processor at hand where its files have no architecture.

    Where several Einsums are to be mapped there are two, of which the first keeps intermediates in a core's cache.
    """
    spec = source.spec(source.files)
    if spec.raw.get("arch") is not None:
        if options.cores != 1:
            raise typer.BadParameter("the files have an architecture: leave it out", param_hint="--cores")
        return [spec]
    from einmap.matmul.measured.as_arch import arch_text

    core = core_at_hand(options.measure, progress)
    may_fuse = options.fuse and spec.raw.get("mapping") is None and len(spec.workload.einsums) > 1
    ways = (True, False) if may_fuse else (False,)
    found = []
    with tempfile.TemporaryDirectory(prefix="einmap-") as folder:
        file = Path(folder, "this_cpu.yaml")
        for fused in ways:
            file.write_text(arch_text(core, options.cores, fused=fused))
            found.append(source.spec([str(file), *source.files]))
    return found


def time_limit_of(options: Options, spec: Spec) -> float:
    """Seconds of a search; more for several Einsums or cores, which have far more mappings."""
    if options.time_limit is not None:
        return options.time_limit
    return SECONDS if len(spec.workload.einsums) == 1 and options.cores == 1 else LONGER


def best_mapped(specs: list[Spec], time_limit_s: float, options: dict[str, object], progress: Progress) -> Spec:
    """The first of several specifications that has a mapping that fast code can run, with it; NoMappingError for none.

    Each has the time.
    """
    from einmap.emit.fast.fast_c import fast_nest

    *fused, last = specs
    for spec in fused:
        try:
            found = mapped(spec, time_limit_s, options, progress, coarser=())
            fast_nest(found)
        except (NoMappingError, NotSupportedError):
            continue
        return found
    return mapped(last, time_limit_s, options, progress)


def mapped(
    spec: Spec,
    time_limit_s: float,
    options: dict[str, object],
    progress: Progress,
    *,
    coarser: Sequence[int] = COARSER,
) -> Spec:
    """The specification with the best mapping that is found within the time, refined; NoMappingError for none.

    Where a search ends without one, and it is not known that there is none, it begins again, for as long, with fewer
    tile shapes: `coarser`, their `tiling_coarseness`.
    """
    from einmap.bench.refine import refined
    from einmap.mapper.mapper import best_mappings

    result = None
    tries = [options, *({**options, "tiling_coarseness": n} for n in coarser if "tiling_coarseness" not in options)]
    for asked in tries:
        try:
            result = best_mappings(spec, progress=progress, time_limit_s=time_limit_s, **asked)  # type: ignore[arg-type]
            break
        except NoMappingError as error:
            if asked is tries[-1] or error.remedies or progress.stopped:
                raise
    assert result is not None
    return refined(result.spec.with_mapping(result.mapping), result.metrics[0], progress)
