"""Mappings of one core on several: equal parts, the fewest copies, values as the Einsum says, and what is then chosen."""

import json
from types import SimpleNamespace

import pytest
from tests.bench.test_predict import EVEN, core, reuse
from tests.emit.running import needs_compiler
from tests.emit.test_fast import GOTO, loop, product
from tests.matmul.test_as_arch import RATES, SMALL

import einmap
from einmap.bench.bench import benchmark
from einmap.bench.misses import Array
from einmap.bench.predict import FORK, cores_of, predicted
from einmap.bench.refine import SECONDS, cost_of
from einmap.bench.search import Way, best_mapped
from einmap.bench.spread import best_spread
from einmap.emit.fast.fast_c import fast_nest, text_of
from einmap.errors import NoMappingError
from einmap.matmul.measured import as_arch
from einmap.matmul.measured.registers import Tile
from einmap.progress import Progress

ALONE = """
    MainMemory holds A B Z
    k by 4
    L3 holds A
    n by 48
    L2 holds B
    m by 3
    Registers holds Z
    k by 1
    m by 1
    n by 16
    n by 1 on FMA.lanes
    Z on FMA
"""
SPREAD = GOTO.replace("m by 6", "m by 6 on Cores.cores")


@pytest.fixture
def ways(monkeypatch, tmp_path):
    """A product with a mapping of one core, and the same for two cores without one."""
    monkeypatch.setattr(as_arch, "TILE", Tile(8, 2, 512))
    workload = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "rank_sizes": {"M": 24, "K": 8, "N": 192}}
    rest = {"workload": workload | {"bits_per_value": {"All": 32}}}
    specs = []
    for cores in (1, 2):
        text = as_arch.arch_text(as_arch.Core(SMALL, RATES, as_arch.assumed_latencies(SMALL)), cores)
        (tmp_path / "cpu.yaml").write_text(text)
        (tmp_path / "rest.yaml").write_text(json.dumps(rest))
        specs.append(einmap.load([tmp_path / "cpu.yaml", tmp_path / "rest.yaml"]))
    nodes = [loop(line.strip()) for line in ALONE.strip().splitlines()]
    return specs[0].set("mapping", {"nodes": nodes}), specs[1]


def test_each_core_has_an_equal_part_and_takes_half_as_long(ways):
    alone, several = ways
    found = best_spread(alone, several)
    nest = fast_nest(found)
    (lanes,) = (e for e in nest.loops if e.lanes)
    assert (lanes.iterations, lanes.extent % lanes.tile) == (2, 0)
    before, after = (cost_of(spec, SECONDS)[0] - FORK * n for spec, n in ((alone, 0), (found, 4)))
    assert after < 0.6 * before


def test_an_architecture_of_one_core_spreads_nothing(ways):
    assert best_spread(ways[0], ways[0]) is None


@needs_compiler
def test_values_of_several_cores_are_exact(ways):
    found = benchmark(best_spread(*ways), rounds=1, compare=False, flushed=2**12)
    assert (found.cores, found.correct) == (2, True)


def test_cores_pack_together_what_they_share():
    text = text_of(fast_nest(product(SPREAD, EVEN)))
    function = text[text.index("static void pack_B") : text.index("static void pack_A")]
    assert function.count("#pragma omp parallel for") == 1
    assert text.count("#pragma omp parallel for") == 2
    assert "#pragma" not in text_of(fast_nest(product(GOTO, EVEN)))


def test_one_core_of_two_takes_half_the_tiles_and_half_of_what_is_packed():
    one, two = (fast_nest(product(text, EVEN)) for text in (GOTO, SPREAD))
    assert cores_of(two) == 2
    before, after = (predicted(nest, core()) for nest in (one, two))
    turns = 2 * 2  # of n and k: each packs B together, and then runs its tiles
    assert after.tiles - 2 * turns * FORK == pytest.approx(before.tiles / 2)
    assert after.packing == pytest.approx(before.packing / 2)
    b, a = (Array(t, "source", place) for t, place in (("B", 2), ("A", 4)))
    whole, part = (reuse(EVEN, nest).bytes_into(64, warm=True) for nest in (GOTO, SPREAD))
    assert (part[a], part[b]) == (whole[a] / 2, whole[b])
    assert part[Array("Z", "place")] == whole[Array("Z", "place")] / 2


def test_the_mapping_of_one_core_is_spread_where_none_is_found_for_several(ways, monkeypatch):
    alone, several = ways
    asked = []

    def searched(spec, **options):
        asked.append(len(spec.archs["Z"].leaves))
        if spec is several:
            raise NoMappingError("no mapping of Einsum 'Z' was found in time")
        return SimpleNamespace(spec=spec, mapping=alone.mapping, metrics=("energy",), optimal=True)

    monkeypatch.setattr("einmap.bench.search.best_mappings", searched)
    found = best_mapped([Way(several, alone)], 60.0, {}, Progress())
    assert cores_of(fast_nest(found)) == 2
    assert len(asked) == 2
    assert cost_of(found, SECONDS) <= cost_of(best_spread(alone, several), SECONDS)
