"""Fast C of cascades: attention and chains of products have the values of the simulator, under sanitizers."""

import ctypes
import subprocess

import numpy as np
import pytest
from tests.emit.running import COMPILER, needs_compiler
from tests.emit.test_fast import loop, machine, run_fast

import einmap
from einmap.einsum.operation import parse_operation
from einmap.emit.emit import emit
from einmap.emit.fast.builder import scale_of
from einmap.errors import NotSupportedError

SOFTMAX = [
    "QK[h, m, p] = 0.5 * Q[h, m, e] * K[h, p, e] / sqrt(4)",
    {"einsum": "GM[h, m] = QK[h, m, p]", "reduction": "max"},
    "SN[h, m, p] = exp(QK[h, m, p] - GM[h, m])",
    "SD[h, m] = SN[h, m, p]",
    "AN[h, m, f] = SN[h, m, p] * V[h, p, f]",
    "AV[h, m, f] = AN[h, m, f] / SD[h, m]",
]
PRODUCT = "L2 holds Q\nm by 2\np by 8\nRegisters holds QK\ne by 1\nm by 1\np by 1\nQK on FMA"
BRANCHES = [
    PRODUCT,
    ["m by 1\nL2 holds GM", ["p by 1\nGM on FMA", "p by 1\nSN on FMA", "p by 1\nSD on FMA"]],
    "p by 5\nm by 2\nf by 8\nRegisters holds AN\np by 1\nm by 1\nf by 1\nAN on FMA",
    "m by 1\nf by 1\nAV on FMA",
]
ROWS = ["Main holds Q K V AV\nh by 1\nL3 holds K V\nm by 5\nL2 holds QK SN SD AN", BRANCHES]
SIZES = {"h": 2, "m": 7, "p": 11, "e": 3, "f": 10}
CORES = [ROWS[0].replace("m by 5", "m by 3 on Cores.cores"), BRANCHES]

TURNED = [
    "QK[m, p] = Q[p, e] * K[m, e]",
    {"einsum": "GM[p] = QK[m, p]", "reduction": "max"},
    "SN[m, p] = exp(QK[m, p] - GM[p])",
    "SD[p] = SN[m, p]",
    {"einsum": "LM[p] = relu(SN[m, p])", "reduction": "min"},
    "A[m, p] = (SN[m, p] - LM[p]) / SD[p]",
    "AV[p, f] = A[m, p] * V[m, f]",
]
COLUMNS = [
    "Main holds Q K V AV\np by 9\nL2 holds QK GM SN SD LM A",
    [
        "m by 2\np by 4\nRegisters holds QK\ne by 1\nm by 1\np by 1\nQK on FMA",
        "p by 1\nm by 1\nGM on FMA",
        "p by 1\nm by 1\nSN on FMA",
        "p by 1\nm by 1\nSD on FMA",
        "p by 1\nm by 1\nLM on FMA",
        "p by 1\nm by 1\nA on FMA",
        "f by 4\np by 3\nRegisters holds AV\nm by 1\np by 1\nf by 1\nAV on FMA",
    ],
]
PLAIN = [SOFTMAX[0], "SN[h, m, p] = exp(QK[h, m, p])", *SOFTMAX[3:]]
BLOCKS = [
    "Main holds Q K V AV\nh by 1\nL2 holds SD AN",
    [
        [
            "p by 9\nL3 holds K V\nL2 holds QK SN",
            [PRODUCT, "m by 1\np by 1\nSN on FMA", "m by 1\np by 1\nSD on FMA", BRANCHES[2]],
        ],
        BRANCHES[3],
    ],
]
CHAIN = ["T[m, n] = A[m, k] * B[k, n]", "Z[m, j] = T[m, n] * C[n, j]"]
PAIR = [
    "Main holds A B C Z\nL3 holds B\nm by 3\nn by 9\nL2 holds T",
    [
        "n by 8\nRegisters holds T\nk by 1\nm by 1\nn by 1\nT on FMA",
        "j by 8\nRegisters holds Z\nn by 1\nm by 1\nj by 1\nZ on FMA",
    ],
]
SMALL = {"m": 7, "k": 5, "n": 21, "j": 11}


def tree(nest):
    """Nodes of a nest: lines, then, if it is a list, the branches of a split."""
    lines, branches = nest if isinstance(nest, list) else (nest, [])
    nodes = [loop(line) for line in lines.splitlines()]
    if branches:
        nodes.append({"type": "Sequential", "nodes": [{"type": "Nested", "nodes": tree(b)} for b in branches]})
    return nodes


