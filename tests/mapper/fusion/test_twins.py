"""Signatures whose outer nests differ in the order of loops alone are searched once, and each has its own loops."""

import numpy as np
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_repeated_structure import ARCH

import einmap
from einmap.mapper.fusion.fronts import einsum_fronts
from einmap.mapping import nodes as tree

EINSUMS = ["X[m, n] = A[m, k] * B[k, n]", "Y[m, n] = X[m, n]", "Z[m, n] = Y[m, n]"]


def chains():
    """The chains of the second Einsum, which keeps its tensors below loops over m and n; all of them are listed."""
    workload = {"rank_sizes": {"M": 4, "N": 6, "K": 2}, "bits_per_value": {"All": 8}, "einsums": EINSUMS}
    found = prepared(einmap.Spec.from_dict(arch=ARCH, workload=workload)).members[1].chains
    found.survey(dict.fromkeys(found.signature_classes))
    return found


def test_twins_have_the_fronts_that_they_have_by_themselves(monkeypatch):
    some = chains()
    fronts = some.complete_outer_nests(dict.fromkeys(some.signatures))
    assert len({id(front.values) for front in fronts.values()}) < len(fronts)
    monkeypatch.setattr(einsum_fronts, "twins_of", lambda nests, _: {each: [each] for each in nests})
    alone = chains()
    expected = alone.complete_outer_nests(dict.fromkeys(alone.signatures))
    assert fronts.keys() == expected.keys()
    for signature, front in fronts.items():
        rows, other = (np.array(sorted(map(tuple, of.values))) for of in (front, expected[signature]))
        assert np.array_equal(rows, other), signature


def test_chains_of_twins_have_their_own_loops():
    some, n_orders = chains(), 0
    for signature, front in some.complete_outer_nests(dict.fromkeys(some.signatures)).items():
        deepest = max((key.loops for _, key in signature.keys), key=len)
        expected = [("mn"[int(rank)], tile) for _, rank, tile in deepest]
        n_orders += [variable for variable, _ in expected] == ["n", "m"]
        for row in range(len(front.values)):
            nodes, n_outer = some.nodes_of(signature, front, row)
            loops = [node for node in nodes[n_outer:] if isinstance(node, tree.Temporal)][: len(expected)]
            assert [(loop.rank_variable.default, loop.tile_shape.default) for loop in loops] == expected
    assert n_orders


def test_signature_classes_are_listed_in_the_order_in_which_they_are_asked_for():
    some = chains()
    backwards = list(some.signature_classes)[::-1]
    some.begin_again(2)
    some.survey(dict.fromkeys(backwards))
    assert len(backwards) > 2
    assert list(some.listed) == backwards
