"""Seconds of fast code predicted from its nest: misses and steps counted by hand, and what makes code slow."""

import json
from math import inf

import pytest
from tests.emit.test_fast import GOTO, loop, product
from tests.matmul.test_as_arch import RATES, SMALL

import einmap
from einmap.bench.misses import Array, Reuse
from einmap.bench.predict import WAITING, Cache, Core, core_of, predicted
from einmap.emit.fast.fast_c import fast_nest
from einmap.matmul.measured import as_arch
from einmap.matmul.measured.registers import Tile

EVEN = {"m": 12, "k": 10, "n": 32}
ROWS = """
    Main holds A B Z
    n by 16
    k by 1
    Registers holds Z
    m by 1
    n by 4
    n by 1 on FMA.lanes
    Z on FMA
"""
HERE = """
    MainMemory holds A B Z
    L1 holds A B
    n by 16
    Registers holds Z
    k by 1
    m by 1
    n by 1 on FMA.lanes
    Z on FMA
"""


def reuse(sizes, nest=GOTO):
    return Reuse(fast_nest(product(nest, sizes)), dict.fromkeys("ABZ", 4))


def core(caches=(), registers=32):
    return Core(1.0, 2.0, registers, tuple(caches))


def by_name(found):
    return {f"{a.tensor} {a.kind}": b for a, b in found.items()}


def test_a_cache_that_holds_all_misses_each_array_once_and_then_nothing():
    found = by_name(reuse(EVEN).bytes_into(1e6, warm=False))
    # rows of A have 40 bytes, 12 of them lie together; copies of 5 x 16 and of 6 x 5 values
    assert found == {"A source": 512, "A copy": 120, "B source": 1280, "B copy": 320, "Z place": 1536}
    assert not any(reuse(EVEN).bytes_into(1e6, warm=True).values())


def test_a_cache_that_holds_nothing_misses_each_tile_each_time():
    found = by_name(reuse(EVEN).bytes_into(64, warm=True))
    tiles = 2 * 2 * 2 * 2 * 2  # of n, k, m, n and m
    assert found["Z place"] == tiles * 3 * 64
    assert found["A source"] == 8 * 6 * 64  # packed in 8 turns, of 6 rows in a line each
    assert found["B source"] == 4 * 5 * 64
    # packed, and read by all tiles: 3 x 5 and 5 x 8 values
    assert found["A copy"] == 8 * 120 + tiles * 60
    assert found["B copy"] == 4 * 320 + tiles * 160


@pytest.mark.parametrize(("n", "crowded"), [(1024, True), (1040, False)])
def test_rows_that_share_a_set_are_missed_in_each_turn(n, crowded):
    found = reuse({"m": 16, "k": 4, "n": n}, ROWS)
    z = Array("Z", "place")
    assert found.is_crowded(z, len(found.nest.steps), 32768) == crowded
    once = found.footprint(z, 0)
    assert found.bytes_into(32768, warm=True)[z] == (4 if crowded else 1) * once


def test_steps_are_those_counted_by_hand():
    nest = fast_nest(product(GOTO, EVEN))
    found = predicted(nest, core())
    # 6 vectors of sums and 5 turns of k: 30 multiply-adds, and 6 sums that are added to what is there
    assert found.tiles == 32 * 36
    # B: 4 times 20 vectors and 10 lines; A: 8 times 30 values one by one and 10 lines
    assert found.packing == 4 * (20 + 10 * 4) + 8 * (30 + 10 * 4)


def test_what_does_not_fit_the_registers_and_what_caches_miss_takes_time():
    nest = fast_nest(product(GOTO, EVEN))
    free = predicted(nest, core()).seconds
    assert predicted(nest, core(registers=4)).tiles > predicted(nest, core()).tiles
    assert predicted(nest, core([Cache("L1", 64, inf)])).seconds == free
    slow = predicted(nest, core([Cache("L1", 64, 1.0)]))
    assert slow.seconds == slow.missed["L1"] > free
    assert predicted(nest, core([Cache("L1", 1e6, 1.0)])).seconds == free