def cascade(einsums, nest, sizes, bits=32):
    ranks = {variable.upper(): size for variable, size in sizes.items()}
    workload = {"einsums": einsums, "rank_sizes": ranks, "bits_per_value": {"All": bits}}
    return einmap.Spec.from_dict(arch=machine(bits), workload=workload, mapping={"nodes": tree(nest)})


CASES = {
    "attention": cascade(SOFTMAX, ROWS, SIZES),
    "softmax over the outer rank, in double": cascade(TURNED, COLUMNS, {"p": 13, "m": 7, "e": 5, "f": 6}, bits=64),
    "blocks of keys, whose sums are added": cascade(PLAIN, BLOCKS, SIZES),
    "a chain whose sums run over what is outside": cascade(CHAIN, PAIR, SMALL),
    "a chain times 1": cascade([CHAIN[0] + " / sqrt(1)", CHAIN[1]], PAIR, SMALL),
    "a chain times 0": cascade([CHAIN[0], CHAIN[1].replace("= T", "= 0 * T")], PAIR, SMALL),
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_fast_code_computes_the_cascade(name, tmp_path):
    assert run_fast(CASES[name], tmp_path) == "equal to the plain loops\n"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("rows", range(2, 9))
def test_attention_of_any_tiles_computes_the_cascade(rows, tmp_path):
    spec = cascade(SOFTMAX, [ROWS[0].replace("m by 5", f"m by {rows}"), BRANCHES], {**SIZES, "m": 8, "p": 9 + 4 * rows})
    assert run_fast(spec, tmp_path) == "equal to the plain loops\n"


@needs_compiler
def test_a_library_on_cores_has_the_values_of_the_simulator(tmp_path):
    spec, rng = cascade(SOFTMAX, CORES, SIZES), np.random.default_rng(0)
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    command = [COMPILER, "-O1", "-fopenmp", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-o", "fast.so"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    shapes = {"Q": (2, 7, 3), "K": (2, 11, 3), "V": (2, 11, 10)}
    inputs = {t: rng.normal(size=shape).astype(np.float32) * 3 for t, shape in shapes.items()}
    found = np.full((2, 7, 10), np.nan, np.float32)
    ctypes.CDLL(str(tmp_path / "fast.so")).nest(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs.values(), found)))
    expected = einmap.execute(spec, inputs).tensors["AV"]
    assert np.allclose(found, expected, rtol=0, atol=1e-5)
    assert np.abs(expected).max() > 1


def test_a_tile_that_is_read_again_is_not_overwritten(tmp_path):
    """The sum reads the scores once more, after SN: SN has a tile of its own."""
    einsums = [*SOFTMAX[:3], "SD[h, m] = SN[h, m, p] + QK[h, m, p]", *SOFTMAX[4:]]
    spec = cascade(einsums, ROWS, SIZES)
    text = emit(spec, fast=True)
    assert "static real L2_SN[" in text and "over QK" not in text
    assert "over QK" in emit(CASES["attention"], fast=True)
    assert run_fast(spec, tmp_path) == "equal to the plain loops\n"


def test_inputs_whose_tiles_are_neighbours_in_memory_are_not_packed():
    """Rows of 16 values of V are whole vectors; rows of 10 are not, nor are columns of keys."""
    whole = [ROWS[0], [*BRANCHES[:2], BRANCHES[2].replace("f by 8", "f by 16"), BRANCHES[3]]]
    text = emit(cascade(SOFTMAX, whole, {**SIZES, "f": 16}), fast=True)
    assert "pack_K(" in text and "pack_V(" not in text and "pack_Q(" not in text
    assert "pack_V(" in emit(CASES["attention"], fast=True)


def test_the_nest_of_the_mapping_can_be_recognised():
    nest = emit(CASES["attention"], fast=True).split("void nest(")[1].split("#ifndef")[0]
    found = [line.split("/* ")[1].split(" */")[0] for line in nest.splitlines() if "/* " in line]
    assert [line for line in found if "in its place" not in line] == [
        "for h by 1",
        "[L3 holds K] K 1x11x3",
        "[L3 holds V] V 1x11x10",
        "for m by 5",
        "[L2 holds QK] QK 1x5x11",
        "[L2 holds SN] SN 1x5x11, over QK",
        "[L2 holds SD] SD 1x5",
        "[L2 holds AN] AN 1x5x10",
        "QK",
        "for m by 2",
        "for p by 8",
        "for m by 1",
        "[L2 holds GM] GM 1x1",
        *("GM", "SN, SD", "AN"),
        "for p by 5",
        "for m by 2",
        "for f by 8",
        "AV",
    ]


