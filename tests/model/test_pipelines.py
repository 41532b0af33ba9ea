"""Pipelines by hand: two matmuls of 4 x 4 x 4 below a loop over m, 8 bits for each value, on lanes of their own."""

import pytest

from einmap import CapacityError, FanoutError, MappingError, dump, evaluate, loads
from einmap.errors import NotSupportedError
from einmap.mapping.pretty import pretty
from einmap.report.costs.pipelines import summary
from einmap.report.costs.rows import busy_rows

TREE = """
  - !Storage {tensors: [T0, T2, W0, W1], component: Main}
  - !Storage {tensors: [W0, W1], component: Buffer}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [T0, T1, T2], component: Buffer}
  - !Pipeline
    component: Array
    name: X
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: n0, tile_shape: 1}, !Temporal {rank_variable: n1, tile_shape: 1},
                       !Compute {einsum: T1, component: MAC}]}
    - !Nested {nodes: [!Spatial {rank_variable: n1, tile_shape: 2, component: Array, name: X},
                       !Temporal {rank_variable: n1, tile_shape: 1}, !Temporal {rank_variable: n2, tile_shape: 1},
                       !Compute {einsum: T2, component: MAC}]}
"""
THREE = """
  - !Storage {tensors: [A, D, E], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [A, B, C, D, E], component: Buffer}
  - !Pipeline
    component: Array
    name: X
    nodes:
    - !Nested {nodes: [!Compute {einsum: B, component: MAC}]}
    - !Nested {nodes: [!Compute {einsum: C, component: MAC}]}
    - !Nested {nodes: [!Compute {einsum: D, component: MAC}]}
    - !Nested {nodes: [!Compute {einsum: E, component: MAC}]}
"""
CHAIN = ["B[m] = A[m]", "C[m] = B[m]", "D[m] = C[m] * B[m]", "E[m] = A[m] * B[m]"]
MATMULS = ["T1[m, n1] = T0[m, n0] * W0[n0, n1]", "T2[m, n2] = T1[m, n1] * W1[n1, n2]"]


def spec(mapping=TREE, einsums=MATMULS, read=1000, compute=1, size="inf", extra="", lanes=4, more=""):
    """Each operation takes 1 s; Main moves `read` bits/s, everything else takes no time."""
    return loads(f"""
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0, bits_per_action: 1,
             actions: [{{name: read, energy: 1, throughput: {read}}}, {{name: write, energy: 1, throughput: {read}}}]}}
  - !Memory {{name: Buffer, size: {size}, leak_power: 0, area: 0, {extra}
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Container {{name: Array, spatial: [{{name: X, fanout: {lanes}}}]}}
  - !Memory {{name: Register, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: {compute}}}]}}
workload:
  rank_sizes: {{M: 4, N0: 4, N1: 4, N2: 4}}
  bits_per_value: {{All: 8}}
  einsums: {einsums}
{more}
mapping:
  nodes:{mapping}""")


def sequential(mapping):
    return mapping.replace("- !Pipeline\n    component: Array\n    name: X\n", "- !Sequential\n")


def usage(cost, size, memory="Buffer"):
    return next(row.usage for row in cost.memory_usage if row.component == memory) * size


def test_a_pipeline_takes_its_slowest_stage_and_one_tile_of_the_others():
    # the first computes for 64 s on one lane, the second for 32 s on two; four tiles, of 16 s and 8 s
    cost = evaluate(spec())
    assert cost.latency == 64 + 8
    assert cost.latency_by_einsum == {"T1": 64, "T2": 32}
    (row,) = cost.pipelines
    assert (row.tiles, row.latency, row.limited_by) == (4, 72, None)
    assert [(stage.einsums, stage.awaits, stage.latency) for stage in row.stages] == [
        (("T1",), 0, 64),
        (("T2",), 1, 32),
    ]
    # of the whole the first stage takes 64 s, and the second one its last tile; each has MACs of its own
    assert [(r.component, r.busy, r.limits) for r in busy_rows(cost) if r.busy > 1] == [("MAC", 64, 1)]
    assert "4 tiles, 72 s: 64 s of stage 1, 8 s to fill and drain; 96 s in turns" in summary(row)
    alone = evaluate(spec(sequential(TREE)))
    assert alone.latency == 64 + 32
    assert (cost.energy, cost.actions) == (alone.energy, alone.actions)


