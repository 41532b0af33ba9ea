"""The worked numbers of AccelForge's counting rules, and where both presets decide otherwise, ours.

Rows of the tables: einsum tensor component read write E-read E-write bits-of-the-tile.
"""

import pytest
from tests.machines import workload
from tests.model.worked import (
    ARCH_A,
    accelforge,
    check_table,
    check_totals,
    counts,
    energies,
    latencies,
    leaks,
    spatial_usages,
    tensor_usages,
    usages,
)
from tests.nests import nest

from einmap import evaluate, loads

GLB = {"GLB": 4096}


MATMUL = workload("M: 4, K: 6, N: 8", "Z[m, n] = A[m, k] * B[k, n]") + nest(
    "DRAM: A B Z / m 2 / GLB: A / k 3 / GLB: B Z / n 1 / m 1 / k 1 / Z @ MAC"
)


def test_a_matmul_through_one_buffer():
    cost = accelforge(ARCH_A + MATMUL)
    table = """
        Z A DRAM 192  0    1920 0    0
        Z A GLB  1536 192  3072 576  48
        Z B DRAM 768  0    7680 0    0
        Z B GLB  1536 768  3072 2304 192
        Z Z DRAM 256  512  2560 6144 0
        Z Z GLB  1792 1792 3584 5376 8
    """
    check_table(cost, table, {"Z": 192}, GLB)
    assert latencies(cost, "Z") == {"DRAM": 216, "GLB": 476, "MAC": 192}
    assert leaks(cost) == {"DRAM": 238, "GLB": 119, "MAC": 59.5}
    check_totals(cost, latency=476, dynamic=36480, leak=416.5)
    assert usages(cost) == {"GLB": 0.060546875}


def test_the_order_of_tensors_in_a_storage_node_decides_what_is_lowered():
    listed = accelforge(ARCH_A + MATMUL)
    swapped = accelforge(ARCH_A + MATMUL.replace("[B, Z], component: GLB", "[Z, B], component: GLB"))
    assert counts(swapped) == counts(listed)
    bits = {key[1]: usage * 4096 for key, usage in tensor_usages(swapped).items()}
    assert bits == {"A": 48, "Z": 128, "B": 24}
    assert usages(swapped) == {"GLB": 0.048828125}


