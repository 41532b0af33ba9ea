"""Emitted code is run, and held against the plain Einsums and against what the model counts."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import einmap
from einmap.arch.component import Memory
from einmap.einsum.numeric import random_inputs, run

type Moved = dict[tuple[str, str, str], int]


def counted(spec: einmap.Spec, cost: einmap.Cost | None = None) -> Moved:
    """Values that each memory reads and writes, by (memory, tensor, action), from the actions of the model."""
    cost = cost or einmap.evaluate(spec, semantics="exact")
    found: Counter[tuple[str, str, str]] = Counter()
    for row in cost.actions:
        unit = spec.arch(row.einsum).components[row.component]
        if not isinstance(unit, Memory) or row.action == "leak":
            continue
        rate = unit.action(row.action).actions_per_value[row.tensor] * unit.actions_scale
        instances = spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances
        values = row.count / (rate * instances)
        assert abs(values - round(values)) < 1e-6 * max(1.0, values)
        found[row.component, row.tensor, row.action] += round(values)
    return dict(found)


def run_python(text: str, spec: einmap.Spec, seed: int = 0) -> tuple[dict[str, np.ndarray], Moved]:
    """Outputs and moved values of an emitted module."""
    inputs = random_inputs(spec.workload, seed)
    namespace: dict = {}
    exec(compile(text, "emitted.py", "exec"), namespace)  # the text under test
    return namespace["nest"](*inputs.values())


def problems(text: str, spec: einmap.Spec, cost: einmap.Cost | None = None) -> list[object]:
    """What an emitted module gets wrong."""
    outputs, moved = run_python(text, spec)
    expected = run(spec.workload, random_inputs(spec.workload, 0))
    found: list[object] = []
    graph_outputs = set(spec.workload.producers) - spec.workload.intermediates
    if set(outputs) != graph_outputs:
        found.append(("outputs", sorted(outputs), sorted(graph_outputs)))
    for tensor, values in outputs.items():
        if not np.allclose(values, expected[tensor], rtol=1e-9, atol=1e-12, equal_nan=True):
            found.append(("tensor", tensor, float(np.abs(values - expected[tensor]).max())))
    return [*found, *differences(moved, counted(spec, cost))]


def differences(moved: Moved, expected: Moved) -> list[object]:
    """Counts that are not equal."""
    keys = sorted({*moved, *expected})
    return [(key, moved.get(key, 0), expected.get(key, 0)) for key in keys if moved.get(key, 0) != expected.get(key, 0)]


COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
FLAGS = ["-std=c99", "-Wall", "-Werror", "-g0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) is installed")


def run_c(text: str, folder: Path, *flags: str) -> tuple[int, str, Moved]:
    """Compile and run an emitted file under sanitizers: exit status, what it printed, values moved."""
    source, program = folder / "emitted.c", folder / "emitted"
    source.write_text(text)
    assert COMPILER is not None
    command = [COMPILER, *(flags or FLAGS), str(source), "-o", str(program), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
    moved = {}
    for line in done.stdout.splitlines():
        if line.count("\t") == 3:
            memory, tensor, action, values = line.split("\t")
            moved[memory, tensor, action] = int(values)
    return done.returncode, done.stdout + done.stderr, moved


def problems_in_c(text: str, spec: einmap.Spec, folder: Path, cost: einmap.Cost | None = None) -> list[object]:
    """What an emitted C file gets wrong."""
    status, printed, moved = run_c(text, folder)
    wrong: list[object] = [] if status == 0 else [("status", status, printed[-2000:])]
    return [*wrong, *differences(moved, counted(spec, cost))]