def test_what_stages_have_in_common_is_busy_for_all_of_them():
    # Main moves T0 and W0, 256 bits, for the first, T2 and W1 for the second: 64 s and 64 s
    cost = evaluate(spec(read=4))
    assert cost.latency == 128
    assert (cost.pipelines[0].limited_by, cost.pipelines[0].filling) == ("Main", 64 + 64 / 4)
    assert {row.component: row.limits for row in busy_rows(cost) if row.limits} == {"Main": 1}
    assert evaluate(spec(read=8)).latency == 64 + 8


def test_what_is_handed_on_is_held_twice():
    # W0 and W1 stay: 256 bits; a row has 32: T0 and T2 once, T1 while the next row of it comes
    assert usage(evaluate(spec(size=4096)), 4096) == 256 + 32 + 2 * 32 + 32
    # one after the other T0 is gone before T2 comes
    assert usage(evaluate(spec(sequential(TREE), size=4096)), 4096) == 256 + 32 + 32
    with pytest.raises(CapacityError, match=r"needs 384 bits .* it holds 383: .*T1 64 "):
        evaluate(spec(size=383))
    assert evaluate(spec(size=384))


def test_stages_that_do_not_wait_for_each_other_work_at_one_time():
    # B, then C and E at one time, then D; four tiles of 1 s each
    cost = evaluate(spec(THREE, CHAIN, size=4096))
    assert cost.latency == 4 + 1 + 1
    # A lives for one turn more, until E has read it, B for two, until D has, C for one
    assert usage(cost, 4096) == 8 * (2 + 3 + 2 + 1 + 1)
    one_tile = THREE.replace("  - !Temporal {rank_variable: m, tile_shape: 1}\n", "", 1).replace(
        "nodes: [!Compute", "nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute"
    )
    # nothing overlaps in a single tile but C with E
    assert evaluate(spec(one_tile, CHAIN)).latency == 3 * 4


def test_a_buffer_that_lasts_for_several_tiles_is_held_twice_while_it_changes():
    outer = TREE.replace(
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {tensors: [T0, T1, T2], component: Buffer}\n",
        "  - !Temporal {rank_variable: m, tile_shape: 2}\n  - !Storage {tensors: [T0, T1, T2], component: Buffer}\n"
        "  - !Temporal {rank_variable: m, tile_shape: 1}\n",
    )
    # T1 of the first two rows is still read when the third is written; T0 and T2 are of one stage each
    assert usage(evaluate(spec(outer, size=4096)), 4096) == 256 + 64 + 2 * 64 + 64


def test_what_each_stage_has_instances_of_counts_stage_by_stage():
    inside = TREE.replace(
        "!Nested {nodes: [!Temporal {rank_variable: n0",
        "!Nested {nodes: [!Storage {tensors: [W0], component: Register}, !Temporal {rank_variable: n0",
    ).replace(
        "!Temporal {rank_variable: n1, tile_shape: 1}, !Temporal {rank_variable: n2",
        "!Storage {tensors: [W1], component: Register}, !Temporal {rank_variable: n1, tile_shape: 1}, "
        "!Temporal {rank_variable: n2",
    )
    cost = evaluate(spec(inside.replace("T0, T2, W0, W1], component: Main", "T0, T2, W0, W1], component: Main")))
    held = {row.component: row.usage for row in cost.memory_usage}
    assert held["Register"] == 0
    sized = spec(inside)
    arch = sized.to_dict()
    next(n for n in arch["arch"]["nodes"] if n["name"] == "Register")["size"] = 128
    assert usage(evaluate(type(sized).from_dict(arch)), 128, "Register") == 128


def test_leakage_lasts_as_long_as_the_pipeline():
    leaking = spec().to_dict()
    leaking["arch"]["nodes"][0]["leak_power"] = 2
    cost = evaluate(type(spec()).from_dict(leaking))
    assert cost.energy == pytest.approx(evaluate(spec()).energy + 2 * 72)