SPATIAL = (
    """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0,
             actions: [{name: read, energy: 10, throughput: 8}, {name: write, energy: 12, throughput: 8}]}
  - !Memory {name: GLB, size: 4096, leak_power: 1, area: 16,
             actions: [{name: read, energy: 2, throughput: 16}, {name: write, energy: 3, throughput: 16}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 8, power_gateable: true}, {name: Y, fanout: 2}]}
  - !Memory {name: REG, size: 256, leak_power: 0.0625, area: 1,
             total_latency: "max(a.n_calls / a.throughput for a in actions)",
             actions: [{name: read, energy: 0.5, throughput: 8}, {name: write, energy: 0.5, throughput: 8}]}
  - !Compute {name: MAC, leak_power: 0.03125, area: 2, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
    + workload("M: 4, K: 4, N: 8", "Z[m, n] = A[m, k] * B[k, n]")
    + nest("DRAM: A B Z / GLB: A B Z / m 2 / n 2 @ Array.X / k 2 @ Array.Y / REG: A B Z / n 1 / m 1 / k 1 / Z @ MAC")
)
ARRAY = "  - !Container {name: Array, spatial: [{name: X, fanout: 8, power_gateable: true}, {name: Y, fanout: 2}]}\n"
TWO_MEMORIES = {"GLB": 4096, "REG": 256}


def test_multicast_and_spatial_reduction():
    cost = accelforge(SPATIAL)
    table = """
        Z A DRAM 128  0    1280 0    0
        Z A GLB  128  128  256  384  128
        Z A REG  1024 512  512  256  32
        Z B DRAM 256  0    2560 0    0
        Z B GLB  512  256  1024 768  256
        Z B REG  1024 512  512  256  32
        Z Z DRAM 0    256  0    3072 0
        Z Z GLB  256  256  512  768  128
        Z Z REG  1024 1024 512  512  8
    """
    check_table(cost, table, {"Z": 128}, TWO_MEMORIES)
    # REG has separate ports: one instance reads 3*128 bits and writes 64 + 64 + 128
    assert latencies(cost, "Z") == {"DRAM": 80, "GLB": 96, "REG": 48, "MAC": 16}
    # half of X is used, which gates half of what stands behind it: REG 0.0625 * 16 instances * 96 s / 2
    assert leaks(cost) == {"GLB": 96, "REG": 48, "MAC": 24}
    check_totals(cost, latency=96, dynamic=13312, leak=96 + 48 + 24)
    assert usages(cost) == {"REG": 0.28125, "GLB": 0.125}
    assert spatial_usages(cost) == {"Array.X": 0.5, "Array.Y": 1}
    assert cost.area == 64


def test_without_reuse_every_instance_is_served_by_itself():
    cost = accelforge(
        SPATIAL.replace("power_gateable: true", "power_gateable: true, may_reuse: Nothing").replace(
            "{name: Y, fanout: 2}", "{name: Y, fanout: 2, may_reuse: Nothing}"
        )
    )
    table = """
        Z A DRAM 128  0    1280 0    0
        Z A GLB  512  128  1024 384  128
        Z A REG  1024 512  512  256  32
        Z B DRAM 256  0    2560 0    0
        Z B GLB  512  256  1024 768  256
        Z B REG  1024 512  512  256  32
        Z Z DRAM 0    256  0    3072 0
        Z Z GLB  256  512  512  1536 128
        Z Z REG  1024 1024 512  512  8
    """
    check_table(cost, table, {"Z": 128}, TWO_MEMORIES)
    assert latencies(cost, "Z") == {"DRAM": 80, "GLB": 136, "REG": 48, "MAC": 16}
    assert leaks(cost) == {"GLB": 136, "REG": 68, "MAC": 34}
    check_totals(cost, latency=136, dynamic=14848, leak=136 + 68 + 34)


def test_instances_multiply_area_and_leakage():
    rows = {row.component: row for row in accelforge(SPATIAL).components}
    assert {name: row.instances for name, row in rows.items()} == {"DRAM": 1, "GLB": 1, "REG": 16, "MAC": 16}
    assert {name: row.total_area for name, row in rows.items()} == {"DRAM": 0, "GLB": 16, "REG": 16, "MAC": 32}
    assert rows["REG"].total_leak_power == 1


def test_a_fanout_of_the_memory_itself_counts_for_its_own_area_and_leakage():
    own = SPATIAL.replace(ARRAY, "").replace("component: Array", "component: REG")
    own = own.replace("{name: REG,", "{name: REG, spatial: [{name: X, fanout: 8}, {name: Y, fanout: 2}],")
    rows = {row.component: row for row in accelforge(own).components}
    assert rows["REG"].total_area == 16
    assert rows["REG"].total_leak_power == 1
    assert rows["MAC"].total_area == 32


CONV = """
workload:
  rank_sizes: {P: 8, R: 3, C: 2, M: 4}
  bits_per_value: {All: 8}
  einsums:
  - name: Conv
    tensor_accesses:
    - {name: I, projection: {C: c, H: p + r}}
    - {name: W, projection: [m, c, r]}
    - {name: O, projection: [m, p], output: true}
""" + nest("DRAM: I W O / c 1 / GLB: I / p 2 / GLB: W O / r 1 / m 1 / p 1 / Conv @ MAC")
BELOW_P = CONV.replace("  - !Storage {tensors: [I], component: GLB}\n", "").replace("[W, O]", "[I, W, O]")
CONV_ROWS = """
    Conv O DRAM 256  512  2560 6144 0
    Conv O GLB  1792 1792 3584 5376 64
    Conv W DRAM 768  0    7680 0    0
    Conv W GLB  1536 768  3072 2304 96
"""


@pytest.mark.parametrize(
    ("text", "rows", "times", "totals", "usage"),
    [
        # I above p: its 10 values for each c once, 20 in all; lowered to the window of 2 + 3 - 1 values
        pytest.param(
            CONV,
            "Conv I DRAM 160 0 1600 0 0\n Conv I GLB 1536 160 3072 480 32",
            {"DRAM": 212, "GLB": 474, "MAC": 192},
            {"latency": 474, "dynamic": 36064, "leak": 414.75},
            0.046875,
            id="held above p",
        ),
        # I below p: the window of 4 values for 4 tiles of p and 2 of c, the halo is fetched again
        pytest.param(
            BELOW_P,
            "Conv I DRAM 256 0 2560 0 0\n Conv I GLB 1536 256 3072 768 32",
            {"DRAM": 224, "GLB": 480, "MAC": 192},
            {"latency": 480, "dynamic": 37312, "leak": 420},
            0.046875,
            id="held below p",
        ),
        # stride 2: 2*7 + 2 + 1 = 17 values, window 2*1 + 2 + 1 = 5
        pytest.param(
            CONV.replace("p + r", "2*p + r"),
            "Conv I DRAM 272 0 2720 0 0\n Conv I GLB 1536 272 3072 816 40",
            {"DRAM": 226, "GLB": 481, "MAC": 192},
            {"latency": 481, "dynamic": 37520, "leak": 420.875},
            0.048828125,
            id="strided, held above p",
        ),
        pytest.param(
            BELOW_P.replace("p + r", "2*p + r"),
            "Conv I DRAM 320 0 3200 0 0\n Conv I GLB 1536 320 3072 960 40",
            {"DRAM": 232, "GLB": 484, "MAC": 192},
            {"latency": 484, "dynamic": 38144, "leak": 423.5},
            0.048828125,
            id="strided, held below p",
        ),
    ],
)
def test_a_convolution_with_halo(text, rows, times, totals, usage):
    cost = accelforge(ARCH_A + text)
    check_table(cost, CONV_ROWS.strip() + "\n" + rows, {"Conv": 192}, GLB)
    assert latencies(cost, "Conv") == times
    check_totals(cost, **totals)
    assert usages(cost) == {"GLB": usage}


ELEMENTWISE = workload("M: 6, N: 8", "Z[m, n] = A[m, n]", bits="A: 8, Z: 16") + nest(
    "DRAM: A Z / m 2 / GLB: A Z / m 1 / n 1 / Z @ MAC"
)


def test_an_elementwise_einsum_never_reads_its_output():
    cost = accelforge(ARCH_A + ELEMENTWISE)
    table = """
        Z A DRAM 384 0   3840 0    0
        Z A GLB  384 384 768  1152 128
        Z Z DRAM 0   768 0    9216 0
        Z Z GLB  768 768 1536 2304 16
    """
    check_table(cost, table, {"Z": 48}, GLB)
    assert latencies(cost, "Z") == {"DRAM": 144, "GLB": 144, "MAC": 48}
    assert leaks(cost) == {"DRAM": 72, "GLB": 36, "MAC": 18}
    check_totals(cost, latency=144, dynamic=18864, leak=126)
    assert usages(cost) == {"GLB": 0.03515625}


COPY = """
workload:
  rank_sizes: {M: 4, N: 8}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "O[m, n] = I[m, n]", is_copy_operation: true}
