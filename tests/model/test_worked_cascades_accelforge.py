"""The worked numbers of AccelForge's counting rules for cascades, and where `exact` decides otherwise.

Rows of the tables: einsum tensor component read write E-read E-write bits-of-the-tile.
"""

import re
import textwrap

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.model.worked import (
    ARCH_A,
    accelforge,
    check_table,
    check_totals,
    latencies,
    leaks,
    usages,
)
from tests.nests import nest

from einmap import CapacityError, MappingError, evaluate, execute, loads
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.text import rewritten

GLB = {"GLB": 4096}

FUSED = workload("M: 4, K: 6, N: 8, P: 5", "X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]") + nest(
    "DRAM: A B D Z / GLB: B D / m 2 / GLB: X / "
    "(GLB: A / m 1 / n 1 / k 1 / X @ MAC | "
    "GLB: Z / m 1 / n 1 / p 1 / Z @ MAC)"
)


def test_a_fused_pair_of_matmuls():
    cost = accelforge(ARCH_A + FUSED)
    table = """
        X A DRAM 192  0    1920 0    0
        X A GLB  1536 192  3072 576  48
        X B DRAM 384  0    3840 0    0
        X B GLB  1536 384  3072 1152 384
        X X GLB  1280 1536 2560 4608 128
        Z D DRAM 320  0    3200 0    0
        Z D GLB  1280 320  2560 960  320
        Z X GLB  1280 0    2560 0    128
        Z Z DRAM 0    160  0    1920 0
        Z Z GLB  1280 1280 2560 3840 40
    """
    check_table(cost, table, {"X": 192, "Z": 160}, GLB)
    assert latencies(cost, "X") == {"DRAM": 72, "GLB": 404, "MAC": 192}
    assert latencies(cost, "Z") == {"DRAM": 60, "GLB": 340, "MAC": 160}
    assert leaks(cost, "X") == {"DRAM": 202, "GLB": 101, "MAC": 50.5}
    assert leaks(cost, "Z") == {"DRAM": 170, "GLB": 85, "MAC": 42.5}
    check_totals(cost, latency=744, dynamic=38752, leak=651)
    # B 384 + D 320 + X 128 + A 48 live together
    assert usages(cost) == {"GLB": 880 / 4096}


RESIDUAL = """
workload:
  n_instances: 2
  rank_sizes: {M: 4, N0: 6, N1: 8, N2: 8}
  bits_per_value: {All: 8}
  einsums:
  - "X1[m, n1] = X0[m, n0] * W0[n0, n1]"
  - "X2[m, n2] = X1[m, n1] * W1[n1, n2]"
  - "Y[M: m, NY: a] = X2[M: m, N2: a] * X1[M: m, N1: a]"
""" + nest(
    "DRAM: X0 W0 W1 Y / !Storage {tensors: [W0], component: GLB, persistent: true} / m 2 / GLB: X1 / "
    "(GLB: X0 / m 1 / n1 1 / n0 1 / X1 @ MAC | "
    "m 1 / GLB: X2 / GLB: W1 / n1 1 / n2 1 / X2 @ MAC | "
    "m 1 / GLB: X2 / a 1 / Y @ MAC)"
)


def test_three_einsums_with_a_residual_tensor_persistent_weights_and_two_instances():
    cost = accelforge(ARCH_A + RESIDUAL)
    # persistent W0 takes its 384 bits for each of the two instances
    table = """
        X1 W0 DRAM 768  0    7680  0     0
        X1 W0 GLB  3072 768  6144  2304  768
        X1 X0 DRAM 384  0    3840  0     0
        X1 X0 GLB  3072 384  6144  1152  48
        X1 X1 GLB  2560 3072 5120  9216  128
        X2 W1 DRAM 4096 0    40960 0     0
        X2 W1 GLB  4096 4096 8192  12288 8
        X2 X1 GLB  4096 0    8192  0     128
        X2 X2 GLB  3584 4096 7168  12288 64
        Y  X1 GLB  512  0    1024  0     128
        Y  X2 GLB  512  0    1024  0     64
        Y  Y  DRAM 0    512  0     6144  0
    """
    check_table(cost, table, {"X1": 384, "X2": 512, "Y": 64}, GLB)
    assert latencies(cost, "X1") == {"DRAM": 144, "GLB": 808, "MAC": 384}
    assert latencies(cost, "X2") == {"DRAM": 512, "GLB": 1248, "MAC": 512}
    assert latencies(cost, "Y") == {"DRAM": 64, "GLB": 64, "MAC": 64}
    assert leaks(cost, "X1") == {"DRAM": 404, "GLB": 202, "MAC": 101}
    assert leaks(cost, "X2") == {"DRAM": 624, "GLB": 312, "MAC": 156}
    assert leaks(cost, "Y") == {"DRAM": 32, "GLB": 16, "MAC": 8}
    check_totals(cost, latency=2120, dynamic=139840, leak=1855)
    # the fullest time: Einsum X2 with W0 768 + X1 128 + X2 64 + W1 8
    assert usages(cost) == {"GLB": 968 / 4096}


def test_under_exact_one_backing_node_in_each_branch_is_an_error_that_shows_the_merged_tree():
    spec = loads(ARCH_A + RESIDUAL)
    with pytest.raises(MappingError) as caught:
        evaluate(spec, semantics="exact")
    said = str(caught.value)
    command = re.search("--do '(.*?)'", said)[1]
    assert command == "merge nodes[4] 1 2"
    merged = rewritten(spec.mapping, spec.workload, command)
    assert textwrap.indent(pretty(merged), "    ") in said
    assert evaluate(spec, merged, semantics="exact").energy > 0
    done = execute(spec, mapping=merged)
    x1 = done.inputs["X0"] @ done.inputs["W0"]
    assert np.allclose(done.tensors["Y"], (x1 @ done.inputs["W1"]) * x1)


SHARED_BELOW = (
    workload("M: 8, N: 2", "X[m, n] = A[n] * B[m, n]", "Y[m, n] = X[m, n]", "Z[n] = Y[m, n]")
    + nest("""
    DRAM: A B Z / n 1 / GLB: X / (GLB: A B / m 1 / X @ MAC | m 4 / GLB: Y / (m 1 / Y @ MAC
    | GLB: Z / m 1 / Z @ MAC))
""")
    + machine("""
    DRAM inf 1/1 @inf {tensors: {keep: ~Intermediates, may_keep: All}}
    GLB SIZE 1/1 @inf {tensors: {keep: All}, bits_per_value: {Inputs: 16}} / MAC 1 @1
""")
)


def test_a_shared_tensor_has_its_first_users_bits_while_others_run():
    """X has 8 bits a value where it is written and 16 where it is read; Z does not use it, so Y needs the most."""
    bits_while_y_runs = 8 * 16 + 4 * 8
    cost = evaluate(loads(SHARED_BELOW.replace("SIZE", str(bits_while_y_runs))), semantics="accelforge")
    assert max(row.usage for row in cost.memory_usage if row.component == "GLB") == 1
    with pytest.raises(CapacityError, match="needs 160 bits while Einsum 'Y' runs"):
        evaluate(loads(SHARED_BELOW.replace("SIZE", "159")), semantics="accelforge")
