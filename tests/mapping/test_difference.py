"""How LoopTrees differ."""

import einmap
from einmap.mapping.difference import tree_changes

HEAD = "mapping:\n  nodes:\n"


def tree(*lines):
    return einmap.loads(HEAD + "".join(f"  - {line}\n" for line in lines)).mapping


DRAM = "!Storage {component: DRAM, tensors: [A, B, Z]}"
GLB = "!Storage {component: GLB, tensors: [A]}"
M, N = "!Temporal {rank_variable: m, tile_shape: 4}", "!Temporal {rank_variable: n, tile_shape: 2}"
END = "!Compute {einsum: Z, component: MAC}"


def kinds(before, after):
    return [(change.kind, change.what) for change in tree_changes(before, after)]


def test_equal_trees_do_not_differ():
    assert tree_changes(tree(DRAM, M, N, END), tree(DRAM, M, N, END)) == ()


def test_the_order_and_grouping_of_stored_tensors_is_no_difference():
    apart = "!Storage {component: DRAM, tensors: [Z]}", "!Storage {component: DRAM, tensors: [A, B]}"
    assert kinds(tree("!Storage {component: DRAM, tensors: [A, Z, B]}", M, END), tree(DRAM, M, END)) == []
    assert kinds(tree(DRAM, M, END), tree(*apart, M, END)) == []


def test_a_tile_shape_is_changed_a_node_is_added_or_removed():
    (change,) = tree_changes(tree(DRAM, M, END), tree(DRAM, M.replace("4", "8"), END))
    assert (change.kind, change.before, change.after, change.after_at) == ("changed", "for m by 4", "for m by 8", (1,))
    assert kinds(tree(DRAM, M, END), tree(DRAM, GLB, M, END)) == [("added", "A in GLB")]
    assert kinds(tree(DRAM, GLB, M, END), tree(DRAM, M, END)) == [("removed", "A in GLB")]


def test_a_line_buffer_is_a_changed_node():
    lines = GLB.replace("[A]", "[A], sliding_window: true")
    (change,) = tree_changes(tree(DRAM, GLB, M, END), tree(DRAM, lines, M, END))
    assert (change.kind, change.before, change.after) == ("changed", "A in GLB", "A in GLB in sliding windows")


def test_a_node_that_stands_elsewhere_has_moved():
    (change,) = tree_changes(tree(DRAM, M, N, GLB, END), tree(DRAM, GLB, M, N, END))
    assert (change.kind, change.what, change.before_at, change.after_at) == ("moved", "A in GLB", (3,), (1,))


def test_fusing_a_cascade_moves_nodes_into_the_common_part():
    names = "simple", "matmul_chain"
    apart = einmap.load(*names, "simple_matmul_chain_unfused").mapping
    fused = einmap.load(*names, "simple_matmul_chain_fused").mapping
    found = kinds(apart, fused)
    assert ("removed", "T1 in MainMemory") in found
    assert ("moved", "for m") in found
