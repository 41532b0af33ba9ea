"""A processor as an architecture: the mapper finds a nest for it that fast code can run."""

import numpy as np
import pytest

import einmap
from einmap.emit.emit import emit
from einmap.emit.fast.fast_c import fast_nest
from einmap.errors import SpecError
from einmap.matmul.measured import as_arch
from einmap.matmul.measured.as_arch import Core, arch_text, assumed_latencies
from einmap.matmul.measured.latency import chain, chased, measured_latencies
from einmap.matmul.measured.registers import Tile
from einmap.matmul.measured.this_cpu import Cache, Processor, Rates
from einmap.progress import Progress

SMALL = Processor((Cache(1, 1024, 64, 1), Cache(2, 8192, 64, 1), Cache(3, 2**16, 64, 4)), 4, 2e9)
RATES = Rates((("fp32", 128e9), ("fp64", 64e9)), (512e9, 256e9, 128e9), "as written here")
SIZES = {"M": 24, "K": 8, "N": 64, "BITS": 32}


@pytest.fixture(autouse=True)
def _avx512(monkeypatch):
    monkeypatch.setattr(as_arch, "TILE", Tile(8, 2, 512))


@pytest.fixture
def cpu(tmp_path):
    def write(cores=1):
        file = tmp_path / "cpu.yaml"
        file.write_text(arch_text(Core(SMALL, RATES, assumed_latencies(SMALL)), cores))
        return [str(file), "matmul"]

    return write


def test_the_best_mapping_keeps_sums_in_registers_and_neighbours_in_vectors_and_is_emitted(cpu):
    spec = einmap.load(cpu(), define=SIZES)
    found = einmap.map_workload(spec, explore_imperfect_temporal_loops=False)
    *_, lanes, _ = found.mapping.nodes
    assert (str(lanes.rank_variable), lanes.name) == ("n", "lanes")
    assert found.cost.latency >= 2 * 24 * 8 * 64 / 128e9  # the peak
    assert "vec sum" in emit(spec.with_mapping(found.mapping), fast=True)


def test_sums_stay_in_registers_while_inputs_stream_by(cpu):
    spec = einmap.load(cpu(), define=SIZES)
    placement = spec.archs["Z"].components["Registers"].placement
    assert placement.order_allows({"Z": 0, "A": 1, "B": 2}, {})
    assert placement.order_allows({"Z": 0, "B": 1, "A": 2}, {})
    assert not placement.order_allows({"A": 0, "Z": 1, "B": 2}, {})


def test_what_is_between_einsums_stays_in_the_cores_own_cache_and_is_emitted_as_one_nest(cpu):
    spec = einmap.load([cpu()[0], "matmul_chain"], define={"M": 4, "N": 16, "BITS": 32, "FUSED": 1})
    found = einmap.map_workload(spec)
    assert found.optimal
    nest = fast_nest(spec.with_mapping(found.mapping))
    assert (nest.kept["T1"].memory, nest.kept["T1"].extents[1]) == ("L2", 16)


def test_with_several_cores_there_is_a_fanout_behind_the_caches_that_they_share(cpu):
    (arch,) = einmap.load(cpu(4), define=SIZES).archs.values()
    names = [node.name for node in arch.nodes]
    assert names.index("L3") < names.index("Cores") < names.index("L2")


def test_more_cores_than_there_are_are_refused():
    with pytest.raises(SpecError, match="1 to 4 cores, found 5"):
        arch_text(Core(SMALL, RATES, assumed_latencies(SMALL)), 5)


def test_a_chain_passes_every_line_once():
    following = chain(64 * 10, 64, np.random.default_rng(1))
    places = [chased(following, steps) for steps in range(11)]
    assert sorted(places[:10]) == list(range(0, 80, 8))
    assert places[10] == places[0]


def test_a_load_from_further_out_takes_longer():
    found = measured_latencies(Processor((Cache(1, 2**15, 64, 1),), 1, None), Progress())
    assert 0 < found[0] < found[1] * 1.5
