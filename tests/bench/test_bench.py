"""A mapping that is run: values as the Einsum says, times of all contenders in turn, errors that say what is missing."""

import csv
import json
from math import prod
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.emit.running import needs_compiler
from tests.emit.test_fast import CASES, GOTO, MAPS, loop, machine, product
from tests.matmul.test_as_arch import RATES, SMALL

import einmap
from einmap.bench import bench, refine
from einmap.bench.bench import MAPPED, benchmark
from einmap.bench.cascades import attention_of, fractions_of, one_by_one
from einmap.bench.compiler import Library, compiler_at_hand
from einmap.bench.refine import refined
from einmap.bench.register_tile import in_registers
from einmap.bench.result import Spread
from einmap.bench.search import mapped
from einmap.bench.timing import Times, in_turn
from einmap.bench.values import by_numpy, inputs_of
from einmap.einsum.numeric import run as evaluated
from einmap.emit.fast.fast_c import fast_nest
from einmap.errors import NoMappingError, NotSupportedError, SpecError
from einmap.matmul.measured import as_arch
from einmap.matmul.measured.registers import Tile
from einmap.matmul.measured.this_cpu import Cache, Processor
from einmap.progress import Progress

SIZES = {"M": 7, "K": 6, "N": 19}
CONVOLUTION = "a convolution, channels last, strided"
SPECS = Path(__file__).parents[2] / "benchmarks/specs"
ATTENTION, ONLINE = (SPECS / f"this_cpu_attention{kind}.yaml" for kind in ("", "_online"))
HERE = """
    MainMemory holds A B Z
    L1 holds A B
    m by 3
    n by 8
    Registers holds Z
    k by 1
    m by 1
    n by 1
    Z on FMA
"""


@pytest.fixture
def files(tmp_path):
    """An architecture, a workload and a mapping of a product, each in a file of its own."""
    workload = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "rank_sizes": SIZES, "bits_per_value": {"All": 32}}
    parts = {"arch": machine(), "workload": workload, "mapping": {"nodes": nodes(GOTO)}}
    for name, content in parts.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps({name: content}))
    return [tmp_path / f"{name}.yaml" for name in parts]


def nodes(text):
    return [loop(line.strip()) for line in text.strip().splitlines()]


@pytest.mark.parametrize("name", ["edges", CONVOLUTION, "depthwise", "three factors, one along the vectors alone"])
def test_values_to_come_out_are_those_of_the_einsum(name):
    nest = fast_nest(CASES[name])
    inputs = inputs_of(nest.einsum, nest.shapes, np.dtype(np.float32))
    expected = evaluated(CASES[name].workload, inputs)[nest.output]
    assert np.abs(expected).max() > 3
    assert np.array_equal(by_numpy(nest.einsum, inputs), expected)


@needs_compiler
@pytest.mark.parametrize("name", ["double", CONVOLUTION, "cores"])
def test_the_code_and_the_library_compute_the_einsum(name):
    found = benchmark(CASES[name], rounds=2, flushed=2**12)
    ours, numpy = found.runs[:2]
    assert (ours.name, ours.differ, numpy.differ) == (MAPPED, 0, 0)
    assert len(ours.times.warm) == len(numpy.times.cold) == 2
    assert found.cores == (3 if name == "cores" else 1)
    main = [m.bits for m in found.moved if (m.memory, m.action) == ("Main", "write")]
    assert main == [sum(main)] and main[0] >= 8 * ours_bytes(CASES[name])


@needs_compiler
@pytest.mark.parametrize("bits", [8, 16])
def test_narrow_inputs_run_beside_float32(bits):
    spec = product(GOTO, {"m": 7, "k": 6, "n": 19}, widths={"Inputs": bits, "Outputs": 32})
    found = benchmark(spec, rounds=1, flushed=2**12)
    assert [(r.name, r.differ) for r in found.runs][:2] == [(MAPPED, 0), ("NumPy's BLAS, float32", 0)]
    assert (found.exact, found.by_nest) == (True, None)


@needs_compiler
def test_a_fused_map_runs_beside_numpy_that_maps_afterwards():
    found = benchmark(MAPS["gelu"], rounds=1, flushed=2**12)
    assert [(r.name, r.differ) for r in found.runs] == [(MAPPED, 0), ("NumPy's BLAS, then the map", 0)]
    assert not found.exact
    assert {m.tensor for m in found.moved if m.memory == "Main"} == {"A", "B", "C", "Y"}