@pytest.mark.parametrize(("n", "waits"), [(1024, 4 * 2), (1040, 0)])
def test_loads_wait_for_stores_a_page_away(n, waits):
    """Sums of three rows are added to what is there; rows of 1,024 floats are 4,096 bytes apart."""
    nest = fast_nest(product(GOTO.replace("n by 8\n", "n by 4\n"), {"m": 6, "k": 10, "n": n}))
    visits = 2 * 2 * n // 4  # two tiles of m, and of k
    # 5 turns with 3 multiply-adds, and 3 sums that are added to what is there
    assert predicted(nest, core()).tiles == visits * (18 + waits)


IMAGE = """
    Main holds I F O
    k by 4
    Registers holds O
    r by 1
    c by 1
    p by 1
    k by 1 on FMA.lanes
    O on FMA
"""


@pytest.mark.parametrize(("c", "again"), [(1024, 2 * 4), (1040, 0)])
def test_rows_of_an_image_that_share_a_set_are_fetched_again_for_each_value(c, again):
    """Twelve rows of 1,024 floats are 4,096 bytes apart: four more than a set has lines."""
    sizes = {"p": 12, "r": 2, "c": c, "k": 8, "h": 13}
    nest = fast_nest(product(IMAGE, sizes, "O[p, k] = I[H: p + r, c] * F[r, c, k]"))
    assert nest.in_place == {"I"}
    visits, turns = 2, 2 * c
    assert predicted(nest, core()).tiles == pytest.approx(visits * turns * (12 + again), rel=0.01)


def test_what_comes_into_the_nearest_cache_keeps_it_from_serving_loads():
    """Of 2 loads of vectors and 4 of values in a step loads are the busiest; 30 % of the transfer are added."""
    sizes = {"m": 1, "k": 64, "n": 16}
    nest = fast_nest(product(ROWS, sizes))
    free, slow = (predicted(nest, core([Cache("L1", 64, rate)])).tiles for rate in (inf, 1e3))
    missed = sum(b for a, b in reuse(sizes, ROWS).bytes_into(64, warm=True).items() if a.kind != "source")
    assert slow == pytest.approx(free + WAITING * missed / 1e3)


def test_a_larger_register_tile_is_predicted_to_be_faster():
    small = product(GOTO.replace("m by 3", "m by 1"), EVEN)
    assert predicted(fast_nest(small), core()).tiles > 1.2 * predicted(fast_nest(product(GOTO, EVEN)), core()).tiles


def test_a_tile_at_an_edge_is_predicted_to_take_the_time_of_its_vectors():
    full, edge = (predicted(fast_nest(product(GOTO, {**EVEN, "n": n})), core()).tiles for n in (40, 36))
    assert edge == pytest.approx(full * (9 / 10))  # of 10 vectors of 4 along n the last one is not there


def test_the_core_is_that_of_the_architecture(monkeypatch, tmp_path):
    monkeypatch.setattr(as_arch, "TILE", Tile(8, 2, 512))
    file = tmp_path / "cpu.yaml"
    file.write_text(as_arch.arch_text(as_arch.Core(SMALL, RATES, as_arch.assumed_latencies(SMALL))))
    product = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "rank_sizes": {"M": 2, "K": 8, "N": 16}}
    content = {"workload": product | {"bits_per_value": {"All": 32}}}
    content["mapping"] = {"nodes": [loop(line.strip()) for line in HERE.strip().splitlines()]}
    (tmp_path / "product.yaml").write_text(json.dumps(content))
    spec = einmap.load([file, tmp_path / "product.yaml"])
    found = core_of(spec, fast_nest(spec))
    assert [(c.name, round(c.size), c.rate) for c in found.caches] == [
        ("L1", 1024, 64e9),
        ("L2", 8192, 32e9),
        ("L3", 65536, 16e9),
    ]
    assert (1 / found.step, found.loads, found.registers) == (pytest.approx(4e9), pytest.approx(2), 32)


def test_without_rates_nothing_is_predicted():
    spec = product(GOTO, EVEN)
    assert core_of(spec, fast_nest(spec)) is None
