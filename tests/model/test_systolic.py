"""Fill and drain of systolic arrays and transfers that take time to begin, counted by hand."""

import pytest
from tests.nests import nest_to_format

from einmap import SpecError, evaluate, execute, loads, map_workload
from einmap.errors import NotSupportedError

R, C, T = 8, 4, 40
STATIONARY_OUTPUT = """
arch:
  nodes:
  - !Memory {{name: GLB, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: {edge}}}]}}
  - !Container {{name: Array, spatial: [{{name: R, fanout: {r}, skew: {skew}}}, {{name: C, fanout: {c}, skew: {skew}}}]}}
  - !Memory {{name: REG, size: 8, leak_power: 0, area: 0, buffering: {buffering}, tensors: {{keep: Z, may_keep: Nothing}},
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  rank_sizes: {{M: {m}, N: {n}, K: {t}}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
mapping:
  nodes:
  - !Storage {{tensors: [A, B, Z], component: GLB}}
  - !Temporal {{rank_variable: m, tile_shape: {r}}}
  - !Temporal {{rank_variable: n, tile_shape: {c}}}
  - !Spatial {{rank_variable: m, tile_shape: 1, component: Array, name: R}}
  - !Spatial {{rank_variable: n, tile_shape: 1, component: Array, name: C}}
  - !Storage {{tensors: [Z], component: REG}}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Compute {{einsum: Z, component: MAC}}
"""


def array(*, r=R, c=C, folds=1, skew="each_fold", buffering="single", edge=8 * C):
    """An array in which results stay and leave by an edge as wide as it has columns."""
    given = {"r": r, "c": c, "t": T, "m": r * folds, "n": c, "skew": skew, "buffering": buffering, "edge": edge}
    return loads(STATIONARY_OUTPUT.format(**given))


@pytest.mark.parametrize("folds", [1, 3])
def test_an_output_stays_in_the_array_for_two_rows_a_column_and_its_steps(folds):
    assert evaluate(array(folds=folds)).latency == folds * (2 * R + C + T - 2)


def test_results_that_leave_meanwhile_do_not_count():
    assert evaluate(array(folds=3, buffering="ideal")).latency == 3 * (R + C + T - 2)


def test_lanes_that_begin_once_one_after_another():
    # 31 + 2 = 33 steps on 32 x 3
    wide = array(r=32, c=3, folds=2, skew="once", buffering="ideal", edge="inf")
    assert evaluate(wide).latency == 2 * T + 33
    assert evaluate(array(r=32, c=3, folds=2, skew="none", buffering="ideal", edge="inf")).latency == 2 * T


def test_lanes_that_are_not_used_do_not_wait():
    half = STATIONARY_OUTPUT.replace("fanout: {r}", "fanout: 100")
    given = {"r": R, "c": C, "t": T, "m": R, "n": C, "skew": "each_fold", "buffering": "ideal", "edge": "inf"}
    assert evaluate(loads(half.format(**given))).latency == R + C + T - 2


def test_without_a_memory_inside_there_is_one_fold():
    text = STATIONARY_OUTPUT.replace("  - !Storage {{tensors: [Z], component: REG}}\n", "")
    given = {"r": R, "c": C, "t": T, "m": 3 * R, "n": C, "skew": "each_fold", "buffering": "ideal", "edge": "inf"}
    assert evaluate(loads(text.format(**given))).latency == 3 * T + R + C - 2


def test_the_mapper_uses_fewer_lanes_where_a_short_array_ends_earlier():
    square = STATIONARY_OUTPUT.split("mapping:", maxsplit=1)[0]
    given = {"r": 16, "c": 16, "t": 1, "m": 16, "n": 1, "buffering": "ideal", "edge": "inf"}
    skewed, plain = (loads(square.format(**given, skew=skew)) for skew in ("each_fold", "none"))
    # 16 lanes take 1 + 15 steps, 4 x 4 lanes of both dimensions 1 + 3 + 3
    assert map_workload(skewed, metrics="latency").cost.latency == 7
    assert map_workload(plain, metrics="latency").cost.latency == 1


STARTS = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 0, throughput: 8, {read}}}, {{name: write, energy: 0, throughput: 8, {write}}}]}}
  - !Memory {{name: GLB, size: inf, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf, {fill}}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: inf, {step}}}]}}
workload:
  rank_sizes: {{M: 4, K: 6}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m] = A[m, k] * B[k]"]
""" + nest_to_format("DRAM: A B Z / GLB: B / m 2 / GLB: Z / k 2 / GLB: A / k 1 / m 1 / Z @ MAC")


def starts(**startups):
    fields = dict.fromkeys(("read", "write", "fill", "step"), "energy_scale: 1")
    return loads(STARTS.format(**fields | {name: f"startup: {seconds}" for name, seconds in startups.items()}))


def test_each_tile_that_is_moved_takes_time_to_begin():
    # B comes in once, Z goes out and in twice, A comes in 2 * 3 times; 24 + 6 values of inputs and 4 of Z, 1 s each
    found = starts()
    moved = {key[2:4]: sum(n.values()) for key, n in execute(found).transfers.items() if key[1] == "DRAM"}
    assert moved == {("A", "read"): 6, ("B", "read"): 1, ("Z", "read"): 2, ("Z", "write"): 2}
    assert evaluate(found).latency == 34
    assert evaluate(starts(read=5)).latency == 34 + 5 * (6 + 1 + 2)
    assert evaluate(starts(write=5)).latency == 34 + 5 * 2
    assert evaluate(starts(read=5, write=3)).latency == 34 + 5 * 9 + 3 * 2
    # GLB takes no other time, so that it waits for 9 tiles alone
    assert evaluate(starts(fill=4)).latency == 9 * 4
    assert evaluate(starts(fill=3)).latency == 34


@pytest.mark.parametrize(
    ("startup", "said"),
    [
        ({"step": 3}, "'compute' of 'MAC' has no transfers of tiles"),
        ({"read": -1}, r"startup must be >= 0, found -1"),
        ({"read": "inf"}, "startup must be finite"),
    ],
)
def test_a_wrong_startup_is_refused_where_it_stands(startup, said):
    with pytest.raises(SpecError, match=said):
        evaluate(starts(**startup))


def test_an_unknown_skew_is_refused_where_it_stands():
    with pytest.raises(SpecError, match=r"skew: unknown skew 'each'\n.*did you mean"):
        evaluate(array(skew="each"))


def test_different_parts_of_a_tensor_in_one_buffer_are_refused_by_name():
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 0, throughput: 1, startup: 1},
             {name: write, energy: 0, throughput: 1}]}
  - !Memory {name: GLB, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 0, throughput: 1},
             {name: write, energy: 0, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
workload:
  rank_sizes: {P: 4, R: 3, H: 6}
  bits_per_value: {All: 8}
  einsums: ["Y[P: p] = A[H: p]", "Z[P: p] = A[H: p + r] * F[R: r]"]
mapping:
  nodes:
  - !Storage {tensors: [A, F, Y, Z], component: DRAM}
  - !Temporal {rank_variable: p, tile_shape: 2}
  - !Storage {tensors: [A], component: GLB}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Temporal {rank_variable: r, tile_shape: 1},
                       !Compute {einsum: Z, component: MAC}]}
"""
    with pytest.raises(NotSupportedError, match="different parts of 'A' in 'GLB'"):
        evaluate(loads(text))
