"""Counts of sizes that no machine has are right: nothing overflows."""

import pytest
from tests.nests import nest_to_format

import einmap

CHAIN = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0, actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Memory {{name: L1, size: inf, leak_power: 0, area: 0, actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  rank_sizes: {{N: 4, B: {n}, G: {n}}}
  bits_per_value: {{All: 1}}
  einsums: ["D[q,n,b,g] = X[P: q, n, b, g]", "E[q,n,b,g] = X[P: q+4, n, b, g] * D[q,n,b,g]"]
  iteration_space_shape: {{q: 0 <= q < 8}}
""" + nest_to_format("Main: X D E / n 1 / L1: X / (q 1 / b 1 / g 1 / D @ MAC | q 1 / b 1 / g 1 / E @ MAC)")


def counts(n):
    return einmap.evaluate(einmap.loads(CHAIN.format(n=n))).count_by("component", "tensor", "action")


def test_counts_grow_with_the_sizes():
    small, large = counts(4), counts(4 * 2**30)
    assert small["L1", "X", "write"] == 4 * 12 * 4 * 4
    assert {key: value * 2**60 for key, value in small.items()} == {key: float(value) for key, value in large.items()}


def test_what_does_not_fit_is_told_in_numbers_that_are_right():
    spec = einmap.loads(CHAIN.format(n="2**40")).set("arch.nodes[1].size", 1000)
    with pytest.raises(einmap.CapacityError) as caught:
        einmap.evaluate(spec)
    assert caught.value.needed_bits == 12 * 2**80