@needs_compiler
def test_attention_runs_beside_numpy_one_einsum_after_another(tmp_path):
    cpu = Processor((Cache(1, 2**15, 64, 1), Cache(2, 2**20, 64, 1), Cache(3, 2**25, 64, 2)), 2, 2.6e9)
    (tmp_path / "cpu.yaml").write_text(as_arch.arch_text(as_arch.Core(cpu, RATES, as_arch.assumed_latencies(cpu))))
    size = {"HEADS": 2, "N_TOKENS": 12, "N_CACHED": 17, "D_HEAD": 8, "BITS": 32, "ROWS": 7}
    spec = einmap.load(tmp_path / "cpu.yaml", "attention_core", ATTENTION, define=size)
    found = benchmark(spec, rounds=1, flushed=2**12)
    assert [(r.name, r.differ) for r in found.runs][:2] == [(MAPPED, 0), ("NumPy, one by one", 0)]
    cascade = fast_nest(spec)
    assert attention_of(cascade) == ("Q", "K", "V")
    assert found.flops == 2 * 12 * 17 * (8 + 8) * 2 + 3 * 2 * 12 * 17 + 2 * 12 * 8
    values = fractions_of(cascade, np.dtype(np.float64))
    assert np.allclose(one_by_one(cascade, values)["AV"], evaluated(spec.workload, values)["AV"], atol=1e-14)
    spec = einmap.load(tmp_path / "cpu.yaml", "attention_core", ONLINE, define={**size, "BLOCK": 5, "N_CACHED": 20})
    found = benchmark(spec, rounds=1, flushed=2**12)
    assert [(r.name, r.differ) for r in found.runs] == [(MAPPED, 0), ("NumPy, one by one", 0)]
    values = fractions_of(fast_nest(spec), np.dtype(np.float64))
    assert np.allclose(one_by_one(fast_nest(spec), values)["AV"], evaluated(spec.workload, values)["AV"], atol=1e-14)


def ours_bytes(spec):
    """Bytes of the output."""
    nest = fast_nest(spec)
    return np.prod(nest.shapes[nest.output]) * {"float": 4, "double": 8}[nest.real]


@needs_compiler
def test_a_wrong_value_is_found_and_ends_with_status_1(files, run, monkeypatch):  # noqa: F811
    right = Library.on

    def wrong(library, arrays):
        def run():
            right(library, arrays)()
            arrays[-1][3, 2] += 1

        return run

    monkeypatch.setattr(Library, "on", wrong)
    done = run("bench", *files, "--repeats", 1)
    assert done.status == 1
    assert "WRONG: 1 values differ" in " ".join(done.out.split())


@needs_compiler
def test_tables_and_json_hold_what_was_measured(files, run, tmp_path):  # noqa: F811
    done = run("bench", *files, "--repeats", 2, "--json", "--csv", tmp_path / "runs.csv", "-o", tmp_path / "fast.c")
    document = json.loads(done.out)
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert [row["name"] for row in rows][:3] == [MAPPED, MAPPED, "NumPy's BLAS"]
    warm = document["runs"][0]["warm_s"]
    assert float(rows[0]["median [s]"]) == pytest.approx(sum(warm) / 2)
    assert document["flops"] == 2 * 7 * 6 * 19
    assert "void nest(" in (tmp_path / "fast.c").read_text()


@needs_compiler
def test_without_an_architecture_it_is_the_processor_at_hand(files, run, tmp_path):  # noqa: F811
    (tmp_path / "here.yaml").write_text(json.dumps({"mapping": {"nodes": nodes(HERE)}}))
    words = ("bench", files[1], tmp_path / "here.yaml", "--no-measure", "--no-compare", "--repeats", 1)
    done = run(*words)
    assert (done.status, "all values exact" in " ".join(done.out.split())) == (0, True)
    assert "L1 reads, writes" in done.out
    assert run("bench", *files, "--cores", 2).status == 2


def test_without_a_compiler_it_says_so_before_anything_is_searched(files, run, monkeypatch):  # noqa: F811
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(bench, "benchmark", None)
    done = run("bench", *files)
    assert done.status == 2
    assert "the C compiler 'no-such-compiler' that CC names, which is not installed" in " ".join(done.err.split())


def test_tensors_that_no_memory_holds_are_refused():
    large = {"M": 2**20, "K": 2**20, "N": 2**20}
    workload = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "rank_sizes": large, "bits_per_value": {"All": 32}}
    spec = einmap.Spec.from_dict(arch=machine(), workload=workload, mapping={"nodes": nodes(GOTO)})
    with pytest.raises(SpecError, match="at most 17,179,869,184 are held"):
        benchmark(spec)


def test_contenders_run_in_turn_cold_and_then_warm():
    log = []
    contenders = {name: lambda name=name: log.append(name) for name in "ab"}
    times = in_turn(contenders, 2, 1e9, lambda: len(log), 64, Progress())
    assert "".join(log) == "ab" + "aabb" * 2
    assert times == {name: Times((1, 1), (1, 1)) for name in "ab"}


