"""Collectives of training steps that `einmap.gradient` derives and the planner spreads, beside published counts."""

from collections import Counter

import pytest
from tests.distribute.training.models import workload

from einmap import gradient
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import checked_request
from einmap.distribute.search.search import cheapest
from einmap.distribute.search.space import Options, search_space

BATCH, MODEL = "x", "y"
SIZES = {"B": 8, "M": 64, "P": 64, "H": 8, "E": 16, "F": 16, "D": 128, "S": 512, "V": 256}
SPLIT = {"WQ": "H", "WK": "H", "WV": "H", "WZ": "H", "WU": "S", "WO": "S"}
"""Of tensor parallel devices each has some heads, and some features of the feed-forward part."""
ZERO = ("WQ", "WZ", "WU", "WO")
"""Weights of a layer, of nine, that PartIR's ZeRO spreads: four and the table."""


def layer(number, gathered=()):
    """A transformer layer with nine weights: six matrices, scales of two norms, a bias. `gathered`: weights that are
    read as copies, which lie elsewhere.
    """

    def of(weight, index):
        return f"{weight}{number}{'g' if weight in gathered else ''}[{index}]"

    n, before = number, number - 1
    return [
        *(f"{weight}{n}g[{rank}] = {weight}{n}[{rank}]" for weight, rank in INDEX.items() if weight in gathered),
        f"N{n}[b, m, d] = gelu(X{before}[b, m, d]) * GA{n}[d]",
        f"Q{n}[b, m, h, e] = N{n}[b, m, d] * {of('WQ', 'd, h, e')}",
        f"K{n}[b, p, h, e] = N{n}[b, M: p, d] * {of('WK', 'd, h, e')}",
        f"V{n}[b, p, h, f] = N{n}[b, M: p, d] * {of('WV', 'd, h, f')}",
        f"QK{n}[b, m, p, h] = Q{n}[b, m, h, e] * K{n}[b, p, h, e]",
        f"A{n}[b, m, p, h] = exp(QK{n}[b, m, p, h])",
        f"AV{n}[b, m, h, f] = A{n}[b, m, p, h] * V{n}[b, p, h, f]",
        f"Z{n}[b, m, d] = AV{n}[b, m, h, f] * {of('WZ', 'h, f, d')}",
        f"Y{n}[b, m, d] = X{before}[b, m, d] + Z{n}[b, m, d]",
        f"NY{n}[b, m, d] = gelu(Y{n}[b, m, d]) * GB{n}[d]",
        f"U{n}[b, m, s] = NY{n}[b, m, d] * {of('WU', 'd, s')}",
        f"R{n}[b, m, s] = gelu(U{n}[b, m, s])",
        f"O{n}[b, m, d] = R{n}[b, m, s] * {of('WO', 's, d')}",
        f"X{n}[b, m, d] = Y{n}[b, m, d] + O{n}[b, m, d] + BO{n}[d]",
    ]


INDEX = {"WQ": "d, h, e", "WZ": "h, f, d", "WU": "d, s", "WO": "s, d"}
WEIGHTS = (*SPLIT, "GA", "GB", "BO")
SLOW = [pytest.mark.slow, pytest.mark.distribute]


def step_of(layers, zero):
    """Forward and backward pass and update of a language model whose table is read at both ends. Where weights are
    spread, what is gathered for the forward pass is gathered again for the backward pass.
    """
    gathered = ZERO if zero == 3 else ()
    copies = ["T0g[v, d] = T[v, d]", "T1g[v, d] = T[v, d]"] if gathered else []
    first, last = ("T0g", "T1g") if gathered else ("T", "T")
    einsums = [
        *copies,
        f"X0[b, m, d] = I[b, m, v] * {first}[v, d]",
        *(text for n in range(1, layers + 1) for text in layer(n, gathered)),
        f"LO[b, m, v] = X{layers}[b, m, d] * {last}[v, d]",
        "L[O: 0] = gelu(LO[b, m, v])",
    ]
    weights = ["T", *(f"{weight}{n}" for n in range(1, layers + 1) for weight in WEIGHTS)]
    again = [name for name in (text.partition("[")[0] for text in einsums) if name.endswith("g")]
    return gradient(workload(einsums, 16, **SIZES), "L", weights, optimizer="adam", recompute=again), weights


