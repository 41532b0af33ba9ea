"""What a rewrite refuses, at which node, and why; how nodes are named."""

from dataclasses import replace
from itertools import product

import pytest
from tests.mapping.loop_trees import tree

from einmap import MappingError, Spec, evaluate
from einmap.mapping.nodes import PerEinsum, Sequential, Storage
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.branches import merge
from einmap.mapping.rewrite.editing import replaced
from einmap.mapping.rewrite.loops import fuse, interchange, split, tile
from einmap.mapping.rewrite.storage import hoist, keep, place_that_saves, sink
from einmap.mapping.rewrite.text import rewritten

BITS = {"bits_per_value": {"All": 8}}
SIZES = {"rank_sizes": {"M": 8, "K": 8, "N": 8}}


def workload(*einsums):
    return Spec.from_dict({"workload": {**SIZES, **BITS, "einsums": list(einsums)}}).workload


MATMUL = workload("Z[m,n] = A[m,k] * B[k,n]")
CHAIN = workload("T[m,n] = A[m,k] * B[k,n]", "Y[M:p] = T[M:p,N:q]")
SHARED = workload("T[m,n] = A[m,k] * B[k,n]", "Y[m] = A[m,k]")
COPIED = workload({"einsum": "C[m,k] = A[m,k]", "is_copy_operation": True}, "Y[m] = C[m,k]")
HALO = Spec.from_dict(
    {
        "workload": {
            **BITS,
            "rank_sizes": {"H": 6},
            "iteration_space_shape": {"r": "0 <= r < 3", "p": "0 <= p < 4"},
            "einsums": ["T[H:h] = A[H:h]", "Y[P:p] = T[H:p+r] * F[R:r]"],
        }
    }
).workload

NEST = """
[DRAM holds A, B, Z]
[GLB holds A, B]
for m by 2
  [REG holds A]
  for n by 1
    for k by 4
      for k by 1
        for m by 1
          spatial-for m by 1 on MAC.X
            compute Z on MAC
"""
FUSED = """
[DRAM holds A, B, Y]
for {T: m, Y: p} by 1
  [GLB holds T]
  [GLB holds A]
  first:
    for k by 1
      for n by 1
        compute T on MAC
  then:
    for q by 1
      compute Y on MAC
"""
UNFUSED = """
[DRAM holds A, B, Y, T]
first:
  [GLB holds A]
  for k by 1
    for m by 1
      for n by 1
        compute T on MAC
then:
  for p by 1
    for q by 1
      compute Y on MAC
"""
SPATIAL = """
[DRAM holds A, B, Y, T]
first:
  for k by 1
    spatial-for m by 1 on MAC.X
      for n by 1
        compute T on MAC
then:
  spatial-for p by 1 on MAC.X
    for q by 1
      compute Y on MAC
"""
BOTH_READ_A = """
[DRAM holds A, B, T, Y]
for m by 1
  first:
    [GLB holds A]
    for k by 1
      for n by 1
        compute T on MAC
  then:
    for k by 1
      compute Y on MAC
"""
EACH_ITS_OWN = """
first:
  [DRAM holds A, B, T]
  for m by 1
    for k by 1
      for n by 1
        compute T on MAC
then:
  [DRAM holds A, Y]
  for m by 1
    for k by 1
      compute Y on MAC
"""
COPIED_BELOW = """
[DRAM holds A, C, Y]
for m by 1
  [GLB holds C]
  first:
    for k by 1
      compute C on MAC
  then:
    for k by 1
      compute Y on MAC
"""
COPIED_APART = """
[DRAM holds A, C, Y]
[GLB holds C]
first:
  for m by 1
    for k by 1
      compute C on MAC
then:
  for m by 1
    for k by 1
      compute Y on MAC
"""
WINDOW = """
[DRAM holds A, F, Y]
[GLB holds T]
for {T: h, Y: p} by {T: 2, Y: 2} (first {T: 4, Y: 2})
  first:
    for h by 1
      compute T on MAC
  then:
    for r by 1
      for p by 1
        compute Y on MAC
"""


