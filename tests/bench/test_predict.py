"""Seconds of fast code predicted from its nest: misses and steps counted by hand, and what makes code slow."""

import json
from dataclasses import replace
from math import inf

import pytest
from tests.emit.test_fast import DEPTHWISE, GOTO, WINDOWS, loop, product
from tests.matmul.test_as_arch import RATES, SMALL

import einmap
from einmap.bench.misses import Array, Reuse
from einmap.bench.predict import Cache, Core, _visits, core_of, predicted, together
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
    # 6 vectors of sums and 5 turns of k: 30 multiply-adds, and 6 sums that are added to what is there;
    # 2 loads of vectors and 3 of values, 2 in a step, 6 sums that are read, half a step for each store
    assert found.tiles == pytest.approx(32 * together([36, 5 * 3.5 + 6 + 3]))
    # B: 4 times 20 vectors and 10 lines; A: 8 times 30 values one by one and 10 lines
    assert found.packing == 4 * (20 + 10 * 4) + 8 * (30 + 10 * 4)


@pytest.mark.parametrize(("m", "steps"), [(3, 60 + 20 * 4), (4, 60 / 2 + 15 * 4)])
def test_rows_of_four_are_stored_at_once(m, steps):
    """A has 60 values, in 20 lines of 3 rows or in 15 of 4, of which two values are loaded in a step."""
    nest = fast_nest(
        product(GOTO.replace("m by 6", "m by 12").replace("m by 3", f"m by {m}"), {"m": 12, "k": 5, "n": 16})
    )
    assert predicted(nest, core()).packing == 20 + 10 * 4 + steps  # B: 20 vectors in 10 lines


def test_what_does_not_fit_the_registers_and_what_caches_miss_takes_time():
    nest = fast_nest(product(GOTO, EVEN))
    free = predicted(nest, core()).seconds
    assert predicted(nest, core(registers=4)).tiles > predicted(nest, core()).tiles
    assert predicted(nest, core([Cache("L1", 64, inf)])).seconds == free
    slow = predicted(nest, core([Cache("L1", 64, 1.0)]))
    assert slow.seconds == pytest.approx(slow.missed["L1"], rel=0.01)
    assert slow.seconds > 9 * free
    assert predicted(nest, core([Cache("L1", 1e6, 1.0)])).seconds == free


@pytest.mark.parametrize(("n", "waits"), [(1024, 4 * 2), (1040, 0)])
def test_loads_wait_for_stores_a_page_away(n, waits):
    """Sums of three rows are added to what is there; rows of 1,024 floats are 4,096 bytes apart."""
    nest = fast_nest(product(GOTO.replace("n by 8\n", "n by 4\n"), {"m": 6, "k": 10, "n": n}))
    visits = 2 * 2 * n // 4  # two tiles of m, and of k
    # 5 turns with 3 multiply-adds, and 3 sums that are added to what is there; beside them 17 steps of loads
    assert predicted(nest, core()).tiles == pytest.approx(visits * (together([18, 17]) + waits))


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
    # 12 multiply-adds in a turn, and loads of a vector and 12 values
    assert predicted(nest, core()).tiles == pytest.approx(visits * turns * (together([12, 7]) + again), rel=0.01)


def test_what_goes_on_at_once_takes_longer_than_the_longest_of_it():
    assert together([3, 4, 5]) == pytest.approx(6)  # 27 + 64 + 125 is 216
    assert together([0, 0]) == 0


def test_a_window_is_loaded_once():
    """2 x 4 sums of 3 x 3 taps: 72 multiply-adds; 4 x 6 values of the image and 9 taps (or one for each sum)."""
    sizes = {"p": 4, "q": 8, "r": 3, "s": 3, "c": 8, "h": 6, "w": 10}
    few = fast_nest(product(WINDOWS, sizes, DEPTHWISE.format("")))
    assert few.registers == 16
    many = replace(few, tile=replace(few.tile, lanes=16))
    found = [_visits(nest, core()) for nest in (few, many)]
    visits = 2 * 2
    # vectors of 8 channels: two of 4, of which each is a part of a visit, and one of 16
    assert found[0].computed == visits * 2 * 72
    assert found[0].moved == visits * 2 * (24 + 72 + 4)
    assert (found[1].computed, found[1].moved) == (visits * 72, visits * (24 + 9 + 4))


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
