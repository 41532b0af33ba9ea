"""Every pair of features: a result, which brute force confirms where it can, or the sentence of the table."""

import copy
import math
from contextlib import suppress
from itertools import combinations, islice

import pytest
from tests.mapper.fusion.every import Every

import einmap
from einmap.errors import EinmapError, NotSupportedError
from einmap.mapper.capabilities import FEATURES, REFUSED_LATER, UNKNOWN
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.result import objective
from einmap.mapping.nodes import Storage
from einmap.mapping.template import AnyPlace, OpenCompute
from einmap.model.timing.stalls import winding_up
from einmap.spec.open_layouts import open_layouts

ACTIONS = [{"name": "read", "energy": 3, "throughput": 4}, {"name": "write", "energy": 5, "throughput": 2}]


def memory(name, size, energy, **tensors):
    actions = [{**action, "energy": action["energy"] * energy} for action in ACTIONS]
    return {
        "type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "actions": actions,
        "tensors": tensors,
    }  # fmt: skip


BASE = {
    "arch": {
        "nodes": [
            memory("Main", "inf", 10, keep="~Intermediates", may_keep="All"),
            {"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": 2}]},
            memory("Buffer", 160, 1, may_keep="All"),
            {
                "type": "Compute",
                "name": "MAC",
                "leak_power": 0,
                "area": 0,
                "actions": [{"name": "compute", "energy": 1, "throughput": 1}],
            },
        ]
    },
    "workload": {
        "rank_sizes": {"M": 2, "K": 3, "N": 2},
        "bits_per_value": {"All": 8},
        "einsums": ["Z[m, n] = A[m, k] * B[k, n]"],
    },
    "model": {},
}
CASCADE = ["Y[m, n] = A[m, k] * B[k, n]", "Z[m, p] = Y[m, n] * D[n, p]"]
NETWORK = {"type": "Network", "name": "Noc", "leak_power": 0, "area": 0,
           "actions": [{"name": "hop", "energy": 1, "latency": 1, "throughput": 2}]}  # fmt: skip


class Draw:
    """A specification as a tree, and the options of a call, changed by features one after another."""

    def __init__(self, several):
        self.tree, self.options = copy.deepcopy(BASE), {}
        if several:
            self.tree["workload"]["einsums"] = list(CASCADE)
            self.tree["workload"]["rank_sizes"] = {"M": 2, "K": 2, "N": 2, "P": 2}
        self.main, self.array, self.buffer, self.mac = self.tree["arch"]["nodes"]

    def set(self, node, **fields):
        node.update(copy.deepcopy(fields))

    def insert(self, node):
        nodes = self.tree["arch"]["nodes"]
        nodes.insert(nodes.index(self.array) + 1, copy.deepcopy(node))

    def spec(self):
        return einmap.Spec.from_dict(copy.deepcopy(self.tree))

    def map(self):
        return einmap.map_workload(self.spec(), **{"metrics": "latency", **self.options})


def option(**options):
    return lambda draw: draw.options.update(options)


def model(**options):
    return lambda draw: draw.tree["model"].update(options)


def on(node, **fields):
    return lambda draw: draw.set(getattr(draw, node), **fields)


def given(draw):
    draw.options["given"] = einmap.PartialMapping(
        (
            Storage(("A", "B"), "Main"),
            AnyPlace(),
            OpenCompute("Y" if CASCADE[0] in draw.tree["workload"]["einsums"] else "Z"),
        )
    )


def recurrence(draw):
    # a memory inside that no lanes spread must keep what a step leaves behind
    nodes = draw.tree["arch"]["nodes"]
    if draw.array["type"] == "Container":
        nodes[1:3] = [draw.buffer, draw.array]
    draw.tree["workload"]["einsums"] += ["R[t, q] = H[S: t, Q: q] * U[q]", "H[S: t + 1, Q: q] = R[t, q] + P[t, q]"]
    draw.tree["workload"]["rank_sizes"].update(Q=2)
    draw.tree["workload"]["iteration_space_shape"] = {"t": "0 <= t < 2"}


def gathers(draw):
    draw.tree["workload"]["einsums"].append("L[r, s] = Table[V: Ids[r], s]")
    draw.tree["workload"]["rank_sizes"].update(R=2, S=2, V=4)


def units(draw):
    nodes = draw.tree["arch"]["nodes"]
    nodes[1:3] = [
        {"type": "Array", "name": "PEs", "spatial": [{"name": "X", "fanout": 2}],
         "nodes": [{**draw.buffer, "spatial": [{"name": "X", "fanout": 2}]}]},
    ]  # fmt: skip
    draw.buffer, draw.array = nodes[1]["nodes"][0], nodes[1]


