"""Rules of `exact` for cascades and odd trees, each on the smallest tree that shows it."""

import pytest

import einmap

NODES = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, bits_per_action: 8, DRAM_TENSORS
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 1, throughput: 8}]}
  - !Memory {name: GLB, size: GLB_SIZE, leak_power: 0, area: 0, bits_per_action: 8, GLB_TENSORS
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 1, throughput: 8}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 4}]}
  - !Memory {name: REG, size: inf, leak_power: 0, area: 0, bits_per_action: 8,
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 1, throughput: 8}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def spec(sizes, einsums, nodes, dram="", glb="", size="inf", shape=""):
    arch = NODES.replace("DRAM_TENSORS", dram).replace("GLB_TENSORS", glb).replace("GLB_SIZE", size)
    quoted = ", ".join(f'"{e}"' for e in einsums)
    workload = f"workload: {{rank_sizes: {{{sizes}}}, bits_per_value: {{All: 8}}, einsums: [{quoted}]{shape}}}\n"
    tree = "\n".join(f"  - {node}" for node in nodes)
    return einmap.loads(f"{arch}{workload}mapping:\n  nodes:\n{tree}\n")


def split(*branches):
    return "!Sequential {nodes: [" + ", ".join(f"!Nested {{nodes: [{', '.join(b)}]}}" for b in branches) + "]}"


def loop(variable, shape=1, more=""):
    return f"!Temporal {{rank_variable: {variable}, tile_shape: {shape}{more}}}"


def store(component, *tensors):
    return f"!Storage {{component: {component}, tensors: [{', '.join(tensors)}]}}"


def compute(einsum):
    return f"!Compute {{einsum: {einsum}, component: MAC}}"


def counts(cost, tensor):
    return {(r.component, r.action): r.count for r in cost.actions if r.tensor == tensor and r.einsum == "X"}


def test_an_intermediate_starts_anew_at_each_visit_of_its_backing_node():
    given = spec(
        "P: 4, R: 3",
        ["X[m] = A[m, k]", "Z[m] = X[m]"],
        [
            store("DRAM", "A", "Z"),
            loop("m", 2),
            store("GLB", "X"),
            split([loop("m"), store("REG", "X"), loop("k"), compute("X")], [loop("m"), compute("Z")]),
        ],
        shape=", iteration_space_shape: {m: 0 <= m < 4, k: 0 <= k < 3}",
    )
    # 4 elements, each filled into REG once without a result: nothing is read from GLB
    assert counts(einmap.evaluate(given), "X") == {
        ("GLB", "write"): 4, ("REG", "read"): 4 * 3 - 4 + 4, ("REG", "write"): 12,
    }  # fmt: skip


def early(einsum, consumer):
    return spec(
        "M: 4, F: 2",
        ["X[m] = A[m]", einsum],
        [
            store("DRAM", "A", "X", "Z", "W"),
            "!Temporal {rank_variable: {X: m, Z: q}, tile_shape: 1}",
            split([compute("X")], [*consumer, compute("Z")]),
        ],
        shape=", iteration_space_shape: {q: 0 <= q < 4, f: 0 <= f < 2}",
    ).set("workload.rank_sizes", {})


def test_reading_what_a_later_iteration_writes_is_refused():
    text = "Z[q] = X[M: q + f] * W[f]"
    given = early(text, [loop("f")]).set(
        "workload.iteration_space_shape", {"q": "0 <= q < 4", "f": "0 <= f < 2", "m": "0 <= m < 4"}
    )
    with pytest.raises(einmap.MappingError, match=r"'Z' reads elements of 'X' .* before 'X' writes them"):
        einmap.evaluate(given)
    einmap.evaluate(given, semantics="accelforge")


def innermost(more, shape=1):
    return spec(
        "M: 2, K: 8",
        ["X[m] = A[m, k]"],
        [store("DRAM", "A", "X"), loop("m"), loop("k", shape, more), compute("X")],
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", initial_tile_shape: 3", "not iterated down to tile shape 1"),
        (", initial_tile_shape: 100", "exceeds the extent"),
    ],
)
def test_initial_tile_shapes_are_checked(more, words):
    with pytest.raises(einmap.MappingError, match=words):
        einmap.evaluate(innermost(more))


def test_an_input_comes_from_the_outermost_memory_that_may_keep_it():
    given = spec(
        "M: 2, K: 2",
        ["X[m] = A[m, k]"],
        [store("DRAM", "X"), store("REG", "A"), loop("m"), loop("k"), compute("X")],
        dram="tensors: {keep: X, may_keep: Nothing},",
        glb="tensors: {keep: Nothing, may_keep: All},",
    )
    with pytest.raises(einmap.MappingError, match="'A' is first held in 'REG', so it would appear from nowhere"):
        einmap.evaluate(given)