@pytest.mark.parametrize(
    ("given", "text", "command", "words"),
    [
        # loops
        pytest.param(MATMUL, NEST, "interchange m#1", ["nodes[2]", "[REG holds A] stands directly below", "hoist"], id="storage between loops"),
        pytest.param(MATMUL, NEST, "interchange m#1 n", ["nodes[2]", "[REG holds A]", "nodes[4]"], id="a run with storage in it"),
        pytest.param(MATMUL, NEST, "interchange k#1", ["nodes[5]", "both loops are over 'k'", "fuse"], id="one variable"),
        pytest.param(MATMUL, NEST, "interchange n n", ["nodes[4]", "named twice"], id="one loop twice"),
        pytest.param(CHAIN, FUSED, "interchange q k", ["a split stands between"], id="two branches"),
        pytest.param(CHAIN, FUSED, "interchange q", ["nodes[4].nodes[1].nodes[0]", "compute Y"], id="no loop below"),
        pytest.param(MATMUL, NEST, "split m#1 3", ["nodes[2]", "tile shape 3", "multiple", "2", "4"], id="no multiple"),
        pytest.param(MATMUL, NEST, "split m#1 2", ["tile shape 2", "multiple"], id="the shape that there is"),
        pytest.param(HALO, WINDOW, "split h#1 4", ["initial tile shape"], id="initial tile shape"),
        pytest.param(MATMUL, NEST, "split n Y:2", ["no Einsum 'Y'", "Einsums below it: Z"], id="another Einsum's shape"),
        pytest.param(CHAIN, FUSED, "split m T:2", ["no tile shape", "'Y'"], id="a shape is missing"),
        pytest.param(MATMUL, NEST, "fuse n", ["nodes[4]", "over 'n'", "over 'k'", "interchange"], id="two variables"),
        pytest.param(MATMUL, NEST, "fuse m#2", ["nodes[7]", "spatial-for m", "no dimension"], id="temporal and spatial"),
        pytest.param(MATMUL, NEST, "tile m#1 4 n 2", ["nodes[2]", "[REG holds A]", "side by side"], id="a tile across storage"),
        pytest.param(MATMUL, NEST, "reshape m#2 3", ["nodes[7]", "tile shape 3", "does not divide", "2"], id="not between the shapes around"),
        pytest.param(MATMUL, NEST, "reshape k#2 2", ["nodes[6]", "innermost loop over 'k'", "split"], id="the innermost loop"),
        pytest.param(CHAIN, FUSED, "reshape m T:2", ["no tile shape", "'Y'"], id="one Einsum of two"),
        pytest.param(MATMUL, NEST, "spread n GLB", ["nodes[4]", "'GLB'", "PE.X"], id="no dimension"),
        pytest.param(MATMUL, NEST, "spread m#3 GLB.X", ["nodes[8]", "already", "serialise"], id="spread already"),
        pytest.param(MATMUL, NEST, "serialise n", ["nodes[4]", "in time already", "spread"], id="in time already"),
        # storage
        pytest.param(MATMUL, NEST, "hoist A@GLB", ["nodes[1]", "no loop stands above"], id="no loop above"),
        pytest.param(MATMUL, NEST, "hoist A@REG above n", ["nodes[4] does not stand above", "sink"], id="above what is below"),
        pytest.param(MATMUL, NEST, "sink A@REG below m#1", ["nodes[2] does not stand below", "hoist"], id="below what is above"),
        pytest.param(MATMUL, NEST, "sink A@GLB below n", ["'A' in GLB would pass [REG holds A]", "order"], id="past an inner holder"),
        pytest.param(MATMUL, NEST, "sink A@REG", ["nodes[3]", "saves no space at equal traffic", "below LOOP"], id="nothing to save"),
        pytest.param(CHAIN, FUSED, "sink T@GLB below n", ["nodes[4]", "'T' would pass a split", "Einsum 'Y' uses it"], id="backing into a branch"),
        pytest.param(SHARED, BOTH_READ_A, "hoist A@GLB", ["nodes[2]", "'A' would pass a split", "Einsum 'Y' uses it too"], id="out of one of two branches"),
        pytest.param(SHARED, EACH_ITS_OWN, "sink A@nodes[0].nodes[0].nodes[0] below m#1", ["'A' has an outermost node in each", "merge"], id="one of several outermost nodes"),
        pytest.param(COPIED, COPIED_APART, "merge", ["nodes[2]", "copy Einsum 'C'", "piece by piece"], id="a copy past a node above"),
        pytest.param(COPIED, COPIED_BELOW, "hoist C@GLB", ["nodes[1]", "copy Einsum 'C'", "piece by piece"], id="above a loop of copying"),
        pytest.param(CHAIN, UNFUSED, "sink T@DRAM below m", ["would pass a split"], id="an intermediate into its producer's branch"),
        pytest.param(HALO, WINDOW, "sink T@GLB below h#1", ["nodes[2]", "'T' overlap", "does not produce"], id="windows overlap"),
        pytest.param(MATMUL, NEST, "bypass A@DRAM", ["nodes[0]", "DRAM is the outermost", "input 'A'"], id="input from nowhere"),
        pytest.param(MATMUL, NEST, "bypass Z@DRAM", ["outermost", "result 'Z'"], id="result to nowhere"),
        pytest.param(CHAIN, UNFUSED, "bypass T@DRAM", ["outermost", "'T'", "no node further in", "keep"], id="intermediate to nowhere"),
        pytest.param(MATMUL, NEST, "keep A@GLB above n", ["GLB holds 'A' already", "nodes[1]"], id="held twice"),
        pytest.param(MATMUL, NEST, "keep Q@GLB above n", ["no tensor 'Q'", "tensors: A, B, Z"], id="no such tensor"),
        pytest.param(CHAIN, FUSED, "keep A@REG above q", ["no Einsum below uses 'A'"], id="no user below"),
        pytest.param(MATMUL, NEST, "keep Z@L2 above nodes[0]", ["no node above holds 'Z'", "nowhere"], id="further out than the outermost"),
        pytest.param(MATMUL, NEST, "keep A@L2 below nodes[9]", ["nothing can stand directly below"], id="below a compute"),
        # branches
        pytest.param(CHAIN, UNFUSED, "merge", ["nodes[1].nodes[0].nodes[0]", "begins with [GLB holds A]", "sink"], id="storage first"),
        pytest.param(CHAIN, UNFUSED.replace("  [GLB holds A]\n", ""), "merge", ["'k'", "'T'", "half-reduced", "above this loop"], id="a reduction loop"),
        pytest.param(CHAIN, UNFUSED.replace("  [GLB holds A]\n", "").replace("for k by 1", "for n by 1", 1), "merge", ["'T', 'Y'", "different steps"], id="another rank"),
        pytest.param(CHAIN, SPATIAL, "merge", ["different kinds", "for k by 1", "spatial-for p"], id="temporal and spatial branches"),
        pytest.param(CHAIN, UNFUSED.replace("  [GLB holds A]\n", "").replace("for k by 1", "for m by 4", 1), "merge", ["number of iterations", "2 for 'T'", "8 for 'Y'"], id="iterations"),
        pytest.param(CHAIN, UNFUSED, "merge nodes[1] 0", ["at least two"], id="one branch"),
        pytest.param(CHAIN, UNFUSED, "merge nodes[1] 1 2", ["neighbours", "0 to 1"], id="no such branch"),
        pytest.param(MATMUL, NEST, "merge", ["no splits"], id="no split"),
        pytest.param(CHAIN, UNFUSED, "merge nodes[0]", ["not a split", "nodes[1]"], id="not a split"),
        pytest.param(CHAIN, FUSED, "distribute m", ["nodes[1]", "[GLB holds T] stands directly below", "hoist"], id="storage above the split"),
        # names
        pytest.param(MATMUL, NEST, "fuse x", ["no loop over 'x'", "loops over: k, m, n"], id="no such variable"),
        pytest.param(MATMUL, NEST, "fuse k", ["'k' names 2 loops", "k#1 is nodes[5]", "k#2 is nodes[6]"], id="several loops"),
        pytest.param(MATMUL, NEST, "fuse k#3", ["'k#3' names no loop", "k#1 is nodes[5]"], id="no third one"),
        pytest.param(MATMUL, NEST, "fuse k#-1", ["'k#-1' names no loop"], id="a bad number"),
        pytest.param(MATMUL, NEST, "fuse nodes[44]", ["no node nodes[44]", "nodes[9]"], id="no such node"),
        pytest.param(MATMUL, NEST, "fuse nodes[4", ["not a node address"], id="a bad address"),
        pytest.param(MATMUL, NEST, "fuse nodes[0]", ["nodes[0]", "not a loop"], id="not a loop"),
        pytest.param(MATMUL, NEST, "hoist nodes[2]", ["nodes[2]", "not a storage node"], id="not a storage node"),
        pytest.param(MATMUL, NEST, "hoist A@L2", ["'L2'", "DRAM, GLB, REG"], id="a memory that holds nothing"),
        pytest.param(MATMUL, NEST, "hoist a@GLB", ["no node holds 'a'", "did you mean 'A'"], id="a tensor not held"),
        pytest.param(MATMUL, NEST, "hoist B@nodes[3]", ["REG does not hold 'B'"], id="not in this node"),
        pytest.param(MATMUL, NEST, "hoist A", ["names no tensor in a memory", "A@GLB"], id="no memory named"),
        # text
        pytest.param(MATMUL, NEST, "snik A@GLB", ["'snik A@GLB' is not a rewrite", "did you mean 'sink'"], id="misspelt"),
        pytest.param(MATMUL, NEST, "", ["is not a rewrite", "interchange"], id="nothing"),
        pytest.param(MATMUL, NEST, "split m", ["cannot be read", "write split LOOP SHAPE"], id="too few words"),
        pytest.param(MATMUL, NEST, "split m x", ["cannot be read", "write split LOOP SHAPE"], id="no number"),
        pytest.param(MATMUL, NEST, "sink A@GLB above m", ["cannot be read", "[below LOOP]"], id="the wrong side"),
        pytest.param(MATMUL, NEST, "keep A@L2 m", ["cannot be read", "above|below LOOP"], id="no side"),
        pytest.param(MATMUL, NEST, "tile m 4 n", ["cannot be read", "tile LOOP SHAPE"], id="odd words"),
    ],
)  # fmt: skip
def test_what_does_not_apply_is_refused_with_the_reason(given, text, command, words):
    with pytest.raises(MappingError) as caught:
        rewritten(tree(text), given, command)
    said = str(caught.value)
    assert [word for word in words if word not in said] == []


