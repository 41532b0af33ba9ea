"""Workloads in a line or two, and what the tests of partitions ask of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from einmap import Spec
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.einsum.numeric import graph_inputs, run, shapes
from einmap.einsum.rewrites.steps import Partitioned, parse_step, partition
from einmap.einsum.workload import Workload


def workload(*einsums: Any, **sizes: int) -> Workload:
    """Einsums as strings or dictionaries, sizes of ranks by name."""
    listed = [{"einsum": e} if isinstance(e, str) else e for e in einsums]
    return Spec.from_dict(workload={"bits_per_value": {"All": 8}, "einsums": listed, "rank_sizes": sizes}).workload


def after(before: Workload, *steps: str) -> str:
    """The Einsums after steps such as `split K=8`, checked to compute the same values."""
    done = checked(before, *steps)
    return pretty_einsums(done.workload)


def checked(before: Workload, *steps: str) -> Partitioned:
    done = partition(before, [parse_step(*step.split(" ", 1)) for step in steps])
    assert_same_values(done)
    return done


def assert_same_values(done: Partitioned, seed: int = 0, low: float = -2, high: float = 2) -> None:
    """On numbers of both signs, with NaN wherever a partition is padded."""
    rng = np.random.default_rng(seed)
    size = shapes(done.original)
    inputs = {t: rng.uniform(low, high, size[t]) for t in graph_inputs(done.original)}
    expected = run(done.original, inputs)
    found = done.recover_outputs(run(done.workload, done.place_inputs(inputs, fill=np.nan)))
    assert found.keys() == expected.keys()
    for tensor, values in expected.items():
        np.testing.assert_allclose(found[tensor], values, rtol=1e-9, atol=1e-12, err_msg=tensor)


def without_texts(given: Workload) -> Workload:
    """Operations compare by meaning, not by how they were spelled."""
    einsums = (replace(e, operation=replace(e.operation, text="")) for e in given.einsums)
    return replace(given, einsums=tuple(einsums))