def collectives(layers, axes, zero=0):
    """How many there are of each kind in the cheapest plan of a language model."""
    made, weights = step_of(layers, zero)
    spread = {"T", *(f"{weight}{n}" for n in range(1, layers + 1) for weight in ZERO)} if zero else set()
    placements = {"L": {}, **({"I": {"B": BATCH}} if BATCH in axes else {})}
    for weight in weights:
        own = {SPLIT[weight[:2]]: MODEL} if weight[:2] in SPLIT and MODEL in axes else {}
        parts = own | ({("V" if weight == "T" else "D"): BATCH} if weight in spread else {})
        state = made.update.state[weight]
        placements |= dict.fromkeys((weight, made.update.weights[weight]), parts if zero == 3 else own)
        placements |= dict.fromkeys((*state, *state.values()), parts)
    found = moves(made.workload, axes, placements, spread if zero == 3 else ())
    return Counter(move.hop.kind for move in found)


def moves(workload, axes, placements, spread=()):
    """The moves of the cheapest plan. `spread`: weights that are nowhere whole."""
    mesh = Mesh(tuple((axis, 4) for axis in axes))
    context = context_of(workload, mesh)
    links = {BATCH: Link(1e12), MODEL: Link(1e9)}
    cluster = Cluster(ProcessingElement(peak=((16, 1e30),)), tuple((axis, links[axis]) for axis in axes))

    def allow(einsum, loops):
        """Samples are split over one axis and heads or features over the other, wherever an Einsum has them."""
        over = {axis: loop.variable for loop in loops for axis in loop.axes}
        names = set(einsum.rank_variables)
        samples = {"b"} & names
        features = {"h", "s"} & names
        if einsum.part == "update":
            return True
        if spread and einsum.inputs <= spread:
            # a copy of a spread weight is made of parts, and gathered
            samples = {"v" if einsum.name.startswith("T") else "d"}
        wanted = {BATCH: samples, MODEL: features}
        return all(over.get(axis) in (wanted[axis] or {None}) for axis in axes)

    def keep(tensor, placement):
        return tensor not in spread or BATCH in placement.used

    bits = dict.fromkeys(workload.tensors, 16.0)
    model, options = ClusterCost(cluster, "time"), Options(True, False, allow, keep)
    found = cheapest(search_space(context, checked_request(context, placements), model, bits, options))
    return [action for action in found.actions if hasattr(action, "hop") and action.hop.kind != "slice"]


@pytest.mark.parametrize(
    ("axes", "zero", "counts"),
    [
        pytest.param("x", 0, {"all_reduce": 290}, marks=SLOW),
        pytest.param("y", 0, {"all_reduce": 128}, marks=SLOW),
        pytest.param("xy", 0, {"all_reduce": 418}, marks=SLOW),
        ("xy", 2, {"all_gather": 129, "all_reduce": 289, "reduce_scatter": 129}),
        ("xy", 3, {"all_gather": 259, "all_reduce": 289, "reduce_scatter": 129}),
    ],
)
def test_a_transformer_of_32_layers_has_the_collectives_that_partir_counts(axes, zero, counts):
    """Alabed et al., "PartIR: composing SPMD partitioning strategies for machine learning": T32, its table of counts.

    Data parallel: the gradients of 9 weights a layer and of the table, and the loss; tensor parallel: 4 a layer. A
    layer more always brings as many as the one before.
    """
    one, two = (collectives(layers, axes, zero) for layers in (1, 2))
    assert {kind: one[kind] + 31 * (two[kind] - one[kind]) for kind in one | two} == counts


@pytest.mark.parametrize(("axes", "summed"), [("y", False), ("xy", True)])
def test_a_transformer_has_an_all_reduce_less_where_no_gradient_of_its_input_is_needed_as_alpa_counts(axes, summed):
    """Alpa's tests of BERT: 4 L - 1 all-reduces of samples x positions x features; with data parallel devices beside
    them those of gradients, which it merges into one. Norms of BERT stand behind: the first one trains nothing.
    """
    layers = 2
    einsums = [text for n in range(1, layers + 1) for text in layer(n)]
    weights = [f"{weight}{n}" for n in range(1, layers + 1) for weight in WEIGHTS]
    weights.remove("GA1")
    made = gradient(workload(einsums, 16, **SIZES), f"X{layers}", weights, optimizer="sgd")
    placements = {weight: {SPLIT[weight[:2]]: MODEL} if weight[:2] in SPLIT else {} for weight in weights}
    placements |= {made.update.weights[weight]: placements[weight] for weight in weights}
    placements |= dict.fromkeys(("X0", made.seed), {"B": BATCH} if BATCH in axes else {})
    found = moves(made.workload, axes, placements)
    assert {move.hop.kind for move in found} == {"all_reduce"}
    activations = [move.tensor for move in found if move.hop.axes == (MODEL,)]
    assert len(activations) == 4 * layers - 1
    gradients = {move.tensor for move in found} - {*activations}
    assert gradients == (set(made.gradients.values()) if summed else set())
