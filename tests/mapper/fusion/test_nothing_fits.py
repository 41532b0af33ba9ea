"""Einsums that have mappings by themselves, but none together."""

import pytest

import einmap

ARCH = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0, tensors: {{keep: ~Intermediates, may_keep: ~Intermediates}},
             actions: [{{name: read, energy: 10, throughput: 1}}, {{name: write, energy: 10, throughput: 1}}]}}
  - !Memory {{name: Buffer, size: {size}, leak_power: 0, area: 0, tensors: {{keep: Intermediates, may_keep: All}},
             actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  rank_sizes: {{M: 4, N: 4}}
  bits_per_value: {{All: 8}}
  einsums: ["X[m] = A[m] * B[m]", "Y[n] = C[n] * D[n]", "Z[n] = X[M: n] * Y[n]"]
"""


def test_intermediates_that_do_not_fit_together_are_named():
    # X is used last of all, and whole: Y is made while it waits; 4 values of one and 1 of the other at least
    with pytest.raises(einmap.NoMappingError, match=r"Buffer"):
        einmap.map_workload(einmap.loads(ARCH.format(size=8)))


def test_with_room_for_both_there_is_a_mapping():
    result = einmap.map_workload(einmap.loads(ARCH.format(size=64)), metrics="energy")
    assert result.optimal
    assert {row.component: row.usage for row in result.cost.memory_usage}["Buffer"] <= 1
