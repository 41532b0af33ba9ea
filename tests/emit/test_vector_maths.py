"""Functions of vectors in fast C: the values of NumPy, for special numbers too, with instructions of AVX-512 and without."""

import ctypes
import subprocess

import numpy as np
import pytest
from tests.emit.running import COMPILER, needs_compiler

from einmap.emit.fast.vector_maths import Kind, function_lines

BEFORE = """\
#include <math.h>
#if defined({feature})
#include <immintrin.h>
#endif
typedef {real} real;
typedef real vec __attribute__((vector_size({size})));
typedef {ints} ints __attribute__((vector_size({size})));
"""
CALL = """\
void run_{name}(const vec *a, const vec *b, vec *to, long count)
{{
    for (long i = 0; i < count; i++)
        to[i] = vec_{name}({arguments});
}}
"""
KINDS = {
    "float, vectors of 64 bytes": (Kind("float", 16), "int", ["-march=native"]),
    "double, vectors of 32 bytes": (Kind("double", 4), "long long", ["-march=native"]),
    "float, any processor": (Kind("float", 16), "int", []),
}


@needs_compiler
@pytest.mark.parametrize("name", KINDS)
def test_functions_of_vectors_have_the_values_of_numpy(name, tmp_path):
    kind, ints, flags = KINDS[name]
    dtype = np.dtype({"float": np.float32, "double": np.float64}[kind.real])
    text = BEFORE.format(real=kind.real, ints=ints, size=kind.lanes * dtype.itemsize, feature=kind.wide["feature"])
    text += "\n".join(function_lines(["max", "min", "exp"], kind, set()))
    text += "".join(
        CALL.format(name=n, arguments=a) for n, a in (("max", "a[i], b[i]"), ("min", "a[i], b[i]"), ("exp", "a[i]"))
    )
    (tmp_path / "maths.c").write_text(text)
    command = [COMPILER, "-O1", *flags, "-shared", "-fPIC", "-Wno-psabi", "maths.c", "-lm", "-o", "maths.so"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    library = ctypes.CDLL(str(tmp_path / "maths.so"))
    special = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 88.7, -87.0, 1e30, -1e30, 709.7, -740.0]
    grid = np.array([[x, y] for x in special for y in special])
    a, b = (
        aligned(np.concatenate([grid[:, 0], np.linspace(-30, 30, 56), np.linspace(-87, 88, 56)]), dtype),
        aligned(np.resize(grid[:, 1], 256), dtype),
    )
    with np.errstate(all="ignore"):
        wanted = {"max": np.maximum(a, b), "min": np.minimum(a, b), "exp": np.exp(a.astype(np.float64)).astype(dtype)}
    for function, values in wanted.items():
        out = aligned(np.zeros(256), dtype)
        getattr(library, f"run_{function}")(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)), 256 // kind.lanes)
        near = {"rtol": 3.5 * np.finfo(dtype).eps, "atol": np.finfo(dtype).tiny} if function == "exp" else {"rtol": 0}
        np.testing.assert_allclose(out, values, **near)


def aligned(values, dtype):
    """A copy that begins at a multiple of 64 bytes."""
    room = np.zeros(values.size * dtype.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    found = room[start : start + values.size * dtype.itemsize].view(dtype)
    found[:] = values
    return found