def test_runs_end_after_three_rounds_when_time_is_over_and_after_one_when_stopped():
    stopped = Progress()
    stopped.stop()
    for progress, rounds in ((Progress(), 3), (stopped, 1)):
        times = in_turn({"a": lambda: None}, 9, 0.0, lambda: 0, 64, progress)
        assert len(times["a"].warm) == rounds


def test_the_spread_is_the_quartiles():
    assert Spread.of([5, 1, 2, 4, 3]) == Spread(1, 2, 3, 4)


ROWS = """
    MainMemory holds A B Z
    m by {}
    n by 64
    L1 holds A B
    Registers holds Z
    k by 1
    m by 1
    Registers holds A
    n by 16
    n by 1 on FMA.lanes
    Z on FMA
"""


def test_tile_shapes_that_do_not_divide_a_rank_are_refined(monkeypatch, tmp_path):
    monkeypatch.setattr(as_arch, "TILE", Tile(8, 2, 512))
    cpu, rest = tmp_path / "cpu.yaml", tmp_path / "rest.yaml"
    cpu.write_text(as_arch.arch_text(as_arch.Core(SMALL, RATES, as_arch.assumed_latencies(SMALL))))
    workload = {"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], "bits_per_value": {"All": 32}}
    workload["rank_sizes"] = {"M": 4096, "K": 2, "N": 64}
    costs = {}
    for rows in range(6, 1, -1):
        rest.write_text(json.dumps({"workload": workload, "mapping": {"nodes": nodes(ROWS.format(rows))}}))
        spec = einmap.load([cpu, rest])
        costs[rows] = einmap.evaluate(spec).energy
    found = refined(spec, "energy", Progress())
    assert min(costs, key=costs.get) == 6
    assert einmap.evaluate(found).energy <= costs[6] < costs[2]  # other loops may change, too


IMAGE = """
    MainMemory holds I F O
    c by 64
    L3 holds F
    Registers holds O
    r by 1
    c by 1
    p by 1
    k by 1 on FMA.lanes
    O on FMA
"""


def test_a_register_tile_whose_rows_share_a_set_of_the_cache_gets_a_loop_around_it(monkeypatch, tmp_path):
    monkeypatch.setattr(as_arch, "TILE", Tile(8, 2, 512))
    cpu, rest = tmp_path / "cpu.yaml", tmp_path / "rest.yaml"
    cpu.write_text(as_arch.arch_text(as_arch.Core(SMALL, RATES, as_arch.assumed_latencies(SMALL))))
    workload = {"einsums": ["O[p, k] = I[H: p + r, c] * F[r, c, k]"], "bits_per_value": {"All": 32}}
    workload["rank_sizes"] = {"P": 14, "R": 2, "C": 1024, "K": 16, "H": 15}
    rest.write_text(json.dumps({"workload": workload, "mapping": {"nodes": nodes(IMAGE)}}))
    found = fast_nest(refined(einmap.load([cpu, rest]), refine.SECONDS, Progress()))
    assert dict(found.tile.rows) == {"p": 7}


def test_loops_around_several_einsums_are_refined_and_change_places_where_tiles_get_smaller(monkeypatch, tmp_path):
    monkeypatch.setattr(refine, "ROUNDS", 1)
    cpu = Processor((Cache(1, 2**12, 64, 1), Cache(2, 2**14, 64, 1), Cache(3, 2**20, 64, 2)), 2, 2.6e9)
    text = as_arch.arch_text(as_arch.Core(cpu, RATES, as_arch.assumed_latencies(cpu)), fused=True)
    (tmp_path / "cpu.yaml").write_text(text)
    written = Path(ATTENTION).read_text()
    head, shared = (
        "  - !Temporal {rank_variable: h, tile_shape: 1}\n",
        "  - !Storage {component: L3, tensors: [K, V]}\n",
    )
    rows = "  - !Temporal {rank_variable: m, tile_shape: {{ROWS}}}\n"
    assert head + shared + rows in written
    tiles = "      - !Temporal {rank_variable: p, tile_shape: {{[VECTOR, KEYS] | min}}}\n"
    near = tiles + "      - !Storage {component: L1, tensors: [K]}\n"
    turned = written.replace(head + shared + rows, shared + rows + head).replace(tiles, near)
    (tmp_path / "turned.yaml").write_text(turned)
    size = {"HEADS": 2, "N_TOKENS": 24, "N_CACHED": 32, "D_HEAD": 16, "BITS": 32, "ROWS": 6, "VECTOR": 16}
    spec = einmap.load(tmp_path / "cpu.yaml", "attention_core", tmp_path / "turned.yaml", define=size)
    found = refined(spec, "energy", Progress())
    assert einmap.evaluate(found).energy < einmap.evaluate(spec).energy
    before, after = fast_nest(spec), fast_nest(found)
    packed = [sum(p.layout.size for n in nest.nests.values() for p in n.packed.values()) for nest in (before, after)]
    assert packed[1] < packed[0]
    assert next(iter(after.loops.values())).variable == "h"


@pytest.mark.parametrize(("optimal", "expected"), [(False, [None, 4, 2]), (True, [None])])
def test_of_searches_that_prove_nothing_the_mapping_counts_that_should_be_fastest(optimal, expected, monkeypatch):
    asked = []
    limits = []
    mappings = [spec.mapping for spec in list(CASES.values())[:3]]

    def searched(spec, **options):
        asked.append(options.get("tiling_coarseness"))
        limits.append(options["time_limit_s"])
        return SimpleNamespace(spec=spec, mapping=mappings[len(asked) - 1], metrics=("energy",), optimal=optimal)

    monkeypatch.setattr("einmap.bench.search.best_mappings", searched)
    monkeypatch.setattr("einmap.bench.search.refined", lambda spec, *_: spec)
    monkeypatch.setattr("einmap.bench.search.evaluate", lambda spec: None)
    monkeypatch.setattr("einmap.bench.search.objective", lambda *_: 0.0)
    seconds = dict(zip(map(id, mappings), (3.0, 1.0, 2.0), strict=True))
    monkeypatch.setattr("einmap.bench.search.cost_of", lambda spec, _: (seconds[id(spec.mapping)], 0))
    found = mapped(CASES["edges"], 1.0, {}, Progress())
    assert asked == expected
    assert found.mapping is mappings[0 if optimal else 1]
    assert sum(limits[:1]) <= 0.5


def test_a_search_that_finds_nothing_begins_again_with_fewer_tile_shapes(monkeypatch):
    asked = []

    def searched(spec, **options):
        asked.append(options.get("tiling_coarseness"))
        if len(asked) < 3:
            raise NoMappingError("no mapping of Einsum 'Z' was found; not searched: some tile shapes of Z")
        return SimpleNamespace(spec=spec, mapping=spec.mapping, metrics=("energy",), optimal=False)

    monkeypatch.setattr("einmap.bench.search.best_mappings", searched)
    spec = CASES["edges"]
    assert einmap.evaluate(mapped(spec, 1.0, {}, Progress())).energy <= einmap.evaluate(spec).energy
    assert asked == [None, 4, 2]
    asked.clear()
    with pytest.raises(NoMappingError):
        mapped(spec, 1.0, {"tiling_coarseness": 3}, Progress())
    assert asked == [3]


@needs_compiler
def test_a_register_tile_of_one_channel_is_cut_for_code():
    """121 values fit into registers of 16 values each, 121 vectors with one value each do not."""
    sizes = {"p": 11, "q": 11, "m": 1, "r": 3, "h": 13, "w": 11}
    lines = "Main holds I F O\nL2 holds I F\nRegisters holds O\nr by 1\np by 1\nq by 1\nO on FMA"
    spec = product(lines, sizes, "O[p, q, m] = I[H: p + r, W: q] * F[r, m]")
    with pytest.raises(NotSupportedError, match="holds a tile of 'O' of 121 vectors"):
        fast_nest(spec)
    cut = in_registers(spec)
    assert prod(n for _, n in fast_nest(cut).tile.rows) <= 64
    assert benchmark(cut, rounds=1, flushed=2**12, compare=False).correct


def test_what_no_mapping_makes_runnable_is_refused_before_anything_is_measured(files, run, monkeypatch):  # noqa: F811
    monkeypatch.setattr("einmap.cli.commands.lab.bench.core_at_hand", None)
    monkeypatch.setattr("einmap.bench.compiler.compiler_at_hand", lambda: ("cc",))
    done = run("bench", "matmul")
    assert (done.status, "found A 8, B 8, Z 8" in " ".join(done.err.split())) == (2, True)
    done = run("bench", "feed_forward", "-D", "BITS=16")
    assert (done.status, "is in a cascade whose values are not all of 32 bits" in " ".join(done.err.split())) == (
        2,
        True,
    )
    done = run("bench", "matmul", "-D", "BITS=32", "-D", "M=100000", "-D", "K=100000", "-D", "N=100000")
    assert (done.status, "the tensors take 120,000,000,000 bytes" in " ".join(done.err.split())) == (2, True)


@needs_compiler
def test_a_compiler_may_have_options(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", f"{compiler_at_hand()[0]} -DTWO=2.0f")
    compiler = compiler_at_hand()
    assert compiler[1:] == ("-DTWO=2.0f",)
    library = Library("void nest(const float *a, float *b) { *b = TWO * *a; }", tmp_path, compiler)
    given, result = np.array([3], np.float32), np.zeros(1, np.float32)
    library([given, result])
    assert result.tolist() == [6]
    monkeypatch.setenv("CC", "cc 'open")
    with pytest.raises(SpecError, match="CC is not a command: No closing quotation"):
        compiler_at_hand()