def test_functions_take_addresses_and_values_as_well_as_text():
    before = tree(NEST)
    assert interchange(before, (4,)) == rewritten(before, MATMUL, "interchange n")
    assert split(before, (4,), {"Z": 2}) == rewritten(before, MATMUL, "split n 2")
    assert tile(before, {"n": 4}) == rewritten(before, MATMUL, "tile n 4")
    assert sink(before, MATMUL, (3,), below=(4,)) == rewritten(before, MATMUL, "sink A@REG below n")
    for wrong in (lambda: keep(before, MATMUL, "A@L2"), lambda: tile(before, {}), lambda: hoist(before, MATMUL, "")):
        with pytest.raises(MappingError):
            wrong()


def test_a_loop_of_several_names_is_found_by_each_of_them_and_split_for_each_einsum():
    done = rewritten(tree(FUSED), CHAIN, "split p T:2,Y:4")
    assert pretty(done).splitlines()[1] == "for {T: m, Y: p} by {T: 2, Y: 4}"
    assert fuse(done, "m#1") == tree(FUSED)


def test_an_intermediate_goes_past_its_outermost_memory_when_one_node_further_in_takes_its_place():
    kept = rewritten(tree(FUSED.replace("A, B, Y", "A, B, Y, T")), CHAIN, "bypass T@DRAM")
    assert pretty(kept) == FUSED.strip()
    reduction = (
        FUSED.replace("A, B, Y", "A, B, Y, T")
        .replace("for {T: m, Y: p} by 1", "for {T: k, Y: p} by 1")
        .replace("for k by", "for m by")
    )
    with pytest.raises(MappingError, match="half-reduced"):
        rewritten(tree(reduction), CHAIN, "bypass T@DRAM")


