"""`einmap warmup`: all kernels are ready afterwards."""

import json
from unittest.mock import Mock

import numpy as np
import pytest

import einmap
from einmap.execute.kernel.kernels import run_leaf
from einmap.mapper import warm
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.cost_bounds import compute_path
from einmap.mapper.cost_bounds.cost_to_go import dense_kernels, sparse_kernels
from einmap.mapper.cost_bounds.networks import tree_kernels
from einmap.mapper.fusion.paths import envelope_kernels, label_kernels, path_kernels
from einmap.mapper.objective import objective_kernels
from einmap.progress import Progress

OF_TABLES = ("moves_inside", "with_gap_and_node", "over_lanes")
OF_EINSUMS = (
    *(
        "objectives",
        "many_objectives",
        "exceeds_cutoff",
        "many_exceed_cutoff",
        "beyond",
        "keep_least",
        "survivors",
        "take",
        "search",
    ),
)
OF_CASCADES = ("least_paths", "least_products", "lower_corners", "joined")
OF_LARGE = ("rows_above_gap", "outer_points", "take_least")
OF_TREES = ("links_to_groups",)
KERNELS = (*OF_TABLES, *OF_EINSUMS, *OF_CASCADES, *OF_LARGE, *OF_TREES)


def test_it_says_what_is_ready(run):
    done = run("warmup")
    assert done.status == 0
    *rows, last = done.out.splitlines()
    assert [row.split()[0] for row in rows] == [*KERNELS, "run_leaf"]
    assert last.startswith("ready: ")


def test_json_holds_each_kernel(run):
    document = json.loads(run("warmup", "--json").out)
    assert document["schema"] == 1
    assert [kernel["name"] for kernel in document["kernels"]] == [*KERNELS, "run_leaf"]
    assert all(kernel["seconds"] >= 0 for kernel in document["kernels"])


def signatures():
    """How many kinds of arguments each kernel is compiled for."""
    modules = dict.fromkeys(OF_TABLES, dense_kernels) | {
        name: kernels if hasattr(kernels, name) else objective_kernels for name in OF_EINSUMS
    }
    modules |= {
        name: module
        for module in (path_kernels, envelope_kernels, label_kernels)
        for name in OF_CASCADES
        if name in vars(module)
    } | dict.fromkeys(OF_LARGE, sparse_kernels)
    modules |= dict.fromkeys(OF_TREES, tree_kernels)
    return {name: len(getattr(module, name).signatures) for name, module in modules.items()}


@pytest.mark.parametrize("size", [60, pytest.param(2520, marks=[pytest.mark.slow, pytest.mark.mapper])])
def test_searches_and_simulations_compile_nothing_more(run, monkeypatch, size):
    run("warmup")
    made = signatures()
    assert set(made.values()) == {1}
    einmap.map_workload(einmap.load("edge", "matmul", define={"M": 8, "K": 8, "N": 8}), metrics="energy,latency")
    with monkeypatch.context() as large:
        rows_above_gap = Mock(wraps=sparse_kernels.rows_above_gap)
        large.setattr(sparse_kernels, "rows_above_gap", rows_above_gap)
        large.setattr(compute_path, "LARGE", min(size**3 // 1000, compute_path.LARGE))
        einmap.map_workload(einmap.load("edge", "matmul", define=dict.fromkeys("MKN", size)), metrics="energy")
    assert rows_above_gap.called
    cascade = einmap.load("simple", "matmul_chain")
    for metrics in ("energy", "edp", "energy,latency"):
        einmap.map_workload(cascade, metrics=metrics)
    einmap.execute(einmap.load("simple", "matmul", "simple_matmul", define=dict.fromkeys("MKN", 16)))
    assert signatures() == made
    assert len(run_leaf.signatures) == 1


def test_progress_says_which_kernel_is_being_made(monkeypatch):
    monkeypatch.setattr(warm, "_ready", {})
    reports = []
    warm.warm(Progress(reports.append))
    assert [(r.what.rsplit(" ", 1)[1], r.done, r.total) for r in reports] == [
        (name, i, len(KERNELS)) for i, name in enumerate(KERNELS)
    ]
    reports.clear()
    warm.warm(Progress(reports.append))
    assert reports == []


def test_the_first_call_of_the_simulators_kernel_computes_something():
    from einmap.execute.kernel.warm import smallest_call

    smallest_call()
    assert run_leaf.signatures[0][0].dtype.name == np.dtype(np.int64).name
