"""The worked examples that show where the two presets differ, both presets side by side.

Counts are in bits, 8 for each value.
"""

import pytest
from tests.machines import machine, workload
from tests.model.worked import counts, latencies, usages
from tests.nests import nest

from einmap import evaluate, loads

ARCH = machine("DRAM inf 10/12 @8 / GLB 4096 2/3 @16 / Array: X 2 / REG 256 1/1 @8 / MAC 1 @1")
W1 = workload("M: 2, K: 8, N: 3", "Z[m, n] = A[m, k] * B[k, n]") + nest(
    "DRAM: A B Z / GLB: A Z / k 4 / k 2 @ Array.X / REG: Z / m 1 / n 1 / k 1 / Z @ MAC"
)
REDUCED = ARCH
UNMERGED = ARCH.replace("fanout: 2", "fanout: 2, may_reuse: Nothing")
NO_SKIP = ARCH.replace("size: 4096", "size: 4096, skip_initial_output_write: false")


def pairs(cost, einsum, tensor):
    """(reads, writes) of one tensor in each memory."""
    found = counts(cost)
    return {
        memory: tuple(found.get((einsum, tensor, memory, action), 0) for action in ("read", "write"))
        for memory in ("DRAM", "GLB", "REG")
    }


@pytest.mark.parametrize(
    ("arch", "semantics", "dram", "glb", "reg", "times", "energy", "reg_bits"),
    [
        pytest.param(REDUCED, "exact", (0, 48), (96, 96), (432, 432), (70, 44, 60, 24), 8240, 48, id="reduced-exact"),
        pytest.param(
            REDUCED, "accelforge", (0, 48), (96, 96), (480, 480), (70, 44, 60, 24), 8336, 8, id="reduced-accelforge"
        ),
        pytest.param(
            UNMERGED, "exact", (0, 48), (192, 192), (528, 528), (70, 56, 72, 24), 8912, 48, id="unmerged-exact"
        ),
        pytest.param(
            UNMERGED, "accelforge", (0, 48), (144, 192), (480, 480), (70, 53, 60, 24), 8720, 8, id="unmerged-accelforge"
        ),
        pytest.param(
            NO_SKIP, "exact", (48, 48), (144, 144), (432, 480), (76, 50, 66, 24), 9008, 48, id="no skip-exact"
        ),
        pytest.param(
            NO_SKIP, "accelforge", (48, 48), (144, 144), (480, 480), (76, 50, 60, 24), 9056, 8, id="no skip-accelforge"
        ),
    ],
)
def test_W1_spatial_reduction_and_first_touches(arch, semantics, dram, glb, reg, times, energy, reg_bits):
    cost = evaluate(loads(arch + W1), semantics=semantics)
    assert pairs(cost, "Z", "Z") == {"DRAM": dram, "GLB": glb, "REG": reg}
    assert latencies(cost, "Z") == dict(zip(("DRAM", "GLB", "REG", "MAC"), times, strict=True))
    assert cost.latency == max(times)
    assert cost.energy == energy
    assert usages(cost)["REG"] * 256 == reg_bits


W2 = workload("M: 4, K: 3, N: 2, P: 5", "X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]") + nest(
    "DRAM: A B D X Z / GLB: B D / m 2 / GLB: X / (m 1 / n 1 / k 1 / X @ MAC | m 1 / p 1 / n 1 / Z @ MAC)"
)


@pytest.mark.parametrize(
    ("semantics", "in_z", "times", "energy", "glb_bits"),
    [
        ("exact", {"DRAM": (0, 0), "GLB": (320, 0), "REG": (0, 0)}, (39, 70), 12480, 160),
        ("accelforge", {"DRAM": (64, 0), "GLB": (320, 64), "REG": (0, 0)}, (39, 78), 13312, 96),
    ],
)
def test_W2_a_buffer_above_a_split(semantics, in_z, times, energy, glb_bits):
    cost = evaluate(loads(ARCH + W2), semantics=semantics)
    assert pairs(cost, "X", "X") == {"DRAM": (0, 64), "GLB": (192, 192), "REG": (0, 0)}
    assert pairs(cost, "Z", "X") == in_z
    assert cost.latency_by_einsum == dict(zip(("X", "Z"), times, strict=True))
    assert cost.latency == sum(times)
    assert cost.energy == energy
    assert usages(cost) == {"GLB": glb_bits / 4096}


W3 = workload("P: 4, R: 3", "O[H: p + r] = I[p] * F[r]") + nest("DRAM: I F O / p 2 / GLB: O / r 1 / p 1 / O @ MAC")


@pytest.mark.parametrize(
    ("semantics", "dram", "glb", "times", "energy", "glb_bits"),
    [
        ("exact", (16, 64), (112, 112), (34, 14, 12), 3420, 32),
        ("accelforge", (32, 64), (152, 128), (36, 17.5, 12), 3708, 16),
    ],
)
def test_W3_outputs_whose_tiles_overlap(semantics, dram, glb, times, energy, glb_bits):
    cost = evaluate(loads(ARCH + W3), semantics=semantics)
    assert pairs(cost, "O", "O") == {"DRAM": dram, "GLB": glb, "REG": (0, 0)}
    assert latencies(cost, "O") == dict(zip(("DRAM", "GLB", "MAC"), times, strict=True))
    assert cost.energy == energy
    assert usages(cost) == {"GLB": glb_bits / 4096}


def test_exact_is_the_default():
    assert evaluate(loads(ARCH + W1)).semantics == "exact"
    assert evaluate(loads(ARCH + W1 + "model: {semantics: accelforge}")).semantics == "accelforge"
