"""Fast C: values are those of the Einsum, exactly for integers, under sanitizers; what is not a product is refused."""

import ctypes
import random
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tests.emit.running import COMPILER, FLAGS, needs_compiler

import einmap
from einmap.einsum.functions import apply
from einmap.einsum.numeric import run
from einmap.emit.emit import emit
from einmap.emit.fast import nest as fast_nests
from einmap.emit.fast.fast_c import fast_nest
from einmap.emit.fast.vector_maths import Code, Text
from einmap.errors import NotSupportedError

LANES = {8: 4, 32: 4, 64: 2}
MATMUL = "Z[m, n] = A[m, k] * B[k, n]"


def memory(name, size="inf", **fields):
    actions = [{"name": action, "energy": 0, "throughput": 1} for action in ("read", "write")]
    return {"type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "actions": actions, **fields}


def machine(bits=32):
    lanes = [{"name": "lanes", "fanout": LANES[bits], "vector": True}]
    compute = {"type": "Compute", "name": "FMA", "leak_power": 0, "area": 0, "spatial": lanes}
    compute["actions"] = [{"name": "compute", "energy": 0, "throughput": 1}]
    cores = {"type": "Container", "name": "Cores", "spatial": [{"name": "cores", "fanout": 3}]}
    return {"nodes": [memory("Main"), memory("L3"), cores, memory("L2"), memory("Registers"), compute]}


def loop(text):
    """`k by 8`, `n by 1 on FMA.lanes`, `L2 holds A`, `Z on FMA`: a node of a mapping."""
    match text.split():
        case [variable, "by", tile]:
            return {"type": "Temporal", "rank_variable": variable, "tile_shape": int(tile)}
        case [variable, "by", tile, "on", place]:
            component, name = place.split(".")
            where = {"component": component, "name": name}
            return {"type": "Spatial", "rank_variable": variable, "tile_shape": int(tile), **where}
        case [component, "holds", *tensors]:
            return {"type": "Storage", "component": component, "tensors": list(tensors)}
        case [einsum, "on", component]:
            return {"type": "Compute", "einsum": einsum, "component": component}
    raise AssertionError(text)


def product(nest, sizes, einsum=MATMUL, bits=32, widths=None):
    """A specification from the lines of a nest, with sizes of ranks by rank variable; `widths`: bits of tensors."""
    ranks = {variable.upper(): size for variable, size in sizes.items()}
    workload = {"einsums": [einsum], "rank_sizes": ranks, "bits_per_value": widths or {"All": bits}}
    nodes = [loop(line.strip()) for line in nest.strip().splitlines()]
    return einmap.Spec.from_dict(arch=machine(bits), workload=workload, mapping={"nodes": nodes})


TILES = """
    m by 6
    L2 holds A
    n by 8
    m by 3
    Registers holds Z
    k by 1
    n by 4
    m by 1
    n by 1 on FMA.lanes
    Z on FMA
"""
GOTO = "Main holds A B Z\nn by 16\nk by 5\nL3 holds B" + TILES


def convolution(summed, axis, cut, channels=16, widths=None):
    """A convolution with a stride of 2 in one direction, whose vectors lie along `axis`."""
    outputs, filters = {"k": ("p, q, k", "r, s, c, k"), "q": ("k, p, q", "k, c, r, s"), "c": ("p, q, c", "r, s, c")}[
        axis
    ]
    image = "c, H: 2*p + r, W: q + s" if axis == "q" else "H: 2*p + r, W: q + s, c"
    sizes = {"p": 3, "q": 11, "r": 2, "s": 3, "c": 3 if summed else channels, "h": 6, "w": 13}
    sizes |= {"k": 19} if summed else {}
    rows = "k by 3" if axis == "q" else "q by 3"
    inside = ["s by 1", *(["c by 1"] if summed else []), f"{axis} by 4", f"{rows[0]} by 1", f"{axis} by 1 on FMA.lanes"]
    nest = [
        "Main holds I F O",
        "p by 1",
        "L3 holds I F",
        cut,
        "r by 1",
        "L2 holds I",
        rows,
        "Registers holds O",
        *inside,
        "O on FMA",
    ]
    return product("\n".join(nest), sizes, f"O[{outputs}] = I[{image}] * F[{filters}]", widths=widths)


WINDOWS = """
    Main holds I F O
    L2 holds F
    p by 2
    q by 4
    Registers holds O
    r by 1
    s by 1
    p by 1
    q by 1
    c by 4
    c by 1 on FMA.lanes
    O on FMA
"""
DEPTHWISE = "O[p, q, c] = I[H: {}p + r, W: q + s, c] * F[r, s, c]"

CASES = {
    "even": product(GOTO, {"m": 12, "k": 10, "n": 32}),
    "edges": product(GOTO, {"m": 13, "k": 11, "n": 35}),
    "cut off behind a vector": product(GOTO, {"m": 12, "k": 11, "n": 36}),
    "double": product(GOTO.replace("n by 4\n", "n by 2\n"), {"m": 7, "k": 6, "n": 19}, bits=64),
    "cores": product(GOTO.replace("m by 6", "m by 5 on Cores.cores"), {"m": 13, "k": 11, "n": 37}),
    "nothing packed further out": product(
        """
        Main holds A B Z
        m by 2
        Registers holds Z
        n by 4
        k by 1
        m by 1
        n by 1 on FMA.lanes
        Z on FMA
        """,
        {"m": 5, "k": 7, "n": 9},
    ),
    "transposed, in batches, inner cut differently": product(
        """
        Main holds A B Z
        k by 7
        L3 holds A B
        b by 2
        n by 10
        L2 holds B Z
        k by 3
        m by 3
        Registers holds Z
        k by 1
        b by 1
        n by 4
        m by 1
        n by 1 on FMA.lanes
        Z on FMA
        """,
        {"b": 3, "m": 7, "k": 16, "n": 23},
        "Z[b, m, n] = A[k, b, m] * B[n, b, k]",
    ),
    "names that C and the code have for themselves": product(
        GOTO.replace("m by", "int by").replace("k by", "block by").replace(" A", " real").replace("B", "sum"),
        {"int": 7, "block": 6, "n": 19},
        "Z[int, n] = real[int, block] * sum[block, n]",
    ),
    "three factors, one along the vectors alone": product(
        """
        Main holds A B C Z
        m by 4
        L2 holds A B C
        j by 2
        Registers holds Z
        k by 1
        j by 1
        m by 1
        n by 4
        n by 1 on FMA.lanes
        Z on FMA
        """,
        {"m": 6, "k": 3, "j": 5, "n": 6},
        "Z[m, n] = A[m, k] * B[k, j] * C[j, n]",
    ),
    "a convolution, channels last, strided": convolution("c", "k", "k by 10"),
    "a convolution along rows": convolution("c", "q", "q by 8"),
    "windows": product(WINDOWS, {"p": 5, "q": 10, "r": 3, "s": 2, "c": 11, "h": 7, "w": 11}, DEPTHWISE.format("")),
    "depthwise": convolution("", "c", "c by 8"),
    "depthwise, with channels beside the vectors": convolution("", "c", "c by 8", channels=13),
}


FUSED = """
    Main holds A B C Y
    n by 16
    L3 holds Z B
"""
FUSED_INSIDE = "\nk by 5" + TILES
FUSED_MAP = """
    m by 3
    n by 4
    n by 1 on FMA.lanes
    m by 1
    Y on FMA
"""


def fused(expression, sizes, bits=32, product_inside=FUSED_INSIDE, outside=FUSED, bias="n"):
    """A product, and a map of its values and of C, that share the loop over n and the storage node of Z."""
    lanes = {32: 4, 64: 2}[bits]
    branches = [
        {"type": "Nested", "nodes": [loop(line.strip().replace("n by 4", f"n by {lanes}")) for line in text]}
        for text in (product_inside.strip().splitlines(), FUSED_MAP.strip().splitlines())
    ]
    nodes = [loop(line.strip()) for line in outside.strip().splitlines()] + [{"type": "Sequential", "nodes": branches}]
    ranks = {variable.upper(): size for variable, size in sizes.items()}
    einsums = [MATMUL, f"Y[m, n] = {expression.format(Z='Z[m, n]', C=f'C[{bias}]')}"]
    workload = {"einsums": einsums, "rank_sizes": ranks, "bits_per_value": {"All": bits}}
    return einmap.Spec.from_dict(arch=machine(bits), workload=workload, mapping={"nodes": nodes})


EDGES = {"m": 13, "k": 11, "n": 37}
BOTH = {"A": (13, 11), "B": (11, 37), "C": (13, 37)}
MAPS = {
    "relu and bias": fused("relu({Z} + {C})", EDGES),
    "even tiles": fused("max({Z}, {C}) - 2", {"m": 12, "k": 10, "n": 32}),
    "bias of rows, double": fused("abs({Z} - {C})", EDGES, 64, bias="m"),
    "of both": fused("select({Z}, sign({C}), min({Z} + {C}, 3))", EDGES, bias="m, n"),
    "gelu": fused("gelu({Z} * 0.05) + {C}", EDGES),
    "gelu, double": fused("gelu({Z} * 0.05) + {C}", EDGES, 64),
    "by lanes": fused("tanh({Z} * 0.1) * sigmoid({C}) + floor(sqrt(abs({Z}))) / min(1 / 0, 2)", EDGES),
}

QUICK = ("relu and bias", "gelu, double", "by lanes")


@needs_compiler
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MAPS])
def test_fast_code_of_a_product_and_a_map_of_its_values_agrees_with_plain_loops(name, tmp_path):
    assert run_fast(MAPS[name], tmp_path) == "equal to the plain loops\n"


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_fast_code_computes_the_product_and_nothing_beside_it(name, tmp_path):
    assert run_fast(CASES[name], tmp_path) == "equal to the plain loops\n"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_fast_code_of_random_nests_computes_the_product(seed, tmp_path):
    assert run_fast(random_product(random.Random(seed)), tmp_path) == "equal to the plain loops\n"