def zeros(draw):
    draw.tree["sparsity"] = {
        "densities": {"A": 0.5, "B": {"structured": [1, 2], "along": "N"}},
        "formats": {"Buffer": {"A": "coo"}},
        "savings": [
            {"at": "Buffer", "do": "skip", "tensors": "B", "on": "A"},
            {"at": "MAC", "do": "gate", "on": "Inputs"},
        ],
    }


DRAWN = {
    "accelforge": option(semantics="accelforge"),
    "imperfect": option(explore_imperfect_temporal_loops=True),
    "imperfect lanes": option(explore_imperfect_spatial_loops=True),
    "given": given,
    "unfused": option(fuse=False),
    "brute force": option(brute_force=True),
    "pipelines": option(max_pipeline_stages=2),
    "recurrence": recurrence,
    "network": lambda draw: draw.insert(NETWORK),
    "torus": lambda draw: draw.insert({**NETWORK, "topology": "torus"}),
    "units": units,
    "stalls": on("buffer", stalls="tile_by_tile"),
    "turns": on("buffer", buffering="single"),
    "wind_up": on("buffer", wind_up=True),
    "ways": lambda draw: draw.mac["actions"][0].update(pipeline_latency=3),
    "overlap": model(overlap_einsums=True),
    "sliding window": model(sliding_window=True),
    "resource_usage": option(metrics="resource_usage"),
    "no sums": option(metrics="dynamic_energy"),
    "front": option(metrics="energy,latency"),
    "gathers": gathers,
    "persistent": lambda draw: draw.tree["workload"].update(persistent_tensors="B"),
    "gated": lambda draw: (draw.array["spatial"][0].update(power_gateable=True), draw.set(draw.mac, leak_power=1)),
    "refresh": on("main", refresh_power=2, refresh_busy=0.25),
    "layout": on("main", layout={"line": 32, "block": {"Z": {"M": 2}}}),
    "open layout": on("main", layout={"line": 32, "order": {"Z": "best"}}),
    "too small": on("main", size=150),
    "ports": on("buffer", ports={"read": 1, "write": 1}),
    "startup": on("buffer", actions=[{**ACTIONS[0], "startup": 2}, ACTIONS[1]]),
    "skew": lambda draw: draw.array["spatial"][0].update(skew="each_fold"),
    "partial sums": lambda draw: draw.tree["workload"].update(partial_bits_per_value={"Z": 16}),
    "templates": option(max_pmapping_templates_per_einsum=2),
    "coarse": option(tiling_coarseness=2),
    "tolerance": option(objective_tolerance=0.1),
    "copies apart": option(share_inputs=False),
    "no order": option(force_memory_hierarchy_order=False),
    "zeros": zeros,
    "odd latency": on("buffer", total_latency="2 * max(a.n_calls / a.throughput for a in actions) ** 2"),
}
"""How each feature is put into a specification; names of FEATURES where these are meant."""
NAMED = {
    "imperfect lanes": "imperfect", "torus": "network", "wind_up": "turns", "open layout": "layout",
    "odd latency": "by trying",
}  # fmt: skip
"""Features that are of another name in FEATURES."""
ALSO = {
    **{"recurrence": ["several"], "gathers": ["several"], "resource_usage": ["no sums"], "gated": ["leaks"]},
    "refresh": ["leaks"],
    **{"network": ["common network"], "torus": ["common network"], "wind_up": ["wind_up"]},
}
"""What comes with some features."""
NEVER = [
    {"network", "torus"}, {"turns", "wind_up"}, {"ports", "odd latency"}, {"recurrence", "gathers"},
    {"too small", "partial sums"},
]  # fmt: skip
NEVER += [{"resource_usage", "no sums"}, {"resource_usage", "front"}, {"no sums", "front"}]  # each is the metric
"""Pairs that no specification can have, or that this one cannot."""
COSTS = {"energy": 1, "latency": 1, "energy_delay_product": 1, "dynamic_energy": 1}
MOST = 150
"""Fused mappings that a result is compared with."""
PAIRS = [pair for pair in combinations(DRAWN, 2) if set(pair) not in NEVER]


def refused(pair, *, several):
    """The rows that say that a pair is not known, and whether the table itself refuses it."""
    present = {NAMED.get(name, name) for name in pair} | {"search"}
    for name, more in ALSO.items():
        present |= set(more) if name in pair else set()
    present |= {"several"} if several else set()
    present |= {"zeros of several"} if "zeros" in pair and "several" in present else set()
    # two Einsums may be stages on lanes of their own
    present -= {"common network"} if several else set()
    present -= set() if "several" in present else {"too small"}
    rows = [row for row in (*UNKNOWN, *REFUSED_LATER) if {row.feature, row.other} <= present]
    return rows, bool(rows) and rows[0] in UNKNOWN


