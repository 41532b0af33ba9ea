"""What no tile shapes make fit is not searched: a register of one value, of which the machine does not say whose."""

import pytest

import einmap

MACHINE = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions: [{name: read, energy: 10, throughput: 1}, {name: write, energy: 10, throughput: 1}]
  - !Memory
    name: Buffer
    size: 64
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 4}, {name: write, energy: 1, throughput: 4}]
  - !Container
    name: Array
    spatial: [{name: row, fanout: 2, may_reuse: Outputs}]
  - !Memory
    name: Register
    size: 8
    leak_power: 0
    actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 4, K: 2, N: 2}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


def mapped(size, rows=4, **options):
    spec = einmap.loads(MACHINE).set("arch.nodes.Register.size", size).set("workload.rank_sizes.M", rows)
    return einmap.map_workload(spec, metrics="energy_delay_product", **options)


@pytest.mark.parametrize(("size", "tensors"), [(8, 1), (16, 2), (24, 3)])
def test_memories_hold_no_more_tensors_than_they_have_room_for_a_value_of_each(size, tensors):
    # the register holds up to so many of three tensors, in any order; DRAM holds all, and the buffer some
    found = mapped(size)
    wide = mapped(1024)
    assert found.optimal
    assert (found.stats.templates < wide.stats.templates) == (tensors < 3)
    assert found.cost.energy * found.cost.latency >= wide.cost.energy * wide.cost.latency


def test_the_best_mapping_with_a_register_of_one_value_is_that_of_brute_force():
    every, found = mapped(8, 2, brute_force=True), mapped(8, 2)
    assert every.optimal
    assert found.cost.energy == pytest.approx(every.cost.energy)
    assert found.cost.latency == pytest.approx(every.cost.latency)