def run_fast(spec, folder):
    (folder / "fast.c").write_text(emit(spec, fast=True))
    flags = [flag for flag in FLAGS if not flag.startswith("-std")]
    command = [COMPILER, *flags, "-Wno-unknown-pragmas", "-Wno-psabi", "fast.c", "-o", "fast", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([folder / "fast"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def random_product(rng, widths=None):
    """A matrix product in a nest of random tiles, with nodes at random places."""
    sizes = {v: rng.randint(1, 40) for v in "mkn"}
    left, lines = dict(sizes), []
    for _ in range(rng.randint(0, 5)):
        v = rng.choice("mkn")
        left[v] = rng.randint(1, left[v])
        lines.append(f"{v} by {left[v]}")
    for v, most in (("m", 4), ("n", 16)):
        left[v] = min(left[v], rng.randint(1, most))
        lines.append(f"{v} by {left[v]}")
    for tensor in "AB":
        if rng.random() < 0.8:
            lines.insert(rng.randrange(len(lines) + 1), f"L2 holds {tensor}")
    inside = ["k by 1", "n by 4", "m by 1", "n by 1 on FMA.lanes"] if left["n"] > 4 else ["k by 1", "m by 1", "n by 1"]
    return product(
        "\n".join(["Main holds A B Z", *lines, "Registers holds Z", *inside, "Z on FMA"]), sizes, widths=widths
    )


@needs_compiler
def test_a_library_of_fast_code_gives_the_values_of_numpy_and_of_the_einsum(tmp_path):
    spec, rng = CASES["edges"], np.random.default_rng(0)
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    command = [COMPILER, "-O2", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-o", "fast.so"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    nest = ctypes.CDLL(str(tmp_path / "fast.so")).nest
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((13, 11), (11, 35)))
    z = np.full((13, 35), np.nan, np.float32)
    nest(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, z)))
    assert np.array_equal(z, a @ b)
    assert np.array_equal(z, run(spec.workload, {"A": a, "B": b})["Z"])


@needs_compiler
def test_a_fused_map_has_the_values_of_the_simulator(tmp_path):
    spec, rng = MAPS["of both"], np.random.default_rng(0)
    (tmp_path / "fast.c").write_text(emit(spec, fast=True))
    command = [COMPILER, "-O1", "-DNO_MAIN", "-shared", "-fPIC", "-Wno-psabi", "fast.c", "-o", "fast.so"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    inputs = {t: rng.integers(-9, 10, shape).astype(np.float32) for t, shape in BOTH.items()}
    y = np.full((13, 37), np.nan, np.float32)
    arrays = [*inputs.values(), y]
    ctypes.CDLL(str(tmp_path / "fast.so")).nest(*(ctypes.c_void_p(x.ctypes.data) for x in arrays))
    assert np.array_equal(y, einmap.execute(spec, inputs).tensors["Y"])


def test_sums_are_mapped_as_the_last_of_them_are_added():
    text = emit(MAPS["relu and bias"], fast=True)
    assert "[Registers holds Z]: 3 m x 8 n" in text
    assert "k1 > 0, k1_end == 11)" in text
    assert "void nest(const real *restrict A, const real *restrict B, const real *restrict C, real *restrict Y)" in text


@pytest.mark.parametrize("x", [0.0, -0.3, 0.46, 0.47, -3.9, 4.1, -7.0])
def test_recorded_formulas_are_those_of_the_table(x):
    code = Code()
    result = apply("gelu", Text("x", code), xp=code)
    values = {"x": np.float64(x)}
    for line in code.lines:
        name, value = line.removeprefix("const ").split(" ", 1)[1].removesuffix(";").split(" = ", 1)
        values[name] = eval(plain(value), {**PLAIN, **values})
    assert values[result.name] == pytest.approx(apply("gelu", x), rel=1e-14, abs=1e-300)


def plain(text):
    """A line of C as Python: vectors are numbers, masks are truth values."""
    text = re.sub(r"\(vec\)\(\(ints\)(\w+) & .*\)$", r"abs(\1)", text)
    return text.replace("(vec){0}", "0.0").replace("(real)", "")


PLAIN = {"vec_max": max, "vec_min": min, "vec_exp": np.exp, "vec_pick": lambda mask, a, b: a if mask else b, "abs": abs}


def test_the_nest_of_the_mapping_can_be_recognised():
    nest = emit(CASES["edges"], fast=True).split("void nest(")[1].split("#ifndef")[0]
    found = [line.split("/* ")[1].split(" */")[0] for line in nest.splitlines() if "/* " in line]
    assert found == [
        "for n by 16",
        "for k by 5",
        "[L3 holds B] B 5x16",
        "for m by 6",
        "[L2 holds A] A 6x5",
        "for n by 8",
        "for m by 3",
    ]
    assert "[Registers holds Z]: 3 m x 8 n, in vectors of" in emit(CASES["edges"], fast=True)


def test_an_input_is_packed_block_by_block_as_the_loops_inside_read_it():
    text = emit(CASES["edges"], fast=True)
    assert "static real L3_B[80] __attribute__((aligned(4096))); /* 2 blocks of n x 5 k x 8 n */" in text
    assert "static real L2_A[30] __attribute__((aligned(4096))); /* 2 blocks of m x 5 k x 3 m */" in text


@pytest.mark.parametrize(("times", "rows", "h"), [("", 4, 6), ("3*", 6, 12)])
def test_a_register_tile_reads_each_value_of_an_image_once(times, rows, h):
    """2 x 4 sums of 3 x 3 taps: 4 x 6 values, with steps of 3 two bands of three rows; sums and taps fit registers."""
    sizes = {"p": 4, "q": 8, "r": 3, "s": 3, "c": 8, "h": h, "w": 10}
    nest = fast_nest(product(WINDOWS, sizes, DEPTHWISE.format(times)))
    assert nest.window is not None
    assert nest.window.places == rows * 6
    assert (nest.registers, nest.window.kept) == (16, False)
    assert replace(nest, tile=replace(nest.tile, lanes=16)).window.kept  # 8 sums, 9 taps, 2 more of 32


def test_sums_of_other_lengths_read_no_window():
    """A tile whose taps are cut (two rows of three, and then one), and a product, have plain loops."""
    sizes = {"p": 4, "q": 8, "r": 3, "s": 3, "c": 8, "h": 6, "w": 10}
    cut = WINDOWS.replace("    p by 2\n", "    r by 2\n    p by 2\n")
    assert fast_nest(product(cut, sizes, DEPTHWISE.format(""))).window is None
    assert fast_nest(CASES["even"]).window is None


@needs_compiler
@pytest.mark.parametrize("sizes", [{"m": 12, "k": 10, "n": 32}, {"m": 13, "k": 11, "n": 35}])
def test_register_tiles_fetch_what_is_packed_next(sizes, tmp_path, monkeypatch):
    """B is packed anew for each 5 of k: tiles of m fetch its next rows, one vector of two in each of two turns."""
    assert fast_nest(product(GOTO, sizes)).ahead is None  # small inputs stay in caches
    monkeypatch.setattr(fast_nests, "FAR", 0)
    monkeypatch.setattr(fast_nests, "LEAST_SUMS", 6)
    spec = product(GOTO, sizes)
    ahead = fast_nest(spec).ahead
    assert (ahead.tensor, ahead.mover.variable, ahead.turns.variable) == ("B", "k", "m")
    n = sizes["n"]
    place = f"B + k1 * {n} + n2 + (k1 + 5 < {sizes['k']} ? {5 * n} : 0) + (m2 - m1) / 3 % 2 * 4"
    assert place in emit(spec, fast=True)
    assert run_fast(spec, tmp_path) == "equal to the plain loops\n"
    assert ahead.part(2) == 1 - 1 / ahead.mover.iterations
    assert ahead.part(8) == ahead.part(2) / 4  # two turns fetch two vectors of eight


def test_even_tiles_need_no_code_for_edges():
    assert "edge_Z" not in emit(CASES["even"], fast=True)
    assert "edge_Z" in emit(CASES["edges"], fast=True)


def test_a_tile_at_an_edge_has_the_vectors_that_it_needs():
    nest = fast_nest(CASES["edges"])
    assert nest.sizes("n") == {8: 4, 3: 1}  # 35 of n by 16, then by 8; vectors of 4
    assert nest.edge_parts == (1, 2)
    assert fast_nest(product(GOTO, {"m": 12, "k": 11, "n": 35})).edge_parts == (1,)
    remainder = product(GOTO.replace("n by 16", "n by 24"), {"m": 12, "k": 10, "n": 32})
    assert fast_nest(remainder).uneven == ()  # 24 and 8 of n, both by 8
    assert "edge_Z" not in emit(remainder, fast=True)
    behind = fast_nest(CASES["cut off behind a vector"])
    assert (behind.uneven, behind.whole_parts, behind.edge_parts) == (("n",), (1,), ())  # 8 and 4 of n
    assert not fast_nest(CASES["cores"]).has_parts  # 5 of n: two vectors, as in all tiles


SUM = "Z[m, n] = A[m, k] + B[k, n]"
SIZES = {"m": 6, "k": 5, "n": 16}
ALONG_M = GOTO.replace("n by 4", "n by 1").replace("m by 1\n", "").replace("n by 1 on", "m by 1 on")
LARGE = GOTO.replace("n by 8", "n by 64").replace("n by 16", "n by 64")
REFUSED = {
    "no sum of products": (GOTO, SIZES, SUM, 32),
    "not all of 32 bits": (GOTO, SIZES, MATMUL, 8),
    "spreads the sums over 'k'": (GOTO.replace("k by 5", "k by 5 on Cores.cores"), {**SIZES, "k": 9}, MATMUL, 32),
    "lie along 'n'": (ALONG_M, SIZES, MATMUL, 32),
    "by a number": (GOTO, {**SIZES, "p": 21}, "Z[m, n] = A[m, k] * B[P: n + k + 1]", 32),
    "at most 64 are kept": (LARGE.replace("m by 3", "m by 6"), {**SIZES, "n": 64}, MATMUL, 32),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_product_for_vectors_is_refused(text):
    nest, sizes, einsum, bits = REFUSED[text]
    with pytest.raises(NotSupportedError, match=text):
        emit(product(nest, sizes, einsum, bits), fast=True)


UNFUSED = FUSED.replace("holds A B C Y", "holds A B C Z Y").replace("holds Z B", "holds B")
NOT_FUSED = {
    "reads 'Z' from Main, which holds all of it": fused("relu({Z} + {C})", EDGES, outside=UNFUSED),
    "reads 'A', which the product reads too": fused("{Z} + {C} + A[M: m, K: n]", {"m": 13, "k": 37, "n": 37}),
}


@pytest.mark.parametrize("text", NOT_FUSED)
def test_what_cannot_be_fused_is_refused(text):
    with pytest.raises(NotSupportedError, match=text):
        emit(NOT_FUSED[text], fast=True)


def test_fast_code_is_c():
    with pytest.raises(einmap.SpecError, match="fast code is C, found the language 'python'"):
        emit(CASES["even"], "python", fast=True)