""" + nest("DRAM: I / m 1 / GLB: O / n 1 / O @ MAC")


@pytest.mark.parametrize("semantics", ["accelforge", "exact"])
def test_a_copy_reads_its_source_and_writes_its_destination_once(semantics):
    cost = evaluate(loads(ARCH_A + COPY), semantics=semantics)
    assert sum(row.energy for row in cost.actions if row.component == "DRAM" and row.action == "read") == 2560
    assert sum(row.energy for row in cost.actions if row.component == "GLB" and row.action == "write") == 768
    assert {(key[2], key[3]): count for key, count in counts(cost).items()} == {
        ("DRAM", "read"): 256,
        ("GLB", "write"): 256,
    }
    assert leaks(cost) == {"DRAM": 16, "GLB": 8, "MAC": 4}
    check_totals(cost, latency=32, dynamic=3328, leak=28)
    assert cost.energy == 3356
    assert usages(cost) == {"GLB": 64 / 4096}


@pytest.mark.parametrize("semantics", ["accelforge", "exact"])
def test_the_source_and_the_copy_in_one_memory_are_one_buffer(semantics):
    cost = evaluate(loads(ARCH_A + COPY.replace("[O], component: GLB", "[I, O], component: GLB")), semantics=semantics)
    assert usages(cost) == {"GLB": 64 / 4096}
    assert sum(count for key, count in counts(cost).items() if key[2:] == ("GLB", "write")) == 256


def test_a_copy_inside_one_memory_is_free():
    text = COPY.replace("  - !Storage {tensors: [O], component: GLB}\n", "")
    cost = accelforge(ARCH_A + text.replace("tensors: [I], component: DRAM", "tensors: [I, O], component: DRAM"))
    assert counts(cost) == {}
    assert cost.energy == 0


RAGGED = workload("M: 10, K: 6, N: 8", "Z[m, n] = A[m, k] * B[k, n]") + nest(
    "DRAM: A B Z / m 4 / GLB: A B Z / n 1 / k 1 / m 1 / Z @ MAC"
)


@pytest.mark.parametrize(("semantics", "z_bits"), [("accelforge", 4 * 1 * 8), ("exact", 4 * 8 * 8)])
def test_ragged_tiles_are_counted_exactly(semantics, z_bits):
    # m in tiles of 4, 4 and 2. In values of 8 bits:
    # A: (4 + 4 + 2) * 6 = 60 fetched; B: 3 * 6*8 = 144 fetched; Z: 80 written back, all fills are first touches.
    # The MAC reads one value of each for each of the 10*6*8 = 480 operations, of Z only 480 - 80, and writes 480.
    # GLB, Z: read 80 + 400, written 480.
    # DRAM (480 + 1152 + 640)/8 = 284, GLB (3840+480 + 3840+1152 + 3840+3840)/16 = 1062, leak 1062*(0.5+0.25+0.125).
    # Dynamic: 4800 + 9120 + 11520 + 11136 + 7680 + 19200 + 480 = 63936.
    cost = evaluate(loads(ARCH_A + RAGGED), semantics=semantics)
    table = f"""
        Z A DRAM 480  0    4800  0     0
        Z A GLB  3840 480  7680  1440  192
        Z B DRAM 1152 0    11520 0     0
        Z B GLB  3840 1152 7680  3456  384
        Z Z DRAM 0    640  0     7680  0
        Z Z GLB  3840 3840 7680  11520 {z_bits}
    """
    check_table(cost, table, {"Z": 480}, GLB)
    assert latencies(cost, "Z") == {"DRAM": 284, "GLB": 1062, "MAC": 480}
    assert leaks(cost) == {"DRAM": 531, "GLB": 265.5, "MAC": 132.75}
    check_totals(cost, latency=1062, dynamic=63936, leak=929.25)
    assert usages(cost) == {"GLB": (192 + 384 + z_bits) / 4096}


TOLL = (
    """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, bits_per_action: 64,
             actions: [{name: read, energy: 640, throughput: 1}, {name: write, energy: 768, throughput: 1}]}
  - !Toll {name: Link, direction: {A: down, B: down, Z: up_and_down}, leak_power: 0, area: 0,
           actions: [{name: read, energy: 5, throughput: 2, bits_per_action: 16}]}
  - !Memory {name: GLB, size: 4096, leak_power: 0, area: 3, bits_per_value: {Z: 32}, values_per_action: {B: 4},
             actions: [{name: read, energy: 2, throughput: 4, bits_per_action: 8},
                       {name: write, energy: 3, throughput: 4, bits_per_action: 8}]}
  - !Compute {name: MAC, leak_power: 0, area: 1, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
    + workload("M: 4, K: 6, N: 8", "Z[m, n] = A[m, k] * B[k, n]", bits="A: 8, B: 8, Z: 16")
    + nest(
        "DRAM: A B Z / m 2 / k 3 / !Toll {tensors: [A, B, Z], component: Link} / GLB: A B Z / n 1 / m 1 / k 1 / Z @ MAC"
    )
)


