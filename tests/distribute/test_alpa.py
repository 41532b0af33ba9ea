"""Optima that the prototype of Alpa's solver publishes (alpa-projects/alpa, playground/auto_sharding_solver).

A training step is a cascade like any other: forward, backward and update are Einsums, and an updated weight lies as the
weight does, which is one more edge of the selection problem. Nothing is placed, the search finds all of it.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from einmap import Spec, gradient
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import checked_request
from einmap.distribute.plans.collectives import sent
from einmap.distribute.search.problem import selection_problem
from einmap.distribute.search.search import cheapest
from einmap.distribute.search.space import Options, search_space
from einmap.distribute.selection.problem import Edge, Selection
from einmap.distribute.selection.solve import solve

BYTES = 4


@dataclass(frozen=True)
class AlpaCost:
    """Its units: latency 1, inverse bandwidths `beta` by axis. Products cost so much that none is repeated."""

    beta: tuple[tuple[str, float], ...] = (("x", 1.0),)
    least_product: float = 2e6
    computing: float = 1.0

    def move(self, kind, mesh, axes, operand, result, senders=1.0):
        beta = max(dict(self.beta)[axis] for axis in axes)
        volume = float(sent(kind, mesh.parts(axes), 1, 1)) * (result if kind == "all_gather" else operand) / 8
        extra = {"all_reduce": 0.01, "all_gather": 0.1}.get(kind, 0.001)
        return int(1 + beta * volume) + extra

    def of(self, einsum):
        return self

    def compute(self, mesh, work):
        return self.computing * work.operations if work.operations >= self.least_product else 0.0


def training_step(layers, batch, width):
    """A perceptron of so many layers without bias: forward, backward, update."""
    forward = [f"H{i + 1}[b, f{i + 1}] = H{i}[b, f{i}] * W{i}[f{i}, f{i + 1}]" for i in range(layers)]
    last = f"b, f{layers}"
    forward.append(f"L[{last}] = (H{layers}[{last}] - Y[{last}]) * (H{layers}[{last}] - Y[{last}]) / 2048")
    sizes = {"B": batch, **{f"F{i}": width for i in range(layers + 1)}}
    weights = [f"W{i}" for i in range(layers)]
    return gradient(workload_of(forward, sizes), "L", weights, optimizer="sgd").workload


def workload_of(einsums, sizes):
    return Spec.from_dict(
        workload={"rank_sizes": sizes, "bits_per_value": {"All": 8 * BYTES}, "einsums": einsums}
    ).workload


def space_of(workload, mesh, model, placements=None, limited=False, loops=None):
    context = context_of(workload, mesh)
    bits = dict.fromkeys(workload.tensors, 8.0 * BYTES)
    return search_space(context, checked_request(context, placements, loops), model, bits, Options(True, limited))


def least_of_step(layers, batch, width, mesh, model, batch_over=None):
    """The least cost of communication of a training step; `batch_over`: the axis that whatever has a batch is split
    over.
    """
    workload = training_step(layers, batch, width)
    over = {} if batch_over is None else {"b": batch_over}
    loops = {einsum.name: over for einsum in workload.einsums if over and "b" in einsum.rank_variables}
    space = space_of(workload, mesh, model, loops=loops)
    problem = selection_problem(space)
    aliases = []
    for i in range(layers):
        old, new = space.homes[f"W{i}"], space.homes[f"W{i}_next"]
        same = old.first[:, None] == new.first[None, :]
        pair = problem.nodes.tensor(f"W{i}"), problem.nodes.tensor(f"W{i}_next")
        aliases.append(Edge(*pair, np.where(same, 0.0, np.inf)))
    chosen = solve(Selection(problem.selection.nodes, (*problem.selection.edges, *aliases)))
    assert chosen.proven
    computing = sum(
        float(space.ways[name].costs[chosen.choice[problem.nodes.einsum(name)]]) for name in workload.einsum_names
    )
    return chosen.cost - computing


@pytest.mark.parametrize(
    ("layers", "batch", "width", "least"),
    [
        (2, 1024, 128, 196610.02),
        (2, 128, 1024, 786433.01),
        (12, 1024, 128, 1179660.12),
        (12, 128, 1024, 8650763.11),
    ],
)
def test_a_training_step_on_four_PEs_costs_what_Alpa_publishes(layers, batch, width, least):
    assert least_of_step(layers, batch, width, Mesh((("x", 4),)), AlpaCost()) == pytest.approx(least, abs=0.005)


def test_a_training_step_that_must_be_data_parallel_sums_both_gradients_of_its_weights():
    # updates of weights, two million operations each, are repeated on every PE, as in the prototype
    model = AlpaCost(least_product=4e6)
    found = least_of_step(2, 128, 1024, Mesh((("x", 4),)), model, batch_over="x")
    assert found == pytest.approx(12582914.02, abs=0.005)


@pytest.mark.parametrize(
    ("layers", "shape", "least", "more"),
    [
        (2, (8, 4), 58330.03, 0.0),
        (12, (8, 4), 354900.23, 0.0),
        # it scatters, reduces what is left over the other axis and gathers, which the prototype does not offer
        (2, (4, 8), 26872.03, -857.907),
        (12, (4, 8), 172702.23, -12316.997),
        # a third of 1024 tokens is a block of 342, and what is padding is sent as well: 5 for each all-reduce of them
        (2, (3, 4), 46314.03, 5.0),
        (12, (3, 4), 290994.23, 55.0),
    ],
)
def test_a_training_step_on_two_axes_costs_at_most_what_Alpa_publishes(layers, shape, least, more):
    model = AlpaCost((("x", 1.0), ("y", 0.01)))
    found = least_of_step(layers, 1024, 128, Mesh(tuple(zip("xy", shape, strict=True))), model)
    assert found == pytest.approx(least + more, abs=0.005)


def test_attention_in_short_memory_is_split_by_heads_for_one_all_reduce():
    einsums = [
        "Q[b, p, h, e] = X[b, M: p, d] * WQ[d, h, e]",
        "K[b, m, h, e] = X[b, m, d] * WK[d, h, e]",
        "V[b, m, h, e] = X[b, m, d] * WV[d, h, e]",
        "S[b, h, p, m] = exp(Q[b, p, h, e] * K[b, m, h, e])",
        "C[b, p, h, e] = S[b, h, p, m] * V[b, m, h, e]",
        "Z[b, p, o] = C[b, p, h, e] * WO[h, e, o]",
    ]
    workload = workload_of(einsums, {"B": 4, "M": 128, "P": 128, "H": 16, "E": 32, "D": 512, "O": 512})
    # without a limit every PE has all weights and a part of the batch; a quarter of them and the whole input fit here
    space = space_of(workload, Mesh((("x", 4),)), AlpaCost(), {"Z": "replicated"}, limited=True)
    found = cheapest(space, 4.5e6)
    moves = [(action.tensor, action.hop) for action in found.actions if hasattr(action, "hop")]
    assert [(tensor, hop.kind) for tensor, hop in moves] == [("Z", "all_reduce")]
    sent_bits = 8 * BYTES * moves[0][1].operand
    assert AlpaCost().move("all_reduce", space.context.mesh, ("x",), sent_bits, sent_bits) == 1572865.01
    assert {str(found.homes[weight][0]) for weight in ("WQ", "WK", "WV", "WO")} == {"H: x"}
