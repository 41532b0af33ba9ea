"""Fast C of narrow inputs: whole numbers of 8 bits exactly, bfloat16 within the bound of float sums; others refused."""

import ctypes
import random
import subprocess

import numpy as np
import pytest
from tests.emit.running import COMPILER, needs_compiler
from tests.emit.test_fast import GOTO, MATMUL, convolution, product, random_product, run_fast

from einmap.emit.emit import emit
from einmap.errors import NotSupportedError

EDGES = {"m": 13, "k": 11, "n": 37}
WHOLE_VECTORS = """
    Main holds A B Z
    n by 20
    k by 5
    L2 holds B
    m by 3
    Registers holds Z
    n by 16
    k by 1
    m by 1
    n by 1
    Z on FMA
"""
SUMS_OUTSIDE = """
    Main holds A B Z
    L2 holds A B
    k by 1
    m by 3
    n by 8
    Registers holds Z
    n by 4
    m by 1
    n by 1 on FMA.lanes
    Z on FMA
"""
NESTS = {"lanes": GOTO, "vectors of 64 bytes": WHOLE_VECTORS, "sums outside the register tile": SUMS_OUTSIDE}


def narrow(nest, bits, sizes=EDGES, einsum=MATMUL, out=32):
    """A product whose inputs have `bits` bits."""
    return product(nest, sizes, einsum, widths={"Inputs": bits, "Outputs": out})


def called(spec, folder, out, *inputs):
    """What the code, as a library, makes of arrays."""
    (folder / "fast.c").write_text(emit(spec, fast=True))
    command = [COMPILER, "-O2", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-o", "fast.so"]
    subprocess.run(command, cwd=folder, timeout=120, check=True)
    ctypes.CDLL(str(folder / "fast.so")).nest(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs, out)))
    return out


@needs_compiler
@pytest.mark.parametrize(("name", "bits"), [(name, 8) for name in NESTS] + [("lanes", 16)])
def test_main_agrees_with_plain_loops_under_sanitizers(name, bits, tmp_path):
    assert run_fast(narrow(NESTS[name], bits), tmp_path) == "equal to the plain loops\n"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("seed", range(15))
def test_random_nests_agree_with_plain_loops(seed, bits, tmp_path):
    spec = random_product(random.Random(seed), {"Inputs": bits, "Outputs": 32})
    assert run_fast(spec, tmp_path) == "equal to the plain loops\n"


@needs_compiler
@pytest.mark.parametrize("lowest", [False, True])
def test_whole_numbers_of_8_bits_are_exact_down_to_the_lowest(lowest, tmp_path):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, -127 if lowest else 128, shape, np.int8) for shape in ((13, 11), (11, 37)))
    z = called(narrow(WHOLE_VECTORS, 8), tmp_path, np.zeros((13, 37), np.int32), a, b)
    assert np.array_equal(z, a.astype(np.int64) @ b.astype(np.int64))


@needs_compiler
def test_bfloat16_is_summed_in_float(tmp_path):
    rng = np.random.default_rng(0)
    bits = [
        (rng.normal(size=s).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for s in ((13, 11), (11, 37))
    ]
    a, b = ((values.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for values in bits)
    z = called(narrow(GOTO, 16), tmp_path, np.zeros((13, 37), np.float32), *bits)
    assert (np.abs(z - a @ b) <= 11 * 2.0**-24 * (np.abs(a) @ np.abs(b))).all()
    assert np.abs(a @ b).max() > 3


def test_pairs_are_multiplied_and_added_at_once():
    text = emit(narrow(GOTO, 8), fast=True)
    assert "void nest(const narrow *restrict A, const narrow *restrict B, real *restrict Z)" in text
    assert "Inside for k by 2" in text
    assert "2 blocks of n x 3 k x 8 n" in text


PRODUCT_OF_3 = "Z[m, n] = A[m, k] * B[k, n] * C[k]"
REFUSED = {
    "16 .bfloat16. with an output of 32": narrow(GOTO, 16, out=16),
    "indexes 'A' of 8 bits by a sum or a multiple": narrow(
        GOTO, 8, {**EDGES, "j": 30}, "Z[m, n] = A[m, J: 2*k] * B[k, n]"
    ),
    "has inputs of 8 bits, and 3 of them": narrow(GOTO.replace("A B Z", "A B C Z"), 8, einsum=PRODUCT_OF_3),
    "adds 131,072 products of 8 bits": narrow(GOTO, 8, {**EDGES, "k": 2**17}),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_done_with_narrow_inputs_is_refused(text):
    with pytest.raises(NotSupportedError, match=text):
        emit(REFUSED[text], fast=True)


@pytest.mark.parametrize("bits", [8, 16])
def test_convolutions_of_narrow_inputs_are_refused(bits):
    spec = convolution(True, "k", "k by 8", widths={"Inputs": bits, "Outputs": 32})
    with pytest.raises(NotSupportedError, match=f"'I' of {bits} bits by a sum or a multiple, as convolutions do"):
        emit(spec, fast=True)