@pytest.mark.parametrize(
    ("text", "scale"),
    [("A * B / sqrt(16)", 0.25), ("2 * A * (3 * B)", 6), ("A / B", None), ("A * B + 1", None), ("A * B / 0", None)],
)
def test_numbers_beside_a_product_are_one_factor(text, scale):
    assert scale_of(parse_operation(text, "AB").map) == scale


LARGE = cascade(SOFTMAX, [ROWS[0], [PRODUCT.replace("Registers holds QK\n", ""), *BRANCHES[1:]]], {**SIZES, "p": 4096})
OUTSIDE = cascade(
    SOFTMAX,
    [ROWS[0].replace("Main holds Q K V AV", "Main holds Q K V AV QK").replace("holds QK SN", "holds SN"), BRANCHES],
    {**SIZES, "m": 2**14, "p": 2**14},
)


@pytest.mark.parametrize(
    ("spec", "text"), [(LARGE, "at most 64 are kept in registers"), (OUTSIDE, "fast code at most 1,073,741,824")]
)
def test_tiles_that_are_too_large_are_refused(spec, text):
    with pytest.raises(NotSupportedError, match=text):
        emit(spec, fast=True)


def causal(nest=ROWS, cut="p <= m", sizes=SIZES, softmax=SOFTMAX, **others):
    """Attention whose Einsums over keys have a constraint, but for those that `others` names."""
    einsums = []
    for text in softmax[:-1]:
        einsum = text if isinstance(text, dict) else {"einsum": text}
        cuts = others.get(einsum["einsum"].split("[")[0], [cut])
        einsums.append({**einsum, "iteration_space_shape": cuts} if cuts else einsum)
    return cascade([*einsums, softmax[-1]], nest, sizes)


@needs_compiler
@pytest.mark.parametrize(("cut", "keys"), [pytest.param("p <= m", 20, marks=pytest.mark.slow), ("p <= m + 8", 28)])
def test_a_causal_mask_as_an_iteration_space_ends_rows_at_their_bound(cut, keys, tmp_path):
    spec, rng = causal(cut=cut, sizes={**SIZES, "m": 20, "p": keys}), np.random.default_rng(0)
    command = [COMPILER, "-O1", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-lm", "-o", "fast.so"]
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    shapes = {"Q": (2, 20, 3), "K": (2, keys, 3), "V": (2, keys, 10)}
    inputs = {t: rng.normal(size=shape).astype(np.float32) * 3 for t, shape in shapes.items()}
    found = np.full((2, 20, 10), np.nan, np.float32)
    ctypes.CDLL(str(tmp_path / "fast.so")).nest(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs.values(), found)))
    assert np.allclose(found, einmap.execute(spec, inputs).tensors["AV"], rtol=0, atol=1e-5)


def test_tiles_of_keys_behind_the_bound_are_left_out():
    nest = emit(causal(sizes={**SIZES, "m": 11}), fast=True).split("void nest(")[1].split("#ifndef")[0]
    loops = [line.split("; ")[1] for line in nest.splitlines() if "for p by" in line]
    assert loops == ["p1 < smaller(11, m2_end)", "p1 < smaller(11, m1_end)"]


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"cut": "p >= m"}, "not one like p <= m"),
        ({"cut": "p <= 2 * m"}, "not one like p <= m"),
        ({"SD": []}, "'SD' reads 'SN' beyond the bound"),
        ({"AN": ["p <= m + 1"]}, "'AN' reads 'SN' beyond the bound"),
        ({"QK": [], "GM": [], "SN": [], "SD": []}, "'AN' sums over 'p' within a bound, and no factor is 0 behind it"),
    ],
)
def test_other_constraints_on_the_iteration_space_are_refused(others, text):
    with pytest.raises(NotSupportedError, match=text):
        emit(causal(sizes={**SIZES, "m": 11}, **others), fast=True)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("rows", range(2, 9))
def test_causal_attention_of_any_tiles_computes_the_cascade(rows, tmp_path):
    nest, sizes = [ROWS[0].replace("m by 5", f"m by {rows}"), BRANCHES], {**SIZES, "m": 19, "p": 17 + rows}
    for spec in (causal(nest, f"p <= m + {rows - 2}", sizes), causal(BLOCKS, f"p <= m + {rows - 2}", sizes, PLAIN)):
        assert run_fast(spec, tmp_path) == "equal to the plain loops\n"
