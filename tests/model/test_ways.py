"""How long one value is on its way, by hand: matmuls of 4 x 4 x 4, 8 bits for each value, 64 operations of 1 s.

Machine and totals are those of AccelForge's repository: 363 for one matmul, 804 for two fused ones.
"""

import pytest

from einmap import evaluate, loads
from einmap.errors import NotSupportedError

TWO = """
  - !Storage {tensors: [T0, T2, W0, W1], component: Main}
  - !Storage {tensors: [W0, W1], component: Buffer}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [T0, T2], component: Buffer}
  - !Storage {tensors: [T1], component: Buffer}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: n0, tile_shape: 1}, !Temporal {rank_variable: n1, tile_shape: 1},
                       !Compute {einsum: T1, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: n1, tile_shape: 1}, !Temporal {rank_variable: n2, tile_shape: 1},
                       !Compute {einsum: T2, component: MAC}]}
"""
ONE = """
  - !Storage {tensors: [T0, W0, T1], component: Main}
  - !Storage {tensors: [W0], component: Buffer}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [T0, T1], component: Buffer}
  - !Temporal {rank_variable: n0, tile_shape: 1}
  - !Temporal {rank_variable: n1, tile_shape: 1}
  - !Compute {einsum: T1, component: MAC}
"""
WAYS = (100, 200, 10, 20, 3)


def spec(mapping, ways=WAYS, throughput=1, extra="", leak=0):
    main_read, main_write, read, write, compute = ways
    einsums = ["T1[m, n1] = T0[m, n0] * W0[n0, n1]", "T2[m, n2] = T1[m, n1] * W1[n1, n2]"]
    return loads(f"""
{extra}
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: {leak}, area: 0, actions: [
             {{name: read, energy: 1, throughput: inf, pipeline_latency: {main_read}}},
             {{name: write, energy: 1, throughput: inf, pipeline_latency: {main_write}}}]}}
  - !Memory {{name: Buffer, size: inf, leak_power: 0, area: 0, actions: [
             {{name: read, energy: 1, throughput: inf, pipeline_latency: {read}}},
             {{name: write, energy: 1, throughput: inf, pipeline_latency: {write}}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [
              {{name: compute, energy: 1, throughput: {throughput}, pipeline_latency: {compute}}}]}}
workload:
  rank_sizes: {{M: 4, N0: 4, N1: 4, N2: 4}}
  bits_per_value: {{All: 8}}
  einsums: {einsums[: 1 + ("T2" in mapping)]}
mapping:
  nodes:{mapping}""")


def test_an_einsum_takes_as_long_as_one_value_needs_through_all_memories():
    assert evaluate(spec(ONE, (0, 0, 0, 0, 0))).latency == 64
    # 100 + 20 + 10 to the compute, 3 there, 20 + 10 through the buffer, 200 into main memory
    assert evaluate(spec(ONE)).latency == 130 + 3 + 30 + 200 == 363
    # what takes longer hides it
    assert evaluate(spec(ONE, throughput=0.1)).latency == 640


def test_fused_einsums_pay_for_the_ways_below_their_loops_in_each_turn():
    cost = evaluate(spec(TWO))
    # in each of 4 turns both go through the buffer, 30 + 3 + 30; main memory is read ahead and written behind once
    assert cost.latency == 2 * 4 * (30 + 3 + 30) + 100 + 200 == 804
    assert cost.latency_by_einsum == {"T1": 252 + 100, "T2": 252 + 200}


def test_without_shared_loops_each_einsum_pays_for_its_own_ways():
    whole = TWO.replace("  - !Temporal {rank_variable: m, tile_shape: 1}\n", "", 1).replace(
        "[!Temporal {rank_variable: n", "[!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n"
    )
    # T1 stays in the buffer: it is written to and read from it, 30, and read by the other one, 10
    assert evaluate(spec(whole)).latency == (130 + 3 + 30) + (130 + 3 + 30 + 200)


def test_leakage_counts_while_einsums_wait():
    energy = {leak: evaluate(spec(TWO, leak=leak)).energy for leak in (0, 1)}
    assert energy[1] - energy[0] == pytest.approx(804)


def test_ways_and_overlap_are_refused_together():
    with pytest.raises(NotSupportedError, match="'Main', which has a pipeline_latency"):
        evaluate(spec(TWO, extra="model: {overlap_einsums: true}"))