@pytest.mark.parametrize(
    ("old", "new", "error", "says"),
    [
        (
            "    component: Array\n    name: X\n",
            "",
            MappingError,
            "stages 1 and 2 of the Pipeline use the same instances",
        ),
        ("name: X\n", "name: Y\n", MappingError, "'Array' has no fanout dimension 'Y'"),
        ("component: Array\n", "component: Arrow\n", MappingError, "no stage passes a component 'Arrow'"),
        ("    component: Array\n", "", MappingError, "side by side needs a component"),
        ("n1, tile_shape: 2, component: Array", "n1, tile_shape: 1, component: Array", FanoutError, r"use 1 \+ 4 inst"),
        ("T0, T1, T2], component: Buffer", "T1], component: Register", MappingError, "share 'T1' in 'Register'"),
    ],
)
def test_stages_that_cannot_work_at_one_time_are_refused_where_they_stand(old, new, error, says):
    assert old in TREE
    with pytest.raises(error, match=says):
        evaluate(spec(TREE.replace(old, new, 1)))


def test_a_stage_hands_on_nothing_that_is_half_reduced():
    reduced = """
  - !Storage {tensors: [T0, T2, W0, W1], component: Main}
  - !Storage {tensors: [T0, T1, T2, W0, W1], component: Buffer}
  - !Temporal {rank_variable: {T1: n0, T2: n2}, tile_shape: 1}
  - !Pipeline
    component: Array
    name: X
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n1, tile_shape: 1},
                       !Compute {einsum: T1, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n1, tile_shape: 1},
                       !Compute {einsum: T2, component: MAC}]}
"""
    assert evaluate(spec(sequential(reduced))).notes
    with pytest.raises(MappingError, match="'T1' adds to the same elements of 'T1' in several of them"):
        evaluate(spec(reduced))


def test_what_is_not_supported_yet_is_refused_by_name():
    with pytest.raises(NotSupportedError, match="the preset 'accelforge' runs the branches of a Pipeline one after"):
        evaluate(spec(), semantics="accelforge")
    with pytest.raises(NotSupportedError, match="a Pipeline with overlap_einsums"):
        evaluate(spec(more="model: {overlap_einsums: true}"))


def with_network(above, rate="inf"):
    """TREE on two rows of MACs for each lane, and a network above the lanes, or in each of them."""
    given = spec().to_dict()
    nodes = given["arch"]["nodes"]
    noc = {"type": "Network", "name": "Noc", "topology": "mesh", "leak_power": 0, "area": 0,
           "actions": [{"name": "hop", "energy": 1, "latency": 0, "throughput": rate}]}  # fmt: skip
    rows = {"type": "Container", "name": "Rows", "spatial": [{"name": "Y", "fanout": 2, "may_reuse": "All"}]}
    nodes[-1:] = [rows, nodes[-1]]
    nodes.insert(next(i for i, n in enumerate(nodes) if n["name"] == "Array") + (not above), noc)
    second = next(node for node in given["mapping"]["nodes"] if node["type"] == "Pipeline")["nodes"][1]
    rows = {"type": "Spatial", "rank_variable": "n2", "tile_shape": 2, "component": "Rows", "name": "Y"}
    second["nodes"].insert(1, rows)
    return type(spec()).from_dict(given)


def test_a_network_in_each_lane_belongs_to_a_stage():
    cost = evaluate(with_network(above=False, rate=1))
    hops = cost.count_by("einsum", "tensor", "action")
    # 64 operations on two rows: each of 32 values of T1 is for both of them, one step apart; of W1 the second has 32
    assert hops["T2", "T1", "hop"] == 8 * 32
    assert hops["T2", "W1", "hop"] == 8 * 32
    assert ("T1", "W0", "hop") not in hops
    with pytest.raises(
        NotSupportedError, match=r"mapping.nodes\[4\].*: a Pipeline whose stages cross the network 'Noc'"
    ):
        evaluate(with_network(above=True))


def test_a_pipeline_is_written_as_it_was_read():
    read = spec()
    assert loads(dump(read)).mapping == read.mapping
    assert "pipeline side by side on Array.X\nstage 1:" in pretty(read.mapping).replace("  ", "")
