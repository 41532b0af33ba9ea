"""benchmark(): the mapping of a specification as fast C, compiled, checked, and timed beside libraries."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.bench.compiler import Library, aligned, compiler_at_hand, version_of
from einmap.bench.libraries import libraries, of_threads
from einmap.bench.result import Benchmark, Moved, Run
from einmap.bench.timing import FLUSHED, in_turn, pinned
from einmap.bench.values import Array, by_numpy, inputs_of, is_near, mapped, operands_of
from einmap.emit.fast.fast_c import einsum_text, fast_nest, text_of
from einmap.emit.fast.fused import is_exact
from einmap.emit.fast.nest import Nest
from einmap.errors import SpecError
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

ROUNDS = 15
BUDGET = 20.0
MOST_BYTES = 2**34
"""Bytes of all tensors together."""
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
    map rounds.

    Raises SpecError without a C compiler, without threadpoolctl, and for tensors of more than 16 GiB, NotSupportedError
    for what cannot be emitted as fast code.
    """
    progress = progress or Progress()
    compiler = compiler_at_hand()
    nest = fast_nest(spec)
    dtype = np.dtype({"float": np.float32, "double": np.float64}[nest.real])
    needed = dtype.itemsize * sum(prod(shape) for shape in nest.shapes.values())
    if needed > MOST_BYTES:
        raise SpecError(f"the tensors take {needed:,} bytes, at most {MOST_BYTES:,} are held", hint="make it smaller")
    cores = prod(loop.iterations for loop in nest.loops if loop.lanes)
    code = text_of(nest)
    inputs = inputs_of(nest.einsum, nest.shapes, dtype)
    if nest.fused is not None:
        inputs |= operands_of(nest.fused, dtype)
    out = aligned(nest.shapes[nest.written], dtype)
    with tempfile.TemporaryDirectory(prefix="einmap-") as folder, of_threads(cores), pinned(cores) as is_pinned:
        progress.report("compiling", 0, None)
        library = Library(code, Path(folder), compiler, threads=cores > 1)
        arrays = [*(inputs[t] for t in (*nest.inputs, *nest.operands)), out]
        runs: dict[str, Callable[[], object]] = {MAPPED: lambda: library(arrays)}
        results: dict[str, Callable[[], Array]] = {MAPPED: lambda: out}
        for other in libraries(nest.einsum, inputs, out.shape, nest.fused) if compare else ():
            runs[other.name], results[other.name] = other.run, other.result
        clock = time.thread_time if cores == 1 else time.perf_counter
        times = in_turn(runs, rounds, budget_s, clock, flushed, progress)
        expected, exact = expected_of(nest, inputs)
        found = tuple(Run(n, t, int((~is_near(results[n](), expected, exact)).sum())) for n, t in times.items())
    cost = evaluate(spec)
    return Benchmark(
        einsum_text(nest),
        code,
        version_of(compiler),
        "processor time of the thread" if cores == 1 else "wall time",
        is_pinned,
        cores,
        float(len(nest.inputs)) * prod(n for _, n in nest.einsum.bounds),
        cost.latency,
        cost.energy / cores,
        tuple(_moved(spec, nest, cost.actions)),
        found,
        exact,
    )


def expected_of(nest: Nest, inputs: Mapping[str, Array]) -> tuple[Array, bool]:
    """The values that are to come out, and whether that is exact: a map is computed in double precision."""
    sums = by_numpy(nest.einsum, inputs)
    if nest.fused is None:
        return sums, True
    operands = {t: inputs[t].astype(np.float64) for t in nest.operands}
    return mapped(nest.fused, sums.astype(np.float64), operands), is_exact(nest.fused.expression)


def _moved(spec: Spec, nest: Nest, actions: Any) -> Iterator[Moved]:
    accesses = (*nest.einsum.accesses, *(() if nest.fused is None else nest.fused.einsum.accesses))
    bits: Mapping[str, float] = {a.tensor: a.bits_per_value for a in accesses}
    components = {name: arch.components for name, arch in spec.archs.items()}
    for row in actions:
        unit = components[row.einsum][row.component]
        if isinstance(unit, Memory) and row.tensor in bits and row.action in ("read", "write") and row.count:
            rate = unit.action(row.action).actions_per_value[row.tensor] * unit.actions_scale
            yield Moved(row.component, row.tensor, row.action, row.count / rate * bits[row.tensor])
