"""Emitted code computes the right result and moves what the model counts."""

import os
import random
import subprocess
import sys

import pytest
from tests.amounts import some
from tests.emit.running import FLAGS, counted, differences, needs_compiler, problems, problems_in_c, run_c
from tests.examples.test_mappings import MAPPINGS, SMALL, loaded, with_tile_shapes
from tests.random_specs.cases import draw_case, valid_case, valid_networks
from tests.random_specs.gathers import GATHERS

import einmap
from einmap.errors import NotSupportedError

REDUCED = {
    **SMALL,
    "edge_mobilenet_pair_unfused": SMALL["edge_mobilenet_pair_fused"],
    "eyeriss_conv": {"C": 16, "M": 32, "P": 14, "Q": 2, "R": 3, "S": 3, "STRIDE": 2, "BITS": 16},
    "tpu_v4i_matmul": {"M": 2, "K": 128, "N": 512},
}
SIMBA = {"C": 8, "M": 16, "P": 4, "Q": 2, "R": 3, "S": 2}
SIMBA_TILES = [2, 8, 4, 4, 1, 2, 1, 2, 1, 1, 1, 1]


def reduced(name):
    """A shipped mapping at a size that Python runs in a second; Eyeriss with a stride of 2."""
    if name == "simba_conv":
        return with_tile_shapes(einmap.load("simba", "conv", name, define=SIMBA), SIMBA_TILES)
    if name == "eyeriss_conv":
        return einmap.load("eyeriss", "conv", name, define=REDUCED[name])
    return loaded(name, **REDUCED[name])


def valid_gathers(rng):
    return valid_case(rng, lambda same: draw_case(same, GATHERS))


def drawn(seed):
    """A random mapping that can be emitted, and its cost; of ten seeds one is of a network, two are of gathers."""
    rng = random.Random(seed)
    draw = {0: valid_networks, 3: valid_gathers, 7: valid_gathers}.get(seed % 10, valid_case)
    while True:
        spec, cost = draw(rng)
        try:
            einmap.emit(spec, "pseudo")
        except NotSupportedError:
            continue  # a line buffer, indices that lie in lanes
        return spec, cost


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_shipped_mappings_are_emitted_in_full_size(name):
    spec = loaded(name)
    assert all(einmap.emit(spec, lang) for lang in ("pseudo", "python", "c"))


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_python_of_shipped_mappings_moves_what_is_counted(name):
    spec = reduced(name)
    assert problems(einmap.emit(spec, "python"), spec) == []


@needs_compiler
@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_c_of_shipped_mappings_moves_what_is_counted(name, tmp_path):
    spec = reduced(name)
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []


def test_python_of_12_random_mappings_moves_what_is_counted():
    for seed in range(5_000, 5_012):
        spec, cost = drawn(seed)
        assert problems(einmap.emit(spec, "python"), spec, cost) == [], seed


@needs_compiler
@pytest.mark.parametrize("seed", some(3, range(6_000, 6_010), "emit"))
def test_c_of_10_random_mappings_moves_what_is_counted(seed, tmp_path):
    spec, cost = drawn(seed)
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path, cost) == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.emit
@pytest.mark.parametrize("part", range(20))
def test_200_random_mappings_move_what_is_counted(part, tmp_path):
    for seed in range(7_000 + 10 * part, 7_000 + 10 * part + 10):
        spec, cost = drawn(seed)
        assert problems(einmap.emit(spec, "python"), spec, cost) == [], seed
        assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path, cost) == [], seed


@pytest.mark.slow
@pytest.mark.emit
@pytest.mark.parametrize("part", range(20))
def test_python_of_2000_random_mappings_moves_what_is_counted(part):
    for seed in range(10_000 + 100 * part, 10_000 + 100 * part + 100):
        spec, cost = drawn(seed)
        assert problems(einmap.emit(spec, "python"), spec, cost) == [], seed


@needs_compiler
def test_the_c_file_notices_a_move_that_is_missing(tmp_path):
    text = einmap.emit(loaded("simple_matmul", M=16, K=4, N=16), "c")
    call = next(line for line in text.splitlines() if line.startswith("    mvin(&GlobalBuffer_B"))
    status, printed, _ = run_c(text.replace(call, ""), tmp_path)
    assert status == 1
    assert "wrong: element 0 of Z is 0, not" in printed


@needs_compiler
def test_independent_lanes_run_in_parallel(tmp_path):
    spec = reduced("simba_conv")
    text = einmap.emit(spec, "c")
    assert "#pragma omp parallel for reduction(+ : " in text
    try:
        status, _, moved = run_c(text, tmp_path, "-std=c99", "-Wall", "-Werror", "-fopenmp")
    except AssertionError as refused:
        pytest.skip(f"the compiler has no OpenMP: {str(refused)[:80]}")
    assert (status, differences(moved, counted(spec))) == (0, [])


def test_flags_of_the_compiler_are_those_that_the_tests_promise():
    assert {"-std=c99", "-Wall", "-Werror", "-fsanitize=address,undefined"} <= set(FLAGS)


def test_the_text_does_not_depend_on_the_order_of_sets():
    code = (
        "import random, einmap, tests.random_specs.cases as t\n"
        "for seed in (3, 7, 12): spec, _ = t.valid_case(random.Random(seed));"
        " print(*(einmap.emit(spec, lang) for lang in ('pseudo', 'python', 'c')))"
    )
    texts = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        texts.add(done.stdout)
    assert len(texts) == 1