def test_backing_nodes_in_each_branch_are_united_when_their_loops_are_merged():
    before = """
[DRAM holds A, B, Y]
first:
  for m by 1
    [GLB holds T, A]
    for k by 1
      for n by 1
        compute T on MAC
then:
  for p by 1
    [GLB holds T]
    for q by 1
      compute Y on MAC
"""
    assert pretty(merge(tree(before), CHAIN)) == FUSED.strip().replace(
        "  [GLB holds A]\n  first:\n", "  first:\n    [GLB holds A]\n"
    )


@pytest.mark.parametrize(
    "command", ["hoist A@REG", "sink A@GLB below m#1", "bypass B@GLB", "keep A@L2 below n", "merge"]
)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("compute Z", "compute Q"), "no Einsum 'Q'"),
        (("for n by 1", "for x by 1"), "names no rank variable of it"),
        (("for n by 1", "for n by {Q: 1}"), "names no tile shape"),
    ],
)
def test_a_tree_that_does_not_fit_the_workload_is_an_error_too(command, change, said):
    with pytest.raises(MappingError, match=said):
        rewritten(tree(NEST.replace(*change)), MATMUL, command)


def test_a_loop_without_a_tile_shape_is_an_error_too():
    lacking = tree(NEST.replace("for k by 4", "for k by {Q: 4}"))
    for change in (lambda: fuse(lacking, "k#1"), lambda: split(lacking, "k#1", {"Z": 2}), lambda: interchange(lacking)):
        with pytest.raises(MappingError):
            change()