def between(size):
    return spec(
        "M: 4",
        ["X[m] = A[m]", "Y[m] = B[m]", "Z[m] = X[m] * Y[m]"],
        [
            store("DRAM", "A", "B", "Y", "Z"),
            split(
                [store("GLB", "X"), loop("m"), compute("X")],
                [store("GLB", "B"), loop("m"), compute("Y")],
                [store("GLB", "X"), loop("m"), compute("Z")],
            ),
        ],
        size=size,
    )


def test_a_tensor_backed_in_two_branches_lives_through_the_branch_between():
    # X and B, 4 values each, while Y runs
    (usage,) = (row.usage for row in einmap.evaluate(between("64")).memory_usage if row.component == "GLB")
    assert usage == 1
    with pytest.raises(einmap.CapacityError):
        einmap.evaluate(between("63"))


def test_einsums_over_different_parts_of_a_tensor_share_the_whole_of_them():
    given = spec(
        "",
        ["X[u] = A[M: u]", "Z[v] = A[M: v]"],
        [store("DRAM", "A", "X", "Z"), store("GLB", "A"), split([loop("u"), compute("X")], [loop("v"), compute("Z")])],
        shape=", iteration_space_shape: {u: 0 <= u < 2, v: 2 <= v < 4}",
    )
    assert counts(einmap.evaluate(given), "A")["GLB", "write"] == 4
    assert einmap.execute(given).usage["GLB"] == 0.0


def test_tensors_of_one_storage_node_satisfy_either_order():
    given = spec(
        "M: 2, K: 2",
        ["X[m] = A[m, k] * B[k]"],
        [store("DRAM", "A", "B", "X"), store("GLB", "A", "B", "X"), loop("m"), loop("k"), compute("X")],
        glb="tensors: {keep: All, tensor_order_options: [[B, A | X]]},",
    )
    einmap.evaluate(given, strict=True)


def test_a_loop_above_a_split_iterates_equally_often_for_all():
    given = spec(
        "M: 4, Q: 6",
        ["X[m] = A[m]", "Z[q] = B[q]"],
        [
            store("DRAM", "A", "B", "X", "Z"),
            "!Temporal {rank_variable: {X: m, Z: q}, tile_shape: 2}",
            split([loop("m"), compute("X")], [loop("q"), compute("Z")]),
        ],
    )
    with pytest.raises(einmap.MappingError, match="2 for 'X', 3 for 'Z'"):
        einmap.evaluate(given)


@pytest.mark.parametrize(
    ("energy", "throughput", "message"),
    [(1e308, 1, "energy of 'read' in 'DRAM' is 1e\\+308"), (1, 1e-308, "throughput of 'read' in 'DRAM' is 1e-308")],
)
def test_costs_whose_sums_are_no_numbers_are_refused_where_they_are_given(energy, throughput, message):
    actions = [{"name": n, "energy": energy, "throughput": throughput} for n in ("read", "write")]
    given = innermost("").set("arch.nodes.DRAM.actions", actions)
    with pytest.raises(einmap.SpecError, match=message) as caught:
        einmap.evaluate(given)
    assert "from 1e-100 to 1e+100" in str(caught.value)


def test_a_toll_need_not_let_pass_what_no_memory_above_it_holds():
    toll = (
        "  - !Toll {name: Link, direction: up_and_down, leak_power: 0, area: 0, tensors: {keep: All},\n"
        "           actions: [{name: read, energy: 1, throughput: 8}]}\n"
    )
    glb = "  - !Memory {name: GLB"
    given = einmap.loads(
        NODES.replace("DRAM_TENSORS", "").replace("GLB_TENSORS", "").replace("GLB_SIZE", "inf").replace(glb, toll + glb)
        + """
workload: {rank_sizes: {M: 2}, bits_per_value: {All: 8}, einsums: ["X[m] = A[m]", "Z[m] = X[m]"]}
mapping:
  nodes:
  - !Storage {component: DRAM, tensors: [A, Z]}
  - !Storage {component: GLB, tensors: [X]}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Toll {component: Link, tensors: [A]}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Compute {einsum: X, component: MAC}
    - !Nested
      nodes:
      - !Toll {component: Link, tensors: [Z]}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Compute {einsum: Z, component: MAC}
"""
    )
    einmap.evaluate(given, strict=True)
    without = given.set("mapping.nodes[2].nodes[0].nodes[0].tensors", [])
    with pytest.raises(einmap.MappingError, match="Link must keep 'A'"):
        einmap.evaluate(without, strict=True)
