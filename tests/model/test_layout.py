"""Lines of memories, counted by hand."""

import pytest
from tests.model.executed import differences
from tests.nests import nest_to_format

from einmap import SpecError, evaluate, execute, loads
from einmap.errors import NotSupportedError
from einmap.model.explanation.explain import explain

FILE = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, {dram}
             actions: [{{name: read, energy: 10, throughput: 4}}, {{name: write, energy: 12, throughput: 2}}]}}
  - !Memory {{name: GLB, size: inf, leak_power: 0, area: 0, {glb}
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Container {{name: Array, spatial: [{{name: X, fanout: 4}}]}}
  - !Memory {{name: REG, size: inf, leak_power: 0, area: 0, {reg}
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: inf}}]}}
workload:
  rank_sizes: {{M: 4, K: 10}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m] = A[m, k] * B[k]"]
""" + nest_to_format("DRAM: A B Z / m 2 / k 5 / GLB: A B Z / k 2 @ Array.X / REG: A B / m 1 / k 1 / Z @ MAC")


def spec(**layouts):
    written = {name: f"layout: {{{layouts[name]}}}," if name in layouts else "" for name in ("dram", "glb", "reg")}
    return loads(FILE.format(**written))


def moved(found, component, tensor, action):
    """Bits, which are actions here, by the model and by the simulator."""
    every = [
        [r.count for r in rows if (r.component, r.tensor, r.action) == (component, tensor, action)]
        for rows in (evaluate(found).actions, execute(found).actions)
    ]
    assert every[0] == every[1]
    return sum(every[0])


@pytest.mark.parametrize(
    ("layout", "lines"),
    [
        # a row of K has blocks of 4, 4, 2; k 0-4 touches two of them, k 5-9 two: 2 rows x 2 lines, 4 visits
        ("line: 32, order: {A: [M, K]}", 16),
        # 4 values are a column of M, of which a tile uses half: 5 columns a visit
        ("line: 32, order: {A: [K, M]}", 20),
        # blocks of 2 along K: 0-4 touches 3, 5-9 touches 3
        ("line: 32, block: {A: {M: 2, K: 2}}", 12),
        # the whole row, and of the next one nothing: 2 rows a visit
        ("line: 80, order: {A: [M, K]}", 8),
        # 25 values: 2 whole rows, the rest of the line stays empty; rows 0-1 and 2-3 are one line each
        ("line: 200, order: {A: [M, K]}", 4),
        # everything in one line
        ("line: 320, order: {A: [M, K]}", 4),
        # one value in each line
        ("line: 8, order: {Inputs & A: [M, K]}", 40),
        # a value of 8 bits in a line of 12
        ("line: 12, order: {A: [M, K]}", 40),
        ("line: 32, block: {A: {}}", 40),
    ],
)
def test_a_visit_moves_the_lines_that_its_tile_touches(layout, lines):
    bits = int(layout.split(",")[0].split()[1])
    found = spec(dram=layout)
    assert moved(found, "DRAM", "A", "read") == lines * bits
    # the other tensors, and the other side, move values: B 5 for each of 4 visits, A 40
    assert moved(found, "DRAM", "B", "read") == 20 * 8
    assert moved(found, "GLB", "A", "write") == 40 * 8


def test_outputs_move_lines_both_ways_but_for_fills_without_results():
    # Z has two lines of 4 values; each of 4 visits has half a line; for the first of two visits of each nothing comes in
    found = spec(dram="line: 16, order: {Z: [M]}", glb="line: 32, order: {Z: [M]}")
    assert moved(found, "DRAM", "Z", "write") == 4 * 16
    assert moved(found, "DRAM", "Z", "read") == 2 * 16
    # lanes over k reduce: the sums of 2 rows and 2 steps are written for each of 4 visits, and read but for the 4 first
    # ones; each value is a line
    assert moved(found, "GLB", "Z", "write") == (2 + 16) * 32
    assert moved(found, "GLB", "Z", "read") == (4 + 16 - 4) * 32


def test_each_lane_moves_its_own_lines_and_the_busiest_instance_counts():
    # lanes of 2, 2, 1 values of K at 0, 2, 4 and 5, 7, 9: of blocks of 4 they touch 1, 1, 1 and 1, 2, 1; 2 rows, 2 times
    found = spec(glb="line: 32, order: {A: [M, K]}", reg="line: 32, order: {A: [M, K]}")
    assert moved(found, "GLB", "A", "read") == (3 + 4) * 2 * 2 * 32
    assert moved(found, "REG", "A", "write") == (3 + 4) * 2 * 2 * 32
    # the second lane touches 1 block and 2: 3 x 2 rows x 2; of B values: 2 for each of 4 visits
    times = {row.component: row.latency for row in evaluate(found).latencies}
    assert times["REG"] == 3 * 2 * 2 * 32 + 2 * 4 * 8
    assert execute(found).calls["Z", "REG", "write"] == times["REG"]


def test_energy_and_latency_are_those_of_lines():
    cost = evaluate(spec(dram="line: 32, order: {A: [M, K]}"))
    rows = {(r.tensor, r.action): r.energy for r in cost.actions if r.component == "DRAM"}
    assert rows["A", "read"] == 16 * 32 * 10
    times = {row.component: row.latency for row in cost.latencies}
    assert times["DRAM"] == (16 * 32 + 20 * 8 + 4 * 8) / 4 + 8 * 8 / 2


def test_lanes_together_move_a_line_once():
    # lanes of 2, 2, 1 values at 0, 2, 4 and 5, 7, 9: together they touch 2 blocks of 4 each time; 2 rows, 2 times
    found = spec(glb="line: 32, order: {A: [M, K]}, lanes: together")
    assert moved(found, "GLB", "A", "read") == (2 + 2) * 2 * 2 * 32
    # what may not be shared along the dimension is read lane by lane
    apart = FILE.replace("{name: X, fanout: 4}", "{name: X, fanout: 4, may_reuse: B | Z}")
    found = loads(apart.format(dram="", glb="layout: {line: 32, order: {A: [M, K]}, lanes: together},", reg=""))
    assert moved(found, "GLB", "A", "read") == (3 + 4) * 2 * 2 * 32
    # the compute reads B lane by lane at a time: k 0, 2, 4 then 1, 3; 5, 7, 9 then 6, 8: blocks 2, 1, 2, 2
    direct = FILE.replace("tensors: [A, B], component: REG", "tensors: [A], component: REG")
    found = loads(direct.format(dram="", glb="layout: {line: 32, order: {B: [K]}, lanes: together},", reg=""))
    assert moved(found, "GLB", "B", "read") == (2 + 1 + 2 + 2) * 4 * 32


@pytest.mark.parametrize(
    ("banks", "rounds"),
    [
        # lines of 2 values: a tile of k 0-4 has lines 0, 1, 2 of a row, k 5-9 has lines 2, 3, 4; rows have 5 lines
        ("number: 1", 6 + 6),
        # the lines of rows m and m + 1 are 5 apart: banks 0, 1, 2, 5, 6, 7 modulo 4 are 0, 1, 2, 1, 2, 3
        ("number: 4", 2 + 2),
        ("number: 8", 1 + 1),
        ("number: 5", 2 + 2),
        # rows begin with the same bank
        ("number: 4, interleave: {A: {K: 1}}", 2 + 2),
        ("number: 4, interleave: {A: {K: 2}}", 4 + 4),
        ("number: 6, interleave: {A: {K: 1, M: 3}}", 1 + 1),
        ("number: 3, interleave: {A: {}}", 6 + 6),
    ],
)
def test_lines_in_one_bank_come_one_after_another(banks, rounds):
    layout = "line: 16, order: {A: [M, K]}}, banks: {conflicts: interleaved, " + banks
    found = spec(dram=layout)
    assert moved(found, "DRAM", "A", "read") == 4 * 6 * 16
    times = {row.component: row.latency for row in evaluate(found).latencies}
    assert times["DRAM"] == (2 * rounds * 16 + 20 * 8 + 4 * 8) / 4 + 8 * 8 / 2
    assert execute(found).rounds["Z", "DRAM", "read"] == 2 * rounds * 16 + 20 * 8 + 4 * 8


def test_conflicts_are_those_of_all_lanes_at_a_time():
    # lanes with k 0-1, 2-3, 4 and 5-6, 7-8, 9: lines 0, 1, 2 and 2-3, 3-4, 4 of 2 rows, 5 lines apart; lines 2, 3, 7, 8
    # are twice in bank 3, 3, 4, 8, 9 twice in bank 0; together 0, 1, 2, 5, 6, 7 are twice in banks 1 and 2
    layout = "line: 16, order: {A: [M, K]}, lanes: LANES}, banks: {number: 4, conflicts: interleaved"
    found = {lanes: spec(glb=layout.replace("LANES", lanes)) for lanes in ("apart", "together")}
    reads = {lanes: execute(each).rounds["Z", "GLB", "read"] for lanes, each in found.items()}
    others = reads["apart"] - (1 + 1 + 1 + 2 + 2 + 1) * 2 * 16
    assert reads["together"] - others == (2 + 2) * 2 * 16


@pytest.mark.parametrize(
    ("layout", "text", "hint"),
    [
        ("line: 32, order: {A: [M, J]}", "'A' has no rank 'J'", "ranks: K, M"),
        ("line: 32, order: {A: [M]}", "must name each of its ranks once, found [M]", "its ranks are M, K"),
        ("line: 32, order: {A: [M, K, M]}", "must name each of its ranks once, found [M, K, M]", "its ranks are M, K"),
        ("line: 32, block: {A: {k: 2}}", "'A' has no rank 'k'", "did you mean 'K'"),
        ("line: 32, block: {A: {M: 2, K: 4}}", "a line of 'A' holds 8 values of 8 bits", "make the block smaller"),
        ("line: 32, block: {A: {M: 0}}", "values of a line along M must be >= 1, found 0", ""),
        ("line: 4, order: {A: [M, K]}", "a line of 4 bits has no room for a value of 'A', which takes 8", ""),
        ("line: 32", "the layout of 'DRAM' says of no tensor how it lies there", "order: {A: [M, K]}"),
        ("line: 32, order: {A: [M, K]}}, bits_per_value: {A: 0", "a value of 'A' takes 0 bits", "leave 'A' out"),
        ("line: 32, block: {A: {K: 2}}}, bits_per_value: {A: 0", "a value of 'A' takes 0 bits", "leave 'A' out"),
        ("line: inf, order: {A: [M, K]}", "line", ""),
        ("line: 32, order: {A: [M, K]}, rows: 3", "rows", ""),
        ("line: 32, order: {A: [M, K]}, lanes: both", "unknown way to serve lanes 'both'", "apart, together"),
        (
            "line: 32, order: {A: [M, K]}}, banks: {number: 2, conflicts: interleaved, interleave: {A: {J: 1}}",
            "'A' has no rank 'J'",
            "ranks: K, M",
        ),
        (
            "line: 32, order: {A: [M, K]}}, banks: {number: 9999, conflicts: interleaved",
            "banks.number must be at most 4,096 where lines are interleaved, found 9999",
            "",
        ),
        (
            "line: 32, order: {A: [M, K]}}, ports: {read_write: 2}, banks: {number: 2, conflicts: interleaved",
            "interleaved banks of 'DRAM' have a port each",
            "leave out ports",
        ),
        (
            "line: 32, order: {A: [M, K]}}, banks: {number: 2, interleave: {A: {K: 1}}",
            "interleave says where lines lie, and conflicts of 'DRAM' are 'none'",
            "conflicts: interleaved",
        ),
    ],
)
def test_a_wrong_layout_is_told_where_it_is_written(layout, text, hint):
    with pytest.raises(SpecError) as problem:
        evaluate(spec(dram=layout))
    assert text in problem.value.message
    assert hint in (problem.value.hint or "")
    assert "line 4" in str(problem.value.at) or ":4" in str(problem.value.at)


def test_interleaved_banks_need_lines():
    without = FILE.format(dram="banks: {number: 2, conflicts: interleaved},", glb="", reg="")
    with pytest.raises(SpecError, match="interleaved banks of 'DRAM' need a layout"):
        evaluate(loads(without))


def test_what_is_not_lines_is_explained_beside_them_and_they_are_named():
    found = spec(dram="line: 32, order: {A: [M, K]}")
    explained = explain(found)
    assert list(differences(found, explained)) == []
    told = {(row.component, row.tensor) for row in explained.derivations}
    charged = {(row.component, row.tensor) for row in explained.cost.actions if row.count}
    assert charged - told == {("DRAM", "A")}
    (note,) = explained.unexplained
    assert note.text.startswith("how many lines of 'A' move in 'DRAM' is not explained yet")
    assert note.at.path == 'arch.nodes[0] "DRAM".layout'
    assert note in explained.notes


def test_what_lines_cannot_count_yet_is_refused_by_name():
    found = spec(dram="line: 32, order: {A: [M, K]}")
    with pytest.raises(NotSupportedError, match="lines of 'A' in 'DRAM', under the preset 'accelforge'"):
        evaluate(found, semantics="accelforge")
    window = FILE.replace('"Z[m] = A[m, k] * B[k]"', '"Z[W: m + k] = A[m, k] * B[k]"')
    with pytest.raises(NotSupportedError, match="of an output that is indexed by sums"):
        evaluate(loads(window.format(dram="layout: {line: 32, order: {Z: [W]}},", glb="", reg="")))
    with pytest.raises(NotSupportedError, match=r"sliding_window"):
        sliding = FILE.format(dram="layout: {line: 32, order: {A: [M, K]}},", glb="", reg="")
        sliding = sliding.replace("A[m, k]", "A[W: m + k, k]").replace("order: {A: [M, K]}", "order: {A: [W, K]}")
        evaluate(loads(sliding + "model: {sliding_window: true}\n"))