LINES = Spec.from_dict(
    {
        "arch": {
            "nodes": [
                {"type": "Memory", "name": "DRAM", "size": "inf", "component_class": "Dummy"},
                {"type": "Memory", "name": "GLB", "size": "inf", "component_class": "Dummy"},
                {"type": "Compute", "name": "MAC", "component_class": "Dummy"},
            ]
        },
        "workload": {
            **BITS,
            "rank_sizes": {"M": 2, "H": 6},
            "iteration_space_shape": {"r": "0 <= r < 3", "p": "0 <= p < 4"},
            "einsums": ["T[m, h] = A[m, h] * B[h]", "Z[m, p] = T[m, H: p + r] * F[r]"],
        },
        "mapping": {
            "nodes": [
                {"type": "Storage", "component": "DRAM", "tensors": ["A", "B", "F", "Z"]},
                {"type": "Temporal", "rank_variable": "m", "tile_shape": 1},
                {
                    "type": "Temporal", "rank_variable": {"T": "h", "Z": "p"}, "tile_shape": 2,
                    "initial_tile_shape": {"T": 4, "Z": 2},
                },
                {"type": "Storage", "component": "GLB", "tensors": ["T"], "sliding_window": True},
                {
                    "type": "Sequential",
                    "nodes": [
                        {
                            "type": "Nested",
                            "nodes": [
                                {"type": "Temporal", "rank_variable": "h", "tile_shape": 1},
                                {"type": "Compute", "einsum": "T", "component": "MAC"},
                            ],
                        },
                        {
                            "type": "Nested",
                            "nodes": [
                                {"type": "Temporal", "rank_variable": "p", "tile_shape": 1},
                                {"type": "Temporal", "rank_variable": "r", "tile_shape": 1},
                                {"type": "Compute", "einsum": "Z", "component": "MAC"},
                            ],
                        },
                    ],
                },
            ]
        },
    }
)  # fmt: skip


def test_a_loop_that_a_halo_slides_along_stays_the_innermost_one():
    evaluate(LINES)
    mapping = rewritten(LINES.mapping, LINES.workload, "interchange m")
    with pytest.raises(MappingError, match=r"'Z' read elements of 'T'.*nothing is kept between visits"):
        evaluate(LINES, mapping)


def test_a_line_buffer_keeps_sliding_where_it_is_moved_and_is_not_sunk_past_its_loop():
    moved = rewritten(LINES.mapping, LINES.workload, "hoist T@GLB")
    (held,) = [p.node for p in moved.placed if isinstance(p.node, Storage) and p.node.component == "GLB"]
    assert held.sliding_window
    evaluate(LINES, moved)
    with pytest.raises(MappingError, match="T in GLB saves no space"):
        sink(moved, LINES.workload, "T@GLB")


HELD = """
[DRAM holds A, B, Z]
[GLB holds A]
for m by 1
  for n by 1
    for k by 1
      compute Z on MAC
"""


