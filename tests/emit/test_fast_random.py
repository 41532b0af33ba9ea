"""Fast C of random small workloads of all kinds: clean under the sanitizers of addresses and undefined behaviour."""

import ctypes
import random
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.emit.running import COMPILER, FLAGS, needs_compiler
from tests.emit.test_fast import LANES, fused, product
from tests.emit.test_fast_cascade import SOFTMAX, cascade

import einmap
from einmap.emit.emit import emit
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.fast_c import fast_nest

MAPS = ("relu({Z} + {C})", "max({Z}, {C}) - 2", "gelu({Z} * 0.05) + {C}", "abs({Z} - {C})", "exp({Z} * 0.01) / {C}")
SANITIZED = [flag for flag in FLAGS if not flag.startswith("-std")] + ["-Wno-unknown-pragmas", "-Wno-psabi"]
QUICK = {"convolution": 1, "attention": 2}
"""Of which kinds one seed runs each time."""


@cache
def has_sanitizers():
    """Whether the compiler brings the libraries of the sanitizers."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n")
        command = [COMPILER, "-fsanitize=address,undefined", source, "-o", Path(folder, "empty")]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        return done.returncode == 0 and subprocess.run([Path(folder, "empty")], check=False).returncode == 0


def cut(rng, sizes, count):
    """Loops with random tiles around what is left, and that."""
    left, lines = dict(sizes), []
    for _ in range(rng.randint(0, count)):
        v = rng.choice([*sizes])
        left[v] = rng.randint(1, left[v])
        lines.append(f"{v} by {left[v]}")
    return left, lines


def nested(rng, einsum, sizes, rows, axis, bits=32, **ranks):
    """An Einsum in a nest of random tiles, with nodes of its inputs at random places.

    `rows`: rank variables of the output beside the `axis` of the vectors, and the most values of a register tile;
    `ranks`: sizes of ranks that sums of rank variables index.
    """
    left, lines = cut(rng, sizes, 5)
    for v, most in (*rows.items(), (axis, 16)):
        left[v] = min(left[v], rng.randint(1, most))
        lines.append(f"{v} by {left[v]}")
    tensors = [part.split("[")[0].strip() for part in einsum.replace("=", "*").split("*") if "[" in part]
    output, *inputs = tensors
    for tensor in inputs:
        if rng.random() < 0.8:
            lines.insert(rng.randrange(len(lines) + 1), f"L2 holds {tensor}")
    summed = [v for v in sizes if v not in (*rows, axis)]
    inside = [f"{v} by 1" for v in rng.sample([*summed, *rows], len(summed) + len(rows))]
    lanes = LANES[bits]
    if left[axis] > lanes and rng.random() < 0.7:
        inside = [*inside, f"{axis} by {lanes}", f"{axis} by 1 on FMA.lanes"]
    else:
        inside.append(f"{axis} by 1")
    nest = [f"Main holds {' '.join(tensors)}", *lines, f"Registers holds {output}", *inside, f"{output} on FMA"]
    return product("\n".join(nest), {**sizes, **ranks}, einsum, bits)


def random_product(rng):
    left, right = rng.choice(["m, k", "k, m"]), rng.choice(["k, n", "n, k"])
    sizes = {v: rng.randint(1, 40) for v in "mkn"}
    einsum = f"Z[m, n] = A[{left}] * B[{right}]"
    return nested(rng, einsum, sizes, {"m": 4}, "n", rng.choice([32, 64]))


def random_convolution(rng):
    stride, step = rng.randint(1, 2), rng.randint(1, 2)
    sizes = {v: rng.randint(1, most) for v, most in {"p": 4, "q": 9, "r": 3, "s": 3, "c": 20}.items()}
    image = f"H: {stride}*p + {step}*r, W: {stride}*q + {step}*s"
    h, w = (stride * (sizes[a] - 1) + step * (sizes[b] - 1) + 1 for a, b in ("pr", "qs"))
    if rng.random() < 0.3:
        return nested(rng, f"O[p, q, c] = I[{image}, c] * F[r, s, c]", sizes, {"p": 2, "q": 4}, "c", h=h, w=w)
    sizes["k"] = rng.randint(1, 24)
    return nested(rng, f"O[p, q, k] = I[{image}, c] * F[r, s, c, k]", sizes, {"p": 2, "q": 4}, "k", h=h, w=w)


def random_map(rng):
    sizes = {"m": rng.randint(6, 20), "k": rng.randint(5, 15), "n": rng.randint(16, 40)}
    return fused(rng.choice(MAPS), sizes, rng.choice([32, 64]), bias=rng.choice(["n", "m", "m, n"]))


def random_attention(rng):
    """Attention with rows of queries, the softmax row by row or for all of them, and maybe maps beside it."""
    sizes = {v: rng.randint(1, most) for v, most in {"h": 3, "m": 14, "p": 40, "e": 20, "f": 33}.items()}
    sizes["f"] = rng.choice([16, 32, sizes["f"]])
    rows = rng.randint(1, sizes["m"])
    tile = {v: rng.randint(1, most) for v, most in {"m": min(4, rows), "p": 20, "f": 20, "block": 40}.items()}
    tile = {v: min(n, sizes.get(v, sizes["p"])) for v, n in tile.items()}
    tile["f"] = rng.choice([sizes["f"], tile["f"]])
    outside = [f"h by 1\nL3 holds K V\nm by {rows}", f"h by 1\nm by {rows}\nL3 holds K V", f"m by {rows}\nh by 1"]
    on = " on Cores.cores" if rows * 3 >= sizes["m"] and rng.random() < 0.4 else ""
    shared = rng.choice(outside).replace(f"m by {rows}", f"m by {rows}{on}")
    passes = ["p by 1\nGM on FMA", "p by 1\nSN on FMA", "p by 1\nSD on FMA"]
    softmax = [["m by 1\nL2 holds GM", passes]] if rng.random() < 0.5 else [f"m by 1\n{p}" for p in passes]
    held = "QK SN SD AN" if len(softmax) == 1 else "QK GM SN SD AN"
    branches = [
        f"L2 holds Q\np by {tile['p']}\nm by {tile['m']}\nRegisters holds QK\ne by 1\nm by 1\np by 1\nQK on FMA",
        *softmax,
        f"p by {tile['block']}\nm by {tile['m']}\nf by {tile['f']}\nRegisters holds AN\np by 1\nm by 1\nf by 1\nAN on FMA",
        "m by 1\nf by 1\nAV on FMA",
    ]
    einsums = list(SOFTMAX)
    if rng.random() < 0.3:
        einsums[3] = "SD[h, m] = SN[h, m, p] + 0.1 * QK[h, m, p]"
    return cascade(einsums, [f"Main holds Q K V AV\n{shared}\nL2 holds {held}", branches], sizes, rng.choice([32, 64]))


KINDS = {
    "product": random_product,
    "convolution": random_convolution,
    "map": random_map,
    "attention": random_attention,
}


@needs_compiler
@pytest.mark.emit
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[] if QUICK.get(kind) == seed else pytest.mark.slow)
        for kind in KINDS
        for seed in range(30)
    ],
)
def test_code_of_random_workloads_is_clean_and_has_the_values_of_plain_loops(kind, seed, tmp_path):
    """Half of the seeds with the vectors of this processor, optimised; the others as any processor would run it."""
    if not has_sanitizers():
        pytest.skip(f"{COMPILER} has no libraries of the sanitizers of addresses and undefined behaviour")
    spec = KINDS[kind](random.Random(seed))
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    native = ["-O1", "-march=native"] if seed % 2 else []
    command = [COMPILER, *SANITIZED, *native, "fast.c", "-o", "fast", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "fast"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "equal to the plain loops\n", "")


@needs_compiler
@pytest.mark.emit
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30, 35))
def test_libraries_of_random_workloads_have_the_values_of_the_simulator(kind, seed, tmp_path):
    spec, rng = KINDS[kind](random.Random(seed)), np.random.default_rng(seed)
    nest = fast_nest(spec)
    dtype = {"float": np.float32, "double": np.float64}[nest.real]
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    flags = ["-O2", "-march=native", "-fopenmp", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi"]
    subprocess.run([COMPILER, *flags, "fast.c", "-o", "fast.so", "-lm"], cwd=tmp_path, timeout=300, check=True)
    if isinstance(nest, Cascade):
        names, output = nest.inputs, nest.outputs[0]
    else:
        names, output = (*nest.inputs, *nest.operands), nest.written
    inputs = {t: rng.integers(-3, 4, nest.shapes[t]).astype(dtype) / 2 for t in names}
    found = np.full(nest.shapes[output], np.nan, dtype)
    ctypes.CDLL(str(tmp_path / "fast.so")).nest(*(ctypes.c_void_p(x.ctypes.data) for x in (*inputs.values(), found)))
    expected = einmap.execute(spec, inputs).tensors[output]
    near = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
