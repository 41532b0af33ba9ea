"""Fused Einsums that overlap, by hand: two matmuls of 4 x 4 x 4, 8 bits for each value, 128 bits for each tensor.

Machine and totals are those of AccelForge's repository after 1.0.467: 1664, 1600 and 1728.
"""

import random

import pytest
from tests.amounts import few_and_many
from tests.model.test_ways import TWO as WEIGHTS_OUTSIDE
from tests.random_specs.cases import valid_case
from tests.random_specs.features import overlap
from tests.random_specs.nodes import spec_of

from einmap import evaluate, loads, map_workload
from einmap.errors import NotSupportedError
from einmap.report.costs.rows import busy_rows

WEIGHTS_INSIDE = """
  - !Storage {tensors: [T0, T2, W0, W1], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [T1], component: Buffer}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Storage {tensors: [W0, T0], component: Buffer}, !Temporal {rank_variable: n0, tile_shape: 1},
                       !Temporal {rank_variable: n1, tile_shape: 1}, !Compute {einsum: T1, component: MAC}]}
    - !Nested {nodes: [!Storage {tensors: [W1, T2], component: Buffer}, !Temporal {rank_variable: n1, tile_shape: 1},
                       !Temporal {rank_variable: n2, tile_shape: 1}, !Compute {einsum: T2, component: MAC}]}
"""


def spec(mapping=WEIGHTS_OUTSIDE, read=1, ports="", overlap="true", extra="", leak=0):
    return loads(f"""
model: {{overlap_einsums: {overlap}}}
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: {leak}, area: 0, {ports}
             actions: [{{name: read, energy: 1, throughput: {read}}}, {{name: write, energy: 1, throughput: 0.1}}]}}
  - !Memory {{name: Buffer, size: inf, leak_power: 0, area: 0, {extra}
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 0.2}}]}}
workload:
  rank_sizes: {{M: 4, N0: 4, N1: 4, N2: 4}}
  bits_per_value: {{All: 8}}
  einsums: ["T1[m, n1] = T0[m, n0] * W0[n0, n1]", "T2[m, n2] = T1[m, n1] * W1[n1, n2]"]
mapping:
  nodes:{mapping}""")


def test_a_memory_that_two_einsums_use_is_busy_for_both():
    # the first computes for 64 / 0.2 = 320 s and reads for 256, the second reads for 128 and writes for 1280
    assert evaluate(spec()).latency == max(320 + 1280, 256 + 128 + 1280) == 1664
    assert evaluate(spec()).latency_by_einsum == {"T1": 320, "T2": 1408}
    assert evaluate(spec(overlap="false")).latency == 320 + 1408 == 1728


def test_what_overlapping_einsums_are_busy_for_together_limits_them():
    # computing limits the first one by itself, and hides behind what main memory does for both
    assert evaluate(spec()).limited_by == {"T1": ("MAC",), "T2": ("Main",)}
    assert evaluate(spec()).together == ("Main",)
    limits = {row.component: row.limits for row in busy_rows(evaluate(spec()))}
    assert limits == {"Main": 1, "Buffer": 0, "MAC": 0}
    assert evaluate(spec(ports="separate_read_write_ports: true,")).together == ("Main", "MAC")
    assert evaluate(spec(overlap="false")).together == ()


def test_ports_of_its_own_let_writes_overlap_with_reads():
    # what the second writes belongs to its branch, 1280 s; reads of both, 384 s, hide beside it
    assert evaluate(spec(ports="separate_read_write_ports: true,")).latency == 320 + 1280


def test_what_is_held_inside_of_a_branch_moves_while_it_runs():
    # T0 once and W0 four times for the first, (128 + 512) / 4 = 160 s; the second reads W1 for 128 s, too
    assert evaluate(spec(WEIGHTS_INSIDE, read=4)).latency == max(320, 160) + (128 + 1280)
    assert evaluate(spec(WEIGHTS_INSIDE, read=4, overlap="false")).latency == 320 + 1408


def test_einsums_that_share_no_loop_do_not_overlap():
    whole = WEIGHTS_OUTSIDE.replace("  - !Temporal {rank_variable: m, tile_shape: 1}\n", "", 1).replace(
        "[!Temporal {rank_variable: n", "[!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n"
    )
    assert evaluate(spec(whole)).latency == evaluate(spec(whole, overlap="false")).latency == 1728


@few_and_many(
    "seeds, least", ((29, 133, 194, 230, *range(4)), 1), ((29, 133, 194, 230, *range(20)), 3), part="simulator"
)
def test_overlap_never_takes_longer_and_no_component_works_longer_than_it_takes(seeds, least):
    shorter = 0
    for seed in seeds:
        written = valid_case(random.Random(seed))[0].to_dict()
        overlap(None, written)
        together = evaluate(spec_of(written))
        written["model"]["overlap_einsums"] = False
        one_by_one = evaluate(spec_of(written))
        busy = {}
        for row in one_by_one.latencies:
            busy[row.component] = busy.get(row.component, 0.0) + row.latency
        assert together.latencies == one_by_one.latencies
        assert max(busy.values()) * (1 - 1e-9) <= together.latency <= one_by_one.latency * (1 + 1e-9), seed
        shorter += together.latency < one_by_one.latency * (1 - 1e-9)
    assert shorter >= least


def test_what_cannot_overlap_yet_is_refused_by_name():
    with pytest.raises(NotSupportedError, match="overlap_einsums with 'Main', which leaks"):
        evaluate(spec(leak=1))
    with pytest.raises(NotSupportedError, match="overlap_einsums with 'Buffer', which takes turns"):
        evaluate(spec(extra="buffering: single,"))
    with pytest.raises(NotSupportedError, match="the preset 'accelforge' runs Einsums one after the other"):
        evaluate(spec(), semantics="accelforge")
    with pytest.raises(NotSupportedError, match="'Main', which leaks"):
        map_workload(spec(leak=1))


@pytest.mark.parametrize(("ports", "latency"), [("", 1664), ("separate_read_write_ports: true,", 1280)])
def test_the_mapper_finds_the_overlap_of_the_worked_example(ports, latency):
    # with ports of their own, loads hide beside what the second one writes, 1280 s, wherever the first one is
    result = map_workload(spec(ports=ports), metrics="latency")
    assert result.cost.latency == evaluate(result.spec, result.mapping).latency == latency
    assert result.optimal