def drawn(pair, *, several):
    draw = Draw(several=several)
    # what changes the architecture as a whole goes first
    for name in sorted(pair, key=lambda name: name != "units"):
        DRAWN[name](draw)
    return draw


def check(pair, *, several, confirmed):
    """Map what has both features: a sentence of the table, or a result; `confirmed`: compared with brute force."""
    draw = drawn(pair, several=several)
    rows, at_once = refused(pair, several=several)
    if rows:
        with pytest.raises(NotSupportedError) as error:
            draw.map()
        if at_once:
            assert any(str(error.value).find(row.sentence) >= 0 and row.why in str(error.value) for row in rows), (
                error.value
            )
        return
    result = draw.map()
    goal = result.metrics[0]
    semantics = draw.options.get("semantics", "exact")
    cost = einmap.evaluate(result.spec, result.mapping, semantics=semantics)
    if goal not in COSTS:
        return
    best = objective(cost, goal)
    assert best == pytest.approx(objective(result.cost, goal), rel=1e-9)
    assert result.lower_bound is None or result.lower_bound <= best * (1 + 1e-9)
    if confirmed and len(result.metrics) == 1:
        confirm(draw, result, best, several=several)


def confirm(draw, result, best, *, several):
    """No other mapping is below the bound, and none beats what is proven."""
    others = fused(draw, result) if several else tried(draw)
    least = min(others, default=math.inf)
    if result.lower_bound is not None:
        assert result.lower_bound <= least * (1 + 1e-9)
    if result.optimal:
        assert best <= least * (1 + 1e-9)


def tried(draw):
    """The optimum of one Einsum by brute force, where that knows what is asked for."""
    imperfect = {"explore_imperfect_temporal_loops", "explore_imperfect_spatial_loops", "tiling_coarseness", "given"}
    options = {name: value for name, value in draw.options.items() if name not in imperfect}
    try:
        other = einmap.map_workload(draw.spec(), **{"metrics": "latency", **options, "brute_force": True})
    except NotSupportedError:
        return []
    return [objective(other.cost, other.metrics[0])] if "given" not in draw.options else []


def fused(draw, result):
    """Costs of fused mappings of the cascade, each evaluated."""
    semantics = draw.options.get("semantics", "exact")
    unknown = {"given", "max_pipeline_stages", "force_memory_hierarchy_order", "fuse"}
    einsums = draw.spec().workload.einsums
    if unknown & set(draw.options) or len(einsums) > 2 or any(a.persistent for e in einsums for a in e.accesses):
        return
    spec = draw.spec().with_layouts(result.spec.layouts) if open_layouts(draw.spec()) else draw.spec()
    for mapping in islice(Every(spec.with_altered_archs(winding_up), semantics).mappings(), MOST):
        with suppress(EinmapError):
            yield objective(einmap.evaluate(spec, mapping, semantics=semantics), result.metrics[0])


@pytest.mark.parametrize("feature", DRAWN)
def test_some_pairs_of_one_einsum(feature):
    for number, pair in enumerate(PAIRS):
        if pair[0] == feature and number % 18 == 0:
            check(pair, several=False, confirmed=number % 54 == 0)


@pytest.mark.parametrize("feature", DRAWN)
def test_some_pairs_of_a_cascade(feature):
    for pair in PAIRS[::66]:
        if pair[0] == feature:
            check(pair, several=True, confirmed=False)


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("feature", DRAWN)
def test_all_pairs_confirmed_by_brute_force(feature, several):
    for pair in PAIRS:
        if pair[0] == feature:
            check(pair, several=several, confirmed=True)


@pytest.mark.parametrize("feature", DRAWN)
def test_features_are_recognised(feature):
    name = NAMED.get(feature, feature)
    if name not in FEATURES:
        return
    if feature == "open layout":  # each choice is settled before it is asked
        return
    draw, plain = drawn((feature,), several=True), Draw(several=True).spec()
    options = {name: value for name, value in draw.options.items() if name not in ("fuse", "given")}
    asked = read_options(draw.spec(), **options)
    given = {"Z": draw.options["given"]} if "given" in draw.options else {}
    assert FEATURES[name].of(Problem(draw.spec(), asked, given, draw.options.get("fuse", True)))
    assert not FEATURES[name].of(Problem(plain, read_options(plain)))


def test_what_is_not_known_is_told_with_its_place_and_remedy():
    with pytest.raises(NotSupportedError) as error:
        drawn(("stalls", "ways"), several=False).map()
    assert error.value.at.path == 'arch.nodes[2] "Buffer".stalls'
    assert str(error.value).endswith(
        "the mapper does not know stalls: tile_by_tile with a pipeline_latency yet ('Buffer', 'MAC'): "
        "a turn would begin before the last one's values are there\n"
        "  hint: map without it, then evaluate the mapping found with it"
    )
