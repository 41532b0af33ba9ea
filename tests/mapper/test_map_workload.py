"""The mapper against an independent enumeration, and what it promises about stops, seeds and options."""

from itertools import permutations, product

import pytest
from tests.mapper.specs import MAIN, MATMUL, SPECS, compute, memory, spec, two_level

import einmap
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, PerEinsum, Storage, Temporal


def chains(n, slots):
    """Tile shapes of one variable over `slots` loops, each dividing the one before, ending in 1."""
    if slots == 0:
        yield from [()] if n == 1 else []
        return
    for shape in range(1, n + 1):
        if n % shape == 0:
            for rest in chains(shape, slots - 1):
                yield (shape, *rest)


def every_mapping(variables, tensors):
    """All mappings of one Einsum on Main, Buf, MAC: each subset and order in Buf, loops in every gap."""
    orders = [order for size in range(len(tensors) + 1) for order in permutations(tensors, size)]
    for order in orders:
        gaps = len(order) + 1
        for shapes in product(*(list(chains(n, gaps)) for n in variables.values())):
            extents = dict(variables)
            nodes = [Storage(tuple(tensors), "Main")]
            for gap in range(gaps):
                for variable, chain in zip(variables, shapes, strict=True):
                    if chain[gap] != extents[variable]:
                        nodes.append(Temporal(PerEinsum(variable), PerEinsum(chain[gap])))
                        extents[variable] = chain[gap]
                if gap < len(order):
                    nodes.append(Storage((order[gap],), "Buf"))
            yield Mapping((*nodes, Compute("Z", "MAC")))


@pytest.mark.parametrize(
    ("m", "k", "n"), [(2, 2, 2), pytest.param(4, 2, 2, marks=(pytest.mark.slow, pytest.mark.mapper))]
)
def test_optima_and_the_front_are_those_of_an_independent_enumeration(m, k, n):
    given = two_level(sizes={"M": m, "K": k, "N": n})
    costs = []
    for mapping in every_mapping({"m": m, "k": k, "n": n}, ("A", "B", "Z")):
        try:
            costs.append(einmap.evaluate(given, mapping))
        except einmap.CapacityError:
            continue
    for metric in ("energy", "latency", "edp"):
        result = einmap.map_workload(given, metrics=metric)
        assert result.optimal
        assert result.gap == 0
        assert getattr(result.cost, metric) == pytest.approx(min(getattr(c, metric) for c in costs), rel=1e-12)
    result = einmap.map_workload(given, metrics="energy|latency")
    points = {(c.energy, c.latency) for c in costs}
    best = [p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)]
    found = [(f.cost.energy, f.cost.latency) for f in result.front]
    assert len(found) == len(best)
    for ours, theirs in zip(sorted(found), sorted(best), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_a_tile_that_fills_the_buffer_to_the_last_bit_fits():
    # 7 values of 8 bits: the fewest values moved for 8^3 is found with 56 bits and not with 55
    def moved(size):
        nodes = [
            {
                **MAIN,
                "leak_power": 0,
                "actions": [{"name": n, "energy": 1, "throughput": 1} for n in ("read", "write")],
            },
            memory("Buf", size, 0, {"keep": "All"}, component_class="Dummy", leak_power=0),
            compute(leak_power=0),
        ]
        return einmap.map_workload(spec(nodes, MATMUL, {"M": 8, "K": 8, "N": 8}), metrics="energy").cost.energy

    assert moved(56) < moved(55)


@pytest.mark.parametrize("name", SPECS)
def test_returned_mappings_keep_all_constraints_and_cost_what_was_said(name):
    given = SPECS[name]()
    result = einmap.map_workload(given, metrics="energy", max_evaluations=20_000)
    again = einmap.evaluate(given, result.mapping, strict=True)
    assert again.energy == result.cost.energy


def test_the_same_seed_gives_the_same_mapping_under_max_evaluations():
    given = einmap.load("tpu_v4i", "feed_forward")
    first, second = (einmap.map_workload(given, max_evaluations=3_000, seed=7) for _ in range(2))
    assert first.mapping == second.mapping
    assert not first.optimal
    assert first.lower_bound is not None
    assert first.lower_bound <= first.cost.edp
    assert first.gap is not None
    assert first.gap > 0


def test_stopping_gives_the_best_so_far_marked_as_not_proven():
    token = einmap.Progress()
    token.callback = lambda report: token.stop() if report.done > 30_000 else None
    given = two_level(sizes={"M": 64, "K": 64, "N": 64})
    result = einmap.map_workload(given, progress=token, brute_force=True)
    assert not result.optimal
    assert "stopped" in result.reason


def test_a_cascade_is_mapped_einsum_by_einsum_in_one_tree():
    given = spec(
        [MAIN, memory("Buf", 200, 1), compute()],
        ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"],
        {"M": 4, "K": 2, "N": 4, "P": 2},
    )
    result = einmap.map_workload(given, metrics="edp")
    assert result.optimal
    assert set(result.mapping.path_of) == {"X", "Z"}
    parts = [
        einmap.map_workload(given.set("workload.einsums", [text]), metrics="energy|latency").front
        for text in ("X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]")
    ]
    best = min(
        (a.cost.energy + b.cost.energy) * (a.cost.latency + b.cost.latency) for a, b in product(parts[0], parts[1])
    )
    assert result.cost.edp == pytest.approx(best, rel=1e-12)


def test_alike_einsums_are_searched_once():
    given = einmap.load("simple", "gpt3_6.7b", define={"N_TOKENS": 16, "D_MODEL": 32, "HEADS": 4, "D_HEAD": 8})
    stats = einmap.map_workload(given, max_evaluations=2_000).stats
    assert stats.by_einsum["K"]["same_as"] == "V"


def test_nothing_fits_is_an_error_that_names_the_einsum():
    with pytest.raises(einmap.NoMappingError, match="Einsum 'Z'"):
        einmap.map_workload(
            spec([MAIN, memory("Buf", 7, 1, {"keep": "A"}), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": "speed"}, "unknown metric"),
        ({"max_fuse_loops": 1}, "max_fused_loops"),
        ({"explore_imperfect_temporal_loops": "yes"}, "expected true or false"),
        ({"semantics": "exakt"}, "exact"),
    ],
)
def test_bad_options_are_explained(options, words):
    with pytest.raises(einmap.EinmapError, match=words):
        einmap.map_workload(two_level(), **options)


def test_metrics_are_accepted_in_every_spelling():
    given = two_level()
    front = [einmap.map_workload(given, metrics=m).metrics for m in ("energy|latency", "ENERGY, LATENCY")]
    assert front == [("energy", "latency")] * 2
    assert einmap.map_workload(given.set("mapper", {"metrics": 3})).metrics == ("latency", "energy")


def test_an_action_that_is_never_done_is_told_where_its_throughput_is_given():
    unit = compute()
    unit["actions"][0]["throughput"] = 0
    given = spec([MAIN, unit], MATMUL, {"M": 2, "K": 2, "N": 2})
    with pytest.raises(einmap.SpecError, match=r"MAC\.compute has throughput 0") as raised:
        einmap.map_workload(given, metrics="latency")
    assert str(raised.value).startswith('arch.nodes[1] "MAC".actions[0] "compute".throughput: ')