def test_a_toll_action_widths_and_values_per_action():
    cost = accelforge(TOLL)
    table = """
        Z A DRAM 3   0   1920 0     0
        Z A Link 12  0   60   0     0
        Z A GLB  192 24  384  72    48
        Z B DRAM 12  0   7680 0     0
        Z B Link 48  0   240  0     0
        Z B GLB  48  24  96   72    192
        Z Z DRAM 8   16  5120 12288 0
        Z Z Link 96  0   480  0     0
        Z Z GLB  896 896 1792 2688  32
    """
    check_table(cost, table, {"Z": 192}, GLB)
    assert latencies(cost, "Z") == {"DRAM": 39, "Link": 78, "GLB": 520, "MAC": 192}
    check_totals(cost, latency=520, dynamic=33084, leak=0)
    assert usages(cost) == {"GLB": 0.06640625}


def test_the_preset_is_named_in_the_result():
    cost = accelforge(ARCH_A + ELEMENTWISE)
    assert cost.to_dict()["semantics"] == "accelforge"
    assert energies(cost)["Z", "A", "DRAM", "read"] == 3840


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param(ARCH_A + RAGGED, "tile", id="imperfect factors"),
        pytest.param(ARCH_A + COPY, "copy", id="copies"),
        pytest.param(SPATIAL, "gat", id="power gating"),
        pytest.param(
            ARCH_A.replace("size: 4096,", "size: 4096, spatial: [{name: X, fanout: 2}],") + MATMUL,
            "fanout",
            id="instances",
        ),
    ],
)
def test_a_note_says_where_a_rule_of_both_presets_differs_from_accelforge(text, word):
    notes = [str(note) for note in accelforge(text).notes]
    assert any("accelforge" in note.lower() and word in note for note in notes)
    assert not any("accelforge" in str(note).lower() for note in evaluate(loads(text), semantics="exact").notes)


def test_nothing_is_noted_where_the_preset_counts_like_accelforge():
    assert accelforge(ARCH_A + MATMUL).notes == ()
