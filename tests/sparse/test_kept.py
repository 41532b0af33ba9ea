"""What an evaluation leaves to others: sums by the loops around a node, tiles by their shape."""

import itertools
import pickle
import random

import numpy as np
import pytest
from tests.sparse.problems import draw_sparse

import einmap
from einmap.model.sparsity.sums import Visits
from einmap.sparse.kept import Kept
from einmap.sparse.known import Known

ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: All},
      actions: [{name: read, energy: 8, throughput: 1}, {name: write, energy: 8, throughput: 1}]}
  - !Memory {name: Buffer, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 2}, {name: write, energy: 1, throughput: 2}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {P: 6, C: 4, R: 3}
  bits_per_value: {All: 8}
  einsums: ["Z[p] = A[c, H: p + r] * B[c, r]"]
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: Main}
  - !Compute {einsum: Z, component: MAC}
"""
SPARSITY = {
    "formats": {"Main": {"A": "coo", "B": "csr"}, "Buffer": {"A": "bitmask", "B": "csf", "Z": "rle"}},
    "savings": [
        {"at": "Buffer", "do": "skip", "tensors": "A", "on": "B"},
        {"at": "Buffer", "do": "gate", "tensors": "B | Z", "on": "A"},
        {"at": "MAC", "do": "skip", "on": "A"},
    ],
}
KINDS = [
    {"densities": {"A": {"uniform": 0.3, "seed": 1}, "B": {"uniform": 0.5, "seed": 2}}},
    {"densities": {"A": 0.3, "B": {"structured": [1, 2], "along": "C"}}},
    {"densities": {"A": {"uniform": 0.3, "seed": 1}, "B": {"even": 0.5}}, "metadata": "share"},
]


def nodes(text):
    """Nodes of a mapping from the outside in: what a memory holds, or a rank variable with its tile."""
    for node in text.split(" / "):
        first, *rest = node.split()
        if first.istitle():
            yield {"type": "Storage", "tensors": rest, "component": first}
        else:
            yield {"type": "Temporal", "rank_variable": first, "tile_shape": int(rest[0])}
    yield {"type": "Compute", "einsum": "Z", "component": "MAC"}


MAPPINGS = [
    f"Main A B Z / {outer} / Buffer {held} / {inner}"
    for outer, held, inner in itertools.product(
        ["p 2", "p 4"], ["A B Z", "A"], ["r 1 / c 1 / p 1", "c 1 / r 2 / p 1 / r 1"]
    )
]
"""Mappings of which some have the same loops down to a node, some the same tiles, and some uneven ones."""


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_what_other_mappings_leave_changes_no_result(kind):
    spec = einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[kind]})
    for text in [*MAPPINGS, MAPPINGS[0]]:
        mapping = spec.set("mapping.nodes", list(nodes(text))).mapping
        alone = einmap.evaluate(pickle.loads(pickle.dumps(spec)), mapping)
        assert einmap.evaluate(spec, mapping) == alone
    assert 0 < spec.sparsity["Z"].kept.bytes <= spec.sparsity["Z"].kept.most


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 6 else [pytest.mark.slow, pytest.mark.simulator]) for n in range(400)]
)
def test_sums_loop_by_loop_are_those_over_rows_of_visits(seed, monkeypatch):
    spec, _ = draw_sparse(random.Random(60_000 + seed), known=True)
    by_loops = einmap.evaluate(spec)
    other = pickle.loads(pickle.dumps(spec))
    monkeypatch.setattr(Visits, "_by_loops", lambda *_: None)
    assert einmap.evaluate(other) == by_loops


def test_places_that_are_in_no_order_have_their_own_tiles():
    known = Known(np.array([True, False, True, True]))
    assert known.grid([np.array([2, 0, 3])], [1], [0]).tolist() == [1, 1, 1]
    assert known.grid([np.array([1, 0, 1])], [1], []).tolist() == [0, 1, 0]
    assert known.grid([np.array([2, 0])], [2], [0]).tolist() == [2, 1]


def test_windows_take_loop_by_loop_what_they_take_by_rows(monkeypatch):
    spec = einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[0]})
    mappings = [spec.set("mapping.nodes", list(nodes(text))).mapping for text in MAPPINGS]
    by_loops = [einmap.evaluate(spec, mapping) for mapping in mappings]
    other = pickle.loads(pickle.dumps(spec))
    monkeypatch.setattr(Visits, "_by_loops", lambda *_: None)
    assert [einmap.evaluate(other, mapping) for mapping in mappings] == by_loops


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_of_the_same_loops_no_sum_is_taken_twice(kind, monkeypatch):
    spec = (
        einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[kind]}).set("mapping.nodes", list(nodes(MAPPINGS[0])))
    )
    taken, sums = [], Visits._anew

    def counted(*args):
        taken.append(args)
        return sums(*args)

    monkeypatch.setattr(Visits, "_anew", counted)
    costs = [einmap.evaluate(spec)]
    first = len(taken)
    costs.append(einmap.evaluate(spec))
    assert first > 5 and len(taken) == first and costs[0] == costs[1]


@pytest.mark.parametrize(("kind", "again"), [(0, 0), (1, 2)])
def test_of_loops_that_are_the_same_outside_only_the_inner_sums_are_taken(kind, again, monkeypatch):
    # values and metadata that Buffer gives; what Main gives is known, and on masks all that has the same tiles
    assert (
        taken_of_a(kind, ["p 2 / Buffer A / r 1 / c 1 / p 1", "p 2 / Buffer A / c 2 / p 1 / c 1 / r 1"], monkeypatch)
        == again
    )


@pytest.mark.parametrize(
    ("other", "again"),
    [
        ("c 2 / p 2 / c 1 / Buffer A / p 1 / r 1", 0),  # the same tiles by other loops
        ("p 3 / c 2 / Buffer A / r 1 / c 1 / p 1", 3),  # other tiles everywhere; Main and Buffer pass the same values
    ],
)
def test_on_masks_sums_of_tiles_that_are_the_same_are_taken_once(other, again, monkeypatch):
    assert taken_of_a(0, ["c 1 / p 2 / Buffer A / r 1 / p 1", other], monkeypatch) == again


def taken_of_a(kind, texts, monkeypatch):
    """Sums over visits of A that the last one of some mappings takes anew."""
    spec = einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[kind]})
    taken, sums = [], Visits._anew
    monkeypatch.setattr(Visits, "_anew", lambda *args: taken.append(args[0].access) or sums(*args))
    for text in texts:
        taken.clear()
        mapping = spec.set("mapping.nodes", list(nodes(f"Main A B Z / {text}"))).mapping
        einmap.evaluate(spec, mapping)
    return sum(access is not None and access.tensor == "A" for access in taken)


def test_the_oldest_go_and_what_is_too_large_is_not_kept():
    kept = Kept(100)
    kept.keep("a", 1, 60)
    kept.keep("b", 2, 30)
    kept.keep("large", 3, 101)
    assert (kept.get("a"), kept.get("b"), kept.get("large"), kept.bytes) == (1, 2, None, 90)
    kept.keep("a", 4, 50)  # the newer answer counts once, and is the youngest
    kept.keep("c", 5, 40)
    assert (kept.get("a"), kept.get("b"), kept.get("c"), kept.bytes, len(kept)) == (4, None, 5, 90, 2)


def test_copies_begin_empty():
    kept = Kept(100)
    kept.keep("a", 1, 10)
    copy = pickle.loads(pickle.dumps(kept))
    assert (copy.get("a"), copy.bytes, copy.most) == (None, 0, 100)


LANES = ARCH.replace(
    "  - !Compute",
    """  - !Container {name: Array, spatial: [{name: X, fanout: 4}, {name: Y, fanout: 2}]}
  - !Memory {name: Reg, size: inf, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 2}, {name: write, energy: 1, throughput: 2}]}
  - !Compute""",
    1,
).replace("P: 6, C: 4, R: 3}", "P: 8, C: 8, R: 2}")


def drawn_nodes(rng):
    """A random mapping of the product on lanes: loops of even tiles in random order around three memories."""
    loops = []
    for v, n in {"p": 8, "c": 8, "r": 2}.items():
        tiles = sorted(rng.choices([d for d in (4, 2, 1) if d < n], k=rng.randint(0, 2)), reverse=True)
        loops.append([(v, tile) for tile in [*tiles, 1]])
    order, left = [], {"p": 8, "c": 8, "r": 2}
    while any(loops):
        order.append(rng.choice([some for some in loops if some]).pop(0))
    lanes = {"X": 4, "Y": 2}
    places = sorted(rng.randint(0, len(order)) for _ in range(2))
    found = [{"type": "Storage", "tensors": ["A", "B", "Z"], "component": "Main"}]
    for i in range(len(order) + 1):
        if i == places[0]:
            held = rng.sample(["A", "B", "Z"], rng.randint(1, 3))
            found.append({"type": "Storage", "tensors": sorted(held), "component": "Buffer"})
        if i == places[1]:
            held = rng.sample(["A", "B", "Z"], rng.randint(1, 2))
            found.append({"type": "Storage", "tensors": sorted(held), "component": "Reg"})
        if i == len(order):
            break
        v, tile = order[i]
        n, left[v] = left[v] // tile, tile
        fits = [name for name, most in lanes.items() if n <= most]
        if places[0] <= i < places[1] and fits and rng.random() < 0.7:
            name = rng.choice(fits)
            del lanes[name]
            found.append(
                {"type": "Spatial", "rank_variable": v, "tile_shape": tile, "component": "Array", "name": name}
            )
        else:
            found.append({"type": "Temporal", "rank_variable": v, "tile_shape": tile})
    return [*found, {"type": "Compute", "einsum": "Z", "component": "MAC"}]


def agree(seeds):
    """Compare costs of random mappings that one specification evaluates in a row with those of each alone."""
    for seed in seeds:
        rng = random.Random(seed)
        kind = {"densities": {"A": {"uniform": 0.2, "seed": seed}, "B": {"uniform": 0.5, "seed": seed + 1}}}
        savings = [
            {"at": rng.choice(["Main", "Buffer", "Reg"]), "do": rng.choice(["gate", "skip"]), "tensors": t, "on": on}
            for t, on in rng.sample([("A", "B"), ("B", "A"), ("Z", "A"), ("Z", "B")], 2)
        ]
        savings.append({"at": "MAC", "do": "gate", "on": rng.choice(["A", "B", "A | B"])})
        spec = einmap.loads(LANES).set("sparsity", {**SPARSITY, **kind, "savings": savings})
        for _ in range(4):
            mapping = spec.set("mapping.nodes", drawn_nodes(rng)).mapping
            alone = einmap.evaluate(pickle.loads(pickle.dumps(spec)), mapping)
            assert einmap.evaluate(spec, mapping) == alone, seed


def test_random_mappings_on_one_mask_cost_what_they_cost_alone():
    agree(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_400_random_mappings_on_masks_cost_what_they_cost_alone(part):
    agree(range(1000 * part, 1000 * part + 25))
