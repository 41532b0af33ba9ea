"""What an evaluation leaves to others: sums by the loops around a node, tiles by their shape."""

import itertools
import pickle

import pytest

import einmap
from einmap.model.sparsity.sums import Visits
from einmap.sparse.kept import Kept

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


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_of_the_same_loops_no_sum_is_taken_twice(kind, monkeypatch):
    spec = (
        einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[kind]}).set("mapping.nodes", list(nodes(MAPPINGS[0])))
    )
    taken, sums = [], Visits._sums

    def counted(*args):
        taken.append(args)
        return sums(*args)

    monkeypatch.setattr(Visits, "_sums", counted)
    costs = [einmap.evaluate(spec)]
    first = len(taken)
    costs.append(einmap.evaluate(spec))
    assert first > 5 and len(taken) == first and costs[0] == costs[1]


def test_of_loops_that_are_the_same_outside_only_the_inner_sums_are_taken(monkeypatch):
    spec = einmap.loads(ARCH).set("sparsity", {**SPARSITY, **KINDS[0]})
    taken, sums = [], Visits._sums
    monkeypatch.setattr(Visits, "_sums", lambda *args: taken.append(args[0].access) or sums(*args))
    for inner in ("r 1 / c 1 / p 1", "c 2 / p 1 / c 1 / r 1"):
        taken.clear()
        mapping = spec.set("mapping.nodes", list(nodes(f"Main A B Z / p 2 / Buffer A / {inner}"))).mapping
        einmap.evaluate(spec, mapping)
    fills = [access for access in taken if access is not None and access.tensor == "A"]
    assert len(fills) == 2  # values and metadata that Buffer gives; what Main gives it is known


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
