"""Large lattices: tables with few rows find what plain enumerations find; arrays of three and four dimensions."""

import json
import math
import random
import subprocess
import sys
from unittest.mock import Mock

import pytest
from tests.machines import workload
from tests.mapper.clocks import LOOK
from tests.mapper.test_optimal import ADDITIVE, covers, front
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_array, draw_problem

import einmap
from einmap.mapper.branch_and_bound.sparse_search import SparseSearch
from einmap.mapper.cost_bounds import compute_path
from einmap.mapper.cost_bounds.cost_to_go import sparse_kernels
from einmap.mapper.cost_bounds.cost_to_go.sparse_tables import Limit
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.templates import groups
from einmap.mapper.warm import warm


class Refined:
    """The optima that are known before a search begins, a little worse; in how many searches they left rows out."""

    def __init__(self):
        self.rows, self.used = [], 0


@pytest.fixture
def few_rows(monkeypatch):
    """Every lattice is large, and tables have only rows that lead to something better than what is known."""
    known = Refined()
    take = SparseSearch.take

    def taking(search, plans, room, of_first=0.0):
        archive = Archive(len(search.goal_codes))
        archive.n = len(known.rows)
        for row, values in enumerate(known.rows):
            archive.values[row] = values
        search.limit = Limit(archive, TIE, search.remainder)
        taken = take(search, plans, room, of_first)
        known.used += search.tables.limit is not None
        return taken

    monkeypatch.setattr(compute_path, "LARGE", 0)
    monkeypatch.setattr(SparseSearch, "take", taking)
    return known


def compared(problem, rng, most, known):
    """Compare the search with brute force; False when that takes too long."""
    semantics = rng.choice(["exact", "accelforge"])
    goals = rng.choice([[rng.choice(ADDITIVE)], ["energy_delay_product"], ["energy", "latency"]])
    given = spec_of(problem)
    if known is not None:
        known.rows = []
    theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    if result is None or not result.optimal:
        return False
    if known is not None:
        known.rows = [[value * (1 + 1e-7) + 1e-12 for value in values] for values in theirs]
    ours, result = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (goals, semantics, ours, theirs)
    assert covers(theirs, ours), (goals, semantics, ours, theirs)
    assert result is not None
    assert result.optimal
    return all(part["brute_force"] is None for part in result.stats.by_einsum.values())


def drawn(draw, seed, most, known=None):
    rng = random.Random(seed)
    problem = draw(rng)
    try:
        return compared(problem, rng, most, known)
    except einmap.SpecError:
        return False


def test_tables_with_few_rows_lose_nothing(few_rows):
    assert sum(drawn(draw_problem, seed, 1_500, few_rows) for seed in range(20_003, 20_006)) >= 2
    assert sum(drawn(draw_array, seed, 1_500, few_rows) for seed in range(20_100, 20_105)) >= 1
    assert few_rows.used >= 2


def test_arrays_of_three_and_four_dimensions():
    assert sum(drawn(draw_array, seed, 1_500) for seed in range(20_200, 20_204)) >= 1


@pytest.mark.parametrize(("metric", "ties"), [("energy", False), ("latency", True), ("energy_delay_product", False)])
def test_rows_that_loops_do_not_lead_to_are_not_needed(monkeypatch, metric, ties):
    kernel = Mock(wraps=sparse_kernels.rows_above_gap)
    monkeypatch.setattr(sparse_kernels, "rows_above_gap", kernel)
    spec = einmap.load("edge", "conv", define={"M": 16, "C": 12, "P": 8, "Q": 8})
    costs = []
    for points, is_sparse in ((1, True), (math.inf, False)):
        monkeypatch.setattr(groups, "FEW_POINTS", points)
        kernel.reset_mock()
        result = einmap.map_workload(spec, metrics=metric, break_ties=ties)
        assert kernel.called == is_sparse
        costs.append((result.cost.energy, result.cost.latency, result.optimal))
    assert costs[0] == costs[1]


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_tables_with_few_rows_lose_nothing_on_many_problems(few_rows, part):
    assert (
        sum(drawn(draw_problem, seed, 20_000, few_rows) for seed in range(21_000 + 100 * part, 21_100 + 100 * part))
        >= 30
    )
    assert (
        sum(drawn(draw_array, seed, 20_000, few_rows) for seed in range(22_000 + 100 * part, 22_100 + 100 * part)) >= 15
    )
    assert few_rows.used >= 40


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_arrays_of_three_and_four_dimensions_on_many_problems(part):
    assert sum(drawn(draw_array, seed, 20_000) for seed in range(23_000 + 100 * part, 23_100 + 100 * part)) >= 15


ARRAY = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, tensors: {keep: All},
      actions: [{name: read, energy: 16, throughput: 128}, {name: write, energy: 16, throughput: 128}]}
