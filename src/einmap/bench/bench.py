"""benchmark(): the mapping of a specification as fast C, compiled, checked, and timed beside libraries."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from einmap.arch.component import Memory
from einmap.bench.compiler import Library, compiler_at_hand, version_of
from einmap.bench.job import bytes_of, check_bytes, job_of
from einmap.bench.libraries import of_threads
from einmap.bench.predict import core_of, predicted
from einmap.bench.result import Benchmark, Moved, Run
from einmap.bench.timing import FLUSHED, REST, in_turn, pinned
from einmap.bench.values import Array, is_near
from einmap.einsum.einsum import Einsum
from einmap.emit.fast.fast_c import einsum_text, fast_nest, text_of
from einmap.emit.fast.nest import Nest
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

ROUNDS = 15
BUDGET = 20.0
MAPPED = "einmap"
"""The name of the mapping's code among the contenders."""


def benchmark(
    spec: Spec,
    progress: Progress | None = None,
    *,
    rounds: int = ROUNDS,
    budget_s: float = BUDGET,
    compare: bool = True,
    flushed: int = FLUSHED,
) -> Benchmark:
    """Run the mapping of `spec` on the processor at hand, `rounds` times cold and warm, beside libraries.

    On one core times are processor time of the thread, which leaves out what else the machine does; on several wall
    time. After 3 rounds at most `budget_s` seconds. `compare`: time NumPy and PyTorch, too. `flushed`: bytes that are
    written before each cold run. Values are whole numbers, and compared with NumPy's, exactly unless a fused
    map rounds; those of a cascade are fractions, and compared with NumPy's in double precision.

    Raises SpecError without a C compiler, without threadpoolctl, and for tensors of more than 16 GiB, NotSupportedError
    for what cannot be emitted as fast code.
    """
    progress = progress or Progress()
    compiler = compiler_at_hand()
    nest = fast_nest(spec)
    check_bytes(bytes_of(nest))
    job = job_of(nest)
    cores = prod(loop.iterations for loop in job.loops if loop.lanes)
    code = text_of(nest)
    with tempfile.TemporaryDirectory(prefix="einmap-") as folder, of_threads(cores), pinned(cores) as is_pinned:
        progress.report("compiling", 0, None)
        library = Library(code, Path(folder), compiler, threads=cores > 1)
        runs: dict[str, Callable[[], object]] = {MAPPED: library.on(job.arrays)}
        results: dict[str, Callable[[], Array]] = {MAPPED: lambda: job.result}
        for other in job.others() if compare else ():
            runs[other.name], results[other.name] = other.run, other.result
        clock = time.thread_time if cores == 1 else time.perf_counter
        times = in_turn(runs, rounds, budget_s, clock, flushed, progress, REST if cores > 1 else 0.0)
        expected = job.expected()
        differ = {name: int((~is_near(results[name](), expected, job.exact)).sum()) for name in times}
    cost = evaluate(spec)
    core = core_of(spec, nest) if isinstance(nest, Nest) else None
    by_nest = predicted(nest, core).seconds if core is not None and isinstance(nest, Nest) else None
    return Benchmark(
        einsum_text(nest),
        code,
        version_of(compiler),
        "processor time of the thread" if cores == 1 else "wall time",
        is_pinned,
        cores,
        job.flops,
        cost.latency,
        cost.energy / cores,
        tuple(_moved(spec, job.einsums, cost.actions)),
        tuple(Run(name, found, differ[name]) for name, found in times.items()),
        job.exact,
        by_nest,
    )


def _moved(spec: Spec, einsums: Iterable[Einsum], actions: Any) -> Iterator[Moved]:
    bits: Mapping[str, float] = {a.tensor: a.bits_per_value for einsum in einsums for a in einsum.accesses}
    components = {name: arch.components for name, arch in spec.archs.items()}
    for row in actions:
        unit = components[row.einsum][row.component]
        if isinstance(unit, Memory) and row.tensor in bits and row.action in ("read", "write") and row.count:
            rate = unit.action(row.action).actions_per_value[row.tensor] * unit.actions_scale
            yield Moved(row.component, row.tensor, row.action, row.count / rate * bits[row.tensor])
