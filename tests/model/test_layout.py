"""Lines of memories, counted by hand."""

import pytest

from einmap import SpecError, evaluate, execute, loads
from einmap.errors import NotSupportedError
from einmap.model.evaluate import workings_of
from einmap.model.explanation.counts import derivations_of

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
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: DRAM}}
  - !Temporal {{rank_variable: m, tile_shape: 2}}
  - !Temporal {{rank_variable: k, tile_shape: 5}}
  - !Storage {{tensors: [A, B, Z], component: GLB}}
  - !Spatial {{rank_variable: k, tile_shape: 2, component: Array, name: X}}
  - !Storage {{tensors: [A, B], component: REG}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Compute {{einsum: Z, component: MAC}}
"""


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
        ("line: inf, order: {A: [M, K]}", "line", ""),
        ("line: 32, order: {A: [M, K]}, rows: 3", "rows", ""),
    ],
)
def test_a_wrong_layout_is_told_where_it_is_written(layout, text, hint):
    with pytest.raises(SpecError) as problem:
        evaluate(spec(dram=layout))
    assert text in problem.value.message
    assert hint in (problem.value.hint or "")
    assert "line 4" in str(problem.value.at) or ":4" in str(problem.value.at)


def test_what_lines_cannot_count_yet_is_refused_by_name():
    found = spec(dram="line: 32, order: {A: [M, K]}")
    with pytest.raises(NotSupportedError, match="lines of 'A' in 'DRAM', under the preset 'accelforge'"):
        evaluate(found, semantics="accelforge")
    with pytest.raises(NotSupportedError, match="lines of 'A' in 'DRAM' are not explained yet"):
        list(derivations_of(workings_of(found)))
    window = FILE.replace('"Z[m] = A[m, k] * B[k]"', '"Z[W: m + k] = A[m, k] * B[k]"')
    with pytest.raises(NotSupportedError, match="of an output that is indexed by sums"):
        evaluate(loads(window.format(dram="layout: {line: 32, order: {Z: [W]}},", glb="", reg="")))
    with pytest.raises(NotSupportedError, match=r"sliding_window"):
        sliding = FILE.format(dram="layout: {line: 32, order: {A: [M, K]}},", glb="", reg="")
        sliding = sliding.replace("A[m, k]", "A[W: m + k, k]").replace("order: {A: [M, K]}", "order: {A: [W, K]}")
        evaluate(loads(sliding + "model: {sliding_window: true}\n"))