MORE
  - !Memory {name: Buffer, size: 8388608, leak_power: 1, tensors: {may_keep: All},
      actions: [{name: read, energy: 0.6, throughput: 1024}, {name: write, energy: 0.6, throughput: 1024}]}
  - !Container {name: Array, spatial: [DIMS]}
  - !Memory {name: Reg, size: 512, leak_power: 0, tensors: {may_keep: All},
      actions: [{name: read, energy: 0.03, throughput: inf}, {name: write, energy: 0.03, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 0.25, throughput: 1}]}
""" + workload("M: SIZE, K: SIZE, N: SIZE", "Z[m,n] = A[m,k] * B[k,n]")
MORE = """  - !Memory {name: NAME, size: BITS, leak_power: 0, tensors: {may_keep: All},
      actions: [{name: read, energy: 2, throughput: 512}, {name: write, energy: 2, throughput: 512}]}
"""
CHILD = """
import itertools, json, sys, time
import einmap
from einmap.mapper.problem.memory_limit import peak
text, limit, seconds = json.load(sys.stdin)
looks = itertools.count()
time.monotonic = lambda: next(looks) * LOOK
try:
    result = einmap.map_workload(einmap.loads(text), memory_limit=limit, time_limit_s=seconds)
    answer = [result.optimal, result.gap, result.reason]
except einmap.EinmapError as error:
    answer = [None, None, str(error)]
print(json.dumps([*answer, peak()]))
"""


def array(size, fanouts, more=()):
    """A matrix product on an array whose dimensions may reuse one tensor each, with more memories between."""
    shared = "ABZA"
    dims = ", ".join(f"{{name: d{i}, fanout: {fanout}, may_reuse: {shared[i]}}}" for i, fanout in enumerate(fanouts))
    nodes = "".join(MORE.replace("NAME", f"L{i}").replace("BITS", str(bits)) for i, bits in enumerate(more))
    return ARRAY.replace("MORE\n", nodes).replace("DIMS", dims).replace("SIZE", str(size))


@pytest.fixture(scope="module")
def kernels_on_disk():
    """Compiled ahead: a process that compiles kernels needs more memory than one that loads them."""
    warm()


def in_a_child(text, limit, seconds=None):
    """Whether a result is proven, its gap, its reason (or the error), and the peak of the process in bytes.

    `seconds`: the time limit by a clock that counts looks, where the search is not meant to end by itself.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD.replace("LOOK", str(LOOK))],
        check=False,
        input=json.dumps([text, limit, seconds]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_peak_of_a_process_does_not_count_the_one_that_started_it():
    held = b"x" * 400_000_000
    text = "from einmap.mapper.problem.memory_limit import peak; print(peak())"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert 0 < int(done.stdout) < len(held)


@pytest.mark.slow
@pytest.mark.mapper
def test_a_large_lattice_is_proven_within_its_memory(kernels_on_disk):
    optimal, gap, reason, peak = in_a_child(array(5040, (8, 16, 16)), 400_000_000)
    assert optimal, reason
    assert gap == 0
    assert peak <= 400_000_000


@pytest.mark.parametrize("sizes", [(2**40, 2**40), (720720,) * 4])
def test_products_of_sizes_beyond_64_bits_do_not_overflow(sizes):
    ranks = "ijkl"[: len(sizes)]
    text = array(1, (2,)).split("  rank_sizes")[0]
    text += f"""  rank_sizes: {{{", ".join(f"{r.upper()}: {n}" for r, n in zip(ranks, sizes, strict=True))}}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[{",".join(ranks)}] = A[{",".join(ranks)}]"]
"""
    result = einmap.map_workload(einmap.loads(text), metrics="energy")
    n = math.prod(sizes)
    assert result.optimal
    # 8 bits of each value are read and written outside once, and computed, while the buffer leaks
    assert result.cost.energy == pytest.approx(n * (2 * 8 * 16 + 0.25) + result.cost.latency, rel=1e-12)


def test_a_limit_that_is_too_low_to_begin_with_says_the_least_that_would_do():
    optimal, _, error, _ = in_a_child(array(8, (2,)), 60_000_000)
    assert optimal is None
    assert "memory_limit is 60 MB" in error
    assert "the least that would do is" in error
    assert "mapper.memory_limit" not in error  # it is not the specification's


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (array(5040, (8, 8, 8, 8)), 400_000_000),
        (array(5040, (8, 16, 16)), 300_000_000),
        (array(720720, (8, 16, 16)), 350_000_000),
        (array(1024, (16, 16), (2**27, 2**24, 2**20)), 400_000_000),
        (array(5040, (4, 4, 4), (2**27, 2**24, 2**20)), 500_000_000),
    ],
)
def test_the_limit_is_that_of_the_process(kernels_on_disk, text, limit):
    _, gap, reason, peak = in_a_child(text, limit, 2)
    assert gap is not None, reason
    assert peak <= limit, reason
