"""Ports and banks of memories: how long reads and writes take, counted by hand and port by port."""

import math
import random
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nests import nest_to_format

from einmap import SpecError, evaluate, execute, loads
from einmap.arch.ports import Banks, Ports

FILE = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, leak_power: 0, area: 0, {ports}
             actions: [{{name: read, energy: 10, throughput: 4}}, {{name: write, energy: 12, throughput: 2}}]}}
  - !Memory {{name: REG, size: 64, leak_power: 0, area: 0,
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: inf}}]}}
workload:
  rank_sizes: {{M: 4, K: 3}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m] = A[m, k] * B[k]"]
""" + nest_to_format("DRAM: A B Z / m 1 / REG: A B Z / k 1 / Z @ MAC")


def latency(ports):
    found = loads(FILE.format(ports=ports))
    calls = execute(found).calls
    # A 12 values and B 12 are read, Z 4 written, 8 bits each
    assert (calls["Z", "DRAM", "read"], calls["Z", "DRAM", "write"]) == (192, 32)
    return evaluate(found).latency


@pytest.mark.parametrize(
    ("ports", "seconds"),
    [
        # 192 bits read in 48 s, 32 bits written in 16 s
        ("", 48 + 16),
        ("ports: {read_write: 1},", 48 + 16),
        ("ports: {read: 1, write: 1},", 48),
        ("separate_read_write_ports: true,", 48),
        ("ports: {read_write: 2},", (48 + 16) / 2),
        ("ports: {read: 1, read_write: 1},", (48 + 16) / 2),
        ("ports: {read: 3, write: 1},", 16),
        ("ports: {write: 1, read_write: 1},", 48),
        ("ports: {read_write: 4}, banks: {number: 2},", (48 + 16) / 2),
        # 2 accesses on 2 random banks: 1.5 banks are busy on average
        ("ports: {read_write: 2}, banks: {number: 2, conflicts: random},", (48 + 16) / 1.5),
        ("banks: {number: 2, conflicts: random},", 48 + 16),
    ],
)
def test_reads_and_writes_share_the_ports_that_serve_both(ports, seconds):
    assert latency(ports) == pytest.approx(seconds, rel=1e-12)


@cache
def least_cycles(reads, writes, read, write, either):
    """The fewest cycles of all ways to serve accesses one by one, one for each port and cycle."""
    if not reads and not writes:
        return 0
    ways = set()
    for extra in range(either + 1):
        left = max(0, reads - read - extra), max(0, writes - write - (either - extra))
        if left != (reads, writes):
            ways.add(left)
    return 1 + min(least_cycles(*left, read, write, either) for left in ways)


def test_the_time_is_that_of_the_best_way_to_serve_the_accesses_one_by_one():
    for read, write, either in product(range(3), repeat=3):
        if read + either and write + either:
            ports = Ports(read, write, either)
            for reads, writes in product(range(13), repeat=2):
                assert math.ceil(ports.seconds(reads, writes) - 1e-9) == least_cycles(
                    reads, writes, read, write, either
                )


def test_random_banks_serve_as_many_accesses_as_trials_say():
    rng = random.Random(0)
    for accesses, banks in ((2, 2), (4, 3), (3, 8)):
        trials = [len({rng.randrange(banks) for _ in range(accesses)}) for _ in range(20_000)]
        assert Banks(banks, "random").served(accesses) == pytest.approx(sum(trials) / len(trials), rel=0.02)


amounts = st.floats(0, 1e6)


@given(st.tuples(*[st.integers(0, 4)] * 3), st.integers(1, 9), st.sampled_from(["none", "random"]), amounts, amounts)
def test_more_ports_or_banks_never_take_longer(counts, number, conflicts, reads, writes):
    read, write, either = counts
    if not (read + either and write + either):
        return
    before = Ports(read, write, either, Banks(number, conflicts)).seconds(reads, writes)
    for more in ((read + 1, write, either), (read, write + 1, either), (read, write, either + 1)):
        assert Ports(*more, Banks(number, conflicts)).seconds(reads, writes) <= before * (1 + 1e-12)
    assert Ports(*counts, Banks(number + 1, conflicts)).seconds(reads, writes) <= before * (1 + 1e-12)
    assert Ports(*counts).seconds(reads, writes) <= before * (1 + 1e-12)


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ("ports: {read: 1},", r'"DRAM".ports: no port of \'DRAM\' serves writes'),
        ("ports: {write: 1},", "serves reads"),
        ("ports: {read: 1, write: inf},", r"ports.write must be"),
        ("ports: {read: 1, write: 0.5},", r"ports.write must be an integer"),
        ("ports: {reads: 1},", "unknown field 'reads'"),
        ("banks: {number: 0},", r"banks.number must be >= 1, found 0"),
        ("banks: {number: 2, conflicts: randm},", "unknown rule of conflicts 'randm'"),
        ("banks: {number: 1e30},", "banks.number must be at most 1,000,000"),
        ("ports: {read_write: 1}, separate_read_write_ports: true,", "both say which ports"),
        ("ports: {read_write: 1}, total_latency: read_latency,", "ports and total_latency both say how long"),
    ],
)
def test_wrong_ports_are_refused_where_they_stand(ports, said):
    with pytest.raises(SpecError, match=said) as problem:
        evaluate(loads(FILE.format(ports=ports)))
    assert "<text>:4" in str(problem.value) or "<text>:4" in repr(problem.value.at)
