"""What nests look like, by hand-computed examples: places of moves, sizes, names."""

import re

import pytest
from tests.emit.running import needs_compiler, problems, problems_in_c, run_python

import einmap
from einmap.errors import NotSupportedError

M, N, K = 12, 8, 5
M1, N1 = 3, 2
"""Tile shapes; `partitioning` calls the counts of tiles M2 and N2."""


def memory(name, size="inf", **more):
    return {"type": "Memory", "name": name, "size": size, "component_class": "Dummy", **more}


def storage(component, *tensors):
    return {"type": "Storage", "component": component, "tensors": list(tensors)}


def loop(variable, shape, **more):
    return {"type": "Temporal", "rank_variable": variable, "tile_shape": shape, **more}


def lanes(variable, shape, name="X", component="Array"):
    return {"type": "Spatial", "rank_variable": variable, "tile_shape": shape, "component": component, "name": name}


def compute(einsum="Z"):
    return {"type": "Compute", "einsum": einsum, "component": "MAC"}


def spec_of(einsums, sizes, nodes, memories=None, **workload):
    arch = [*(memories or [memory("DRAM"), memory("GLB")]), {"type": "Compute", "name": "MAC", "component_class": "Dummy"}]
    return einmap.Spec.from_dict(
        {
            "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums, **workload},
            "arch": {"nodes": arch},
            "mapping": {"nodes": nodes},
        }
    )


def matmul(*nodes, memories=None, **sizes):
    return spec_of(["Z[m,n] = A[m,k] * B[k,n]"], {"M": M, "N": N, "K": K, **sizes}, [*nodes], memories)


OUTER = {"m": loop("m", M1), "n": loop("n", N1)}
INNER = [loop("m", 1), loop("n", 1), loop("k", 1), compute()]


@pytest.mark.parametrize(
    ("first", "second", "above", "below", "a", "b"),
    [("m", "n", "A", "B", M * K, (M // M1) * N * K), ("n", "m", "B", "A", (N // N1) * M * K, N * K)],
)
def test_the_outer_of_two_loops_decides_which_operand_moves_once(first, second, above, below, a, b):
    spec = matmul(
        storage("DRAM", "A", "B", "Z"), OUTER[first], storage("GLB", above), OUTER[second], storage("GLB", below, "Z"),
        *INNER,
    )  # fmt: skip
    text = einmap.emit(spec, "python")
    assert problems(text, spec) == []
    _, moved = run_python(text, spec)
    assert (moved["DRAM", "A", "read"], moved["DRAM", "B", "read"]) == (a, b)
    assert moved["DRAM", "Z", "write"] == M * N


def test_a_lecture_would_show_it_so():
    spec = matmul(
        storage("DRAM", "A", "B", "Z"), OUTER["m"], storage("GLB", "A"), OUTER["n"], storage("GLB", "B", "Z"), *INNER
    )
    assert einmap.emit(spec, "pseudo").split("\n\n", 2)[2] == (
        "M = M1*M0 = 4*3 = 12\n"
        "K = K0 = 5\n"
        "N = N1*N0 = 4*2 = 8\n"
        "\n"
        "tensor A[M, K]      # DRAM: 60 values (480 bits), A read by Z\n"
        "buffer GLB_A[M0, K]  # GLB: 15 values (120 bits), A read by Z\n"
    ).replace("tensor A[M, K]      #", "tensor A[M, K]       #") + (
        "tensor B[K, N]       # DRAM: 40 values (320 bits), B read by Z\n"
        "buffer GLB_B[K, N0]  # GLB: 10 values (80 bits), B read by Z\n"
        "tensor Z[M, N]       # DRAM: 96 values (768 bits), Z written by Z\n"
        "buffer GLB_Z[M0, N0]  # GLB: 6 values (48 bits), Z written by Z\n"
    )
