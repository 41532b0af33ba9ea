"""Where lists of choices are long a good mapping comes before them, and a limit of time holds while they are made."""

import math
import time

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.work import work_below

import einmap
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.independent.first import first_mapping
from einmap.mapper.mapspace.lanes.fanout_table import HURRIED, lane_table
from einmap.mapper.mapspace.lanes.lane_moves import first_uses, moved
from einmap.mapper.mapspace.lanes.spatial_mappings import spatial_choices
from einmap.mapper.problem.request import Request
from einmap.model.counting.semantics import semantics_named

EDP = "energy_delay_product"
FREE = """DRAM inf 8e-12/8e-12 @8e11 {{tensors: {{keep: All}}}}
    L2 64e6 1e-12/1e-12 @4e12 {{tensors: {{keep: Nothing, may_keep: All}}}}
    Core: c 4 {{may_reuse: All}}
    L1 4e6 2e-13/2e-13 @2e12 {{tensors: {{keep: Nothing, may_keep: All}}}}
    PE: row {n} {{may_reuse: Outputs}}
    Columns: col {n} {{may_reuse: Inputs}}
    Reg 8 0/0 @inf
    MAC 1e-13 @1e9"""
PRODUCT = workload("M: 256, K: 128, N: 512", "Z[m, n] = A[m, k] * B[k, n]")
CONVOLUTION = workload("C: 32, M: 64, P: 28, R: 3, H: 30", "O[m, p] = I[c, H: p + r] * F[m, c, r]")
ATTENTION = workload(
    "B: 2, H: 8, M: 128, P: 128, E: 64",
    "QK[b, h, m, p] = Q[b, h, m, e] * K[b, h, p, e]",
    "S[b, h, m, p] = exp(QK[b, h, m, p])",
)


def loaded(n, work):
    return einmap.loads(machine(FREE.format(n=n)) + work)


def path_of(spec):
    einsum, arch = spec.workload.einsums[0], spec.arch()
    request = Request((EDP,), semantics_named("exact"))
    return Path(einsum, arch, arch.path("MAC"), request)


@pytest.mark.parametrize(
    "work", [PRODUCT, CONVOLUTION, pytest.param(ATTENTION, marks=[pytest.mark.slow, pytest.mark.mapper])]
)
def test_first_mappings_on_a_machine_without_constraints_are_nearly_the_best(work):
    spec = loaded(8, work)
    request = Request(("energy", "latency"), semantics_named("exact"))
    best = einmap.map_workload(spec, metrics=EDP, fuse=False)
    assert best.optimal
    total = np.zeros(2)
    for einsum in spec.workload.einsums:
        arch, times = spec.arch(einsum.name), spec.workload.n_instances * einsum.n_instances
        total += first_mapping(einsum, arch, request, EDP, times, einmap.Progress(), math.inf).values[0]
    assert best.cost.edp * (1 - 1e-9) <= total.prod() <= 2 * best.cost.edp


def test_it_needs_no_list_of_what_there_is():
    """Four thousand times as many uses of the fanouts take hardly more choices."""
    looked_at = []
    for n in (4, 64):
        spec = loaded(n, PRODUCT)
        request = Request((EDP,), semantics_named("exact"))
        first = first_mapping(spec.workload.einsums[0], spec.arch(), request, EDP, 1, einmap.Progress(), 1e9)
        looked_at.append(first.work)
    assert looked_at[1] < 10 * looked_at[0]


@pytest.mark.parametrize("work", [PRODUCT, CONVOLUTION])
def test_moves_of_lanes_stay_among_all_uses(work):
    path = path_of(loaded(8, work))
    every = {frozenset(choice) for choice in spatial_choices(path.einsum, path.leaves)}
    variables = [axis.variables[0] for axis in path.lattice.axes]

    def choices_of(table):
        for bounds in table.bounds.tolist():
            yield frozenset(
                (fanned.component, fanned.dimension.name, variable, bound)
                for fanned, row in zip(table.dimensions, bounds, strict=True)
                for variable, bound in zip(variables, row, strict=True)
                if bound > 1
            )

    written = {frozenset((x.component, x.dimension, x.variable, x.bound) for x in choice) for choice in every}
    first = first_uses(path.einsum, path.leaves, path.lattice, frozenset())
    near = moved(path.einsum, first.only(np.array([0])), path.lattice)
    assert set(choices_of(first)) | set(choices_of(near)) <= written
    assert len(near) > 10


def test_a_list_of_uses_that_is_stopped_is_short_and_says_so():
    path = path_of(loaded(64, PRODUCT))
    asked = path.einsum, path.leaves, path.lattice
    whole, part = lane_table(*asked), lane_table(*asked, stopped=lambda: True)
    assert whole.complete and not whole.ended and len(whole) > 4 * HURRIED
    assert part.ended and not part.complete and len(part) > 0
    assert {row.tobytes() for row in part.bounds} <= {row.tobytes() for row in whole.bounds}


@pytest.mark.parametrize("fuse", [True, pytest.param(False, marks=[pytest.mark.slow, pytest.mark.mapper])])
def test_a_limit_holds_while_choices_are_listed(fuse, monkeypatch):
    """Of processor time: all lists of this machine together take half a minute."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    spec = loaded(128, ATTENTION)
    einmap.map_workload(spec, metrics=EDP, fuse=fuse, time_limit_s=0.1)
    with work_below(2.5):
        found = einmap.map_workload(spec, metrics=EDP, fuse=fuse, time_limit_s=1)
    assert found.cost.edp > 0