@pytest.mark.parametrize("lasting", [{"persistent": True}, {"sliding_window": True}])
def test_no_place_further_down_saves_space_for_a_node_that_keeps_its_data(lasting):
    plain = tree(HELD)
    assert place_that_saves(plain, MATMUL, (1,), "A") == (2,)
    keeping = replaced(plain, (1,), 1, [replace(plain.at((1,)), **lasting)])
    assert place_that_saves(keeping, MATMUL, (1,), "A") is None


def lanes(*einsums, **ranges):
    """Two Einsums, each first over lanes below one memory, then one value at a time."""
    memory, unit = ({"type": t, "component_class": "Dummy"} for t in ("Memory", "Compute"))
    arch = [{**memory, "name": "DRAM", "size": "inf"}, {**unit, "name": "MAC", "spatial": [{"name": "X", "fanout": 8}]}]
    space = {"iteration_space_shape": {v: f"{low} <= {v} < {high}" for v, (low, high) in ranges.items()}}
    work = {**BITS, **space, "einsums": list(einsums)}
    return Spec.from_dict({"arch": {"nodes": arch}, "workload": work})


def over_lanes(spec, loops):
    """The branches of two Einsums, each with its loop over lanes."""
    text = ["[DRAM holds A, B, T, Y]"]
    for head, einsum, (variable, shape) in zip(("first:", "then:"), spec.workload.einsums, loops, strict=True):
        inner = [f"for {v} by 1" for v, _ in einsum.bounds]
        rows = [f"spatial-for {variable} by {shape} on MAC.X", *inner, f"compute {einsum.name} on MAC"]
        text += [head, *("  " * (i + 1) + row for i, row in enumerate(rows))]
    return tree("\n".join(text))


def merged_unchecked(mapping):
    first, second = mapping.at((1,)).branches
    variable, shape = (
        PerEinsum(None, (("T", getattr(first[0], f).of("T")), ("Y", getattr(second[0], f).of("Y"))))
        for f in ("rank_variable", "tile_shape")
    )
    loop = replace(first[0], rank_variable=variable, tile_shape=shape)
    return replaced(mapping, (1,), 1, (loop, Sequential((first[1:], second[1:]))))


@pytest.mark.parametrize(
    "spec",
    [
        lanes("T[m,k] = A[m,j] * B[j,k]", "Y[M:p] = T[M:p,K:q]", m=(0, 4), j=(0, 4), k=(0, 4), p=(0, 4), q=(0, 4)),
        lanes("T[H:h] = A[H:h]", "Y[P:p] = T[H:p+r] * B[R:r]", h=(0, 6), p=(0, 4), r=(0, 3)),
        lanes("T[H:h] = A[H:h]", "Y[P:p] = T[H:p-2] * B[P:p]", h=(0, 6), p=(2, 8)),
        lanes("T[H:h] = A[H:h]", "Y[P:p] = T[H:p+2] * B[P:p]", h=(0, 8), p=(0, 6)),
        lanes("T[H:5-h] = A[H:h]", "Y[P:p] = T[H:p] * B[P:p]", h=(0, 6), p=(0, 6)),
    ],
)
def test_loops_over_lanes_are_merged_just_where_no_lane_reads_what_another_writes(spec):
    choices = [[(v, s) for v, n in e.bounds for s in range(1, n)] for e in spec.workload.einsums]
    outcomes = set()
    for loops in product(*choices):
        before = over_lanes(spec, loops)
        evaluate(spec, before)
        try:
            after = merge(before, spec.workload)
        except MappingError as error:
            if "number of iterations" in error.message:
                continue
            assert "another lane writes" in error.message
            with pytest.raises(MappingError, match="before 'T' writes them"):
                evaluate(spec, merged_unchecked(before))
            outcomes.add("refused")
        else:
            evaluate(spec, after)
            outcomes.add("merged")
    assert "merged" in outcomes


def test_a_copy_and_its_readers_are_merged_where_no_further_node_stands_above():
    text = COPIED_APART.replace("[GLB holds C]\n", "")
    assert pretty(merge(tree(text), COPIED)).splitlines()[:2] == ["[DRAM holds A, C, Y]", "for m by 1"]
