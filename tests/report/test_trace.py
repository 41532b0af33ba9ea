"""`--perfetto`: the format that viewers read, the times of the model, the counts of the simulator."""

import json
import math
import random
from collections import Counter, defaultdict

import pytest
from tests.amounts import few_and_many
from tests.execute.test_pipelines import drawn as drawn_pipeline
from tests.execute.test_pipelines import is_even
from tests.machines import machine, workload
from tests.model.test_pipelines import spec as pipeline
from tests.nests import nest
from tests.random_specs.cases import valid_case, valid_networks

import einmap
from einmap.report.trace.perfetto import MOST, perfetto_trace
from einmap.report.trace.timing import timing_of

ARCH = machine("DRAM inf 1/1 @8 {bits_per_action: 8} / GLB 4096 1/1 @inf {bits_per_action: 8} / MAC 1 @2")
MATVEC = workload("M: 4, K: 8", "Z[m] = A[m, k] * B[k]") + nest(
    "DRAM: A B Z / GLB: B / m 2 / GLB: A Z / m 1 / k 1 / Z @ MAC"
)


def traced(spec, most=MOST):
    cost = einmap.evaluate(spec, semantics="exact")
    execution = einmap.execute(spec, timeline=most)
    return cost, execution, json.loads(b"".join(perfetto_trace(spec, cost, execution)))


def names(document):
    """Names of processes by pid, of threads by (pid, tid)."""
    events = [e for e in document["traceEvents"] if e["ph"] == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return processes, threads


def test_a_matrix_vector_product_by_hand():
    _, _, document = traced(einmap.loads(ARCH + MATVEC))
    processes, threads = names(document)
    assert list(processes.values()) == ["Einsums", "DRAM (memory)", "GLB (memory of 4,096 bits)", "MAC (compute)"]
    at = defaultdict(list)
    for e in document["traceEvents"]:
        if e["ph"] == "X":
            track = f"{processes[e['pid']].partition(' ')[0]}: {threads[e['pid'], e['tid']]}"
            at[track].append((e["name"], e["ts"], e["dur"], e["args"].get("actions", e["args"].get("visits"))))
    # two visits of 16 operations at 2 a second: MAC limits, 8 s each
    assert at["Einsums: Einsums"] == [("Z", 0, 8e6, 1), ("Z", 8e6, 8e6, 1)]
    assert at["MAC: compute"] == [("compute Z", 0, 8e6, 16), ("compute Z", 8e6, 8e6, 16)]
    # B (8 values) comes once, A 16 values each time, 8 a second; Z goes out with 2 values each time
    assert at["DRAM: B read"] == [("read B", 2e6, 1e6, 8)]
    assert at["DRAM: A read"] == [("read A", 0, 2e6, 16), ("read A", 8e6, 2e6, 16)]
    assert at["DRAM: Z write"] == [("write Z", 3e6, 0.25e6, 2), ("write Z", 10e6, 0.25e6, 2)]
    waits = [("waits: MAC limits Z", 3.25e6, 4.75e6, None), ("waits: MAC limits Z", 10.25e6, 5.75e6, None)]
    assert at["DRAM: waits"] == waits
    assert at["GLB: A read"] == [("read A", 0, 0, 16), ("read A", 8e6, 0, 16)]  # without limit it takes no time
    counters = [(e["pid"], e["ts"], e["args"]["bits"]) for e in document["traceEvents"] if e["ph"] == "C"]
    assert counters == [(2, 0, 8 * (32 + 8 + 4)), (3, 0, 8 * (8 + 16 + 2))]
    tiles = {e["args"].get("tile") for e in document["traceEvents"] if e["name"] == "read A" and e["pid"] == 2}
    assert tiles == {"0..1 0..7", "2..3 0..7"}


REQUIRED = {"M": {"name", "pid", "args"}, "X": {"name", "cat", "pid", "tid", "ts", "dur"}, "C": {"name", "pid", "ts"}}


def check(spec, most=MOST):
    """Everything that holds for any trace."""
    cost, execution, document = traced(spec, most)
    events = document["traceEvents"]
    assert all(REQUIRED[e["ph"]] <= {*e} for e in events)
    processes, threads = names(document)
    assert len({tid for _, tid in threads} | {*processes}) == len(threads) + len(processes)
    assert all((e["pid"], e["tid"]) in threads for e in events if e["ph"] == "X")
    timing = timing_of(spec, cost, execution)
    assert math.isclose(timing.end * 1e-15, cost.latency, rel_tol=1e-9, abs_tol=1e-14)
    assert document["otherData"]["latency [s]"] == cost.latency

    # counts: the busiest instance, and all of them
    busiest, total, busy = Counter(), Counter(), defaultdict(list)
    for work in timing.works:
        busiest[work.key] += work.count
        total[work.key] += work.total
        busy[work.key[1]] += [piece for piece in work.pieces if piece[0] < piece[1]]
    written = Counter()
    for e in (e for e in events if e["ph"] == "X" and e["cat"] in ("move", "compute")):
        written[e["args"]["Einsum"], e["pid"]] += e["args"].get("actions of all instances", 0)
    for key, counts in execution.per_instance.items():
        assert math.isclose(total[key], sum(counts.values()))
        assert math.isclose(busiest[key], counts.get(timing.instances[key[:2]], 0))
    assert math.isclose(sum(written.values()), sum(total.values()))

    # seconds: those of the model, and on each component work and waits fill the whole time without overlap
    for row in cost.latencies:
        spent = sum(b - a for w in timing.works if w.key[:2] == (row.einsum, row.component) for a, b in w.pieces)
        assert abs(spent - row.latency * 1e15) <= 1 + 1e-9 * spent or row.einsum not in {
            s.einsum for s in timing.slices
        }
    for component, pieces in busy.items():
        waits = [(w.begin, w.end) for w in timing.waits if w.component == component]
        edges = [edge for piece in sorted([*pieces, *waits]) for edge in piece]
        assert edges == sorted(edges)
        assert (edges[0], edges[-1]) == (0, timing.end)
        assert edges[1:-1:2] == edges[2::2]
    whole = [edge for one in timing.slices for edge in (one.begin, one.end)]
    assert whole == sorted(whole)
    return cost, execution, timing


@pytest.mark.parametrize("drawn", [valid_case, valid_networks])
@few_and_many("seeds, least", ((0, 1, 2, 3, 7, 20, 23, 24), 5), (range(25), 16), part="simulator")
def test_random_mappings_keep_the_models_seconds_and_the_simulators_counts(seeds, least, drawn):
    checked = several = joined = 0
    for seed in seeds:
        spec, _ = drawn(random.Random(seed))
        try:
            _, execution, timing = check(spec)
        except einmap.SpecError:
            continue  # refused: not every space can be executed
        checked += 1
        several += any(len(work.pieces) > 1 for work in timing.works)
        joined += check(spec, most=10)[2].visits > 1 and len(execution.spans) > 1
    assert checked >= least
    assert drawn is valid_networks or (several and joined)


def test_visits_are_joined_where_there_are_too_many():
    spec = einmap.load(["simple", "matmul_chain", "simple_matmul_chain_fused"])
    _, execution, timing = check(spec, most=100)
    _, all_visits, _ = check(spec)
    assert timing.visits > 1
    assert (len(execution.spans) < 9, len(all_visits.spans)) == (True, 16)
    assert sum(span.visits for span in execution.spans) == len(all_visits.spans)
    assert max(level.bits for level in timing.levels) == max(row.bits for row in execution.occupancy)


def test_an_einsum_that_stands_for_several_is_stretched_and_expressions_of_latency_are_kept():
    text = ARCH.replace("{name: GLB,", "{name: GLB, total_latency: 100,") + MATVEC.replace(
        "einsums: [", "n_instances: 3\n  einsums: ["
    )
    cost, _, timing = check(einmap.loads(text))
    assert cost.latency == 300
    assert {w.limited_by for w in timing.waits if w.component == "MAC"} == {"GLB"}


def test_names_and_numbers_of_others_are_plain_json_without_tricks(monkeypatch):
    spec = einmap.loads((ARCH + MATVEC).replace("GLB", "GLB\N{CYRILLIC SMALL LETTER A}"))
    cost, execution = einmap.evaluate(spec), einmap.execute(spec, timeline=MOST)
    raw = b"".join(perfetto_trace(spec, cost, execution))
    assert raw.isascii()
    processes, _ = names(json.loads(raw))
    assert processes[3].startswith("GLB\\u0430 ")


def test_the_command_writes_the_trace(tmp_path):
    from typer.testing import CliRunner

    from einmap.cli.main import app

    words = ["simulate", "simple", "matmul", "simple_matmul", "-D", "M=16", "--perfetto", str(tmp_path / "t.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path}/t.json" in done.stderr
    assert json.loads((tmp_path / "t.json").read_text())["displayTimeUnit"] == "ns"
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code != 0
    assert "the file exists" in str(refused.exception)


def tracks_of(document):
    """Name, begin and end (s) of the events on each track."""
    processes, threads = names(document)
    at = defaultdict(list)
    for e in document["traceEvents"]:
        if e["ph"] == "X":
            track = f"{processes[e['pid']].partition(' ')[0]}: {threads[e['pid'], e['tid']]}"
            at[track].append((e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6))
    return at


def test_stages_of_a_pipeline_stand_beside_each_other():
    _, _, document = traced(pipeline(size=4096))
    at = tracks_of(document)
    # 64 s and 32 s for four tiles: the second stage begins a tile when the first one has done it, every 16 s
    assert at["Einsums: stage 1"] == [("T1", 16 * k, 16 * k + 16) for k in range(4)]
    assert at["Einsums: stage 2"] == [("T2", 16 * k + 16, 16 * k + 24) for k in range(4)]
    assert at["MAC: compute, stage 2"] == [("compute T2", 16 * k + 16, 16 * k + 24) for k in range(4)]
    assert at["Main: T0 read, stage 1"][1][1:] == (16, 16 + 32 / 1000)
    # the last tile is the second stage's alone; of the others its MACs work while the first one's do
    assert at["MAC: waits"] == []
    counters = [(e["ts"] / 1e6, e["args"]["bits"]) for e in document["traceEvents"] if e["ph"] == "C" and e["pid"] == 3]
    # W0, T0, T1; then W1, T2 and the next T1 as well; W1, T1 and T2 at last
    assert counters == [(0, 128 + 2 * 32), (16, 2 * 128 + 4 * 32), (64, 128 + 2 * 32)]


def test_a_pipeline_that_waits_for_what_stages_share_beats_as_slowly():
    cost, _, document = traced(pipeline(read=4))
    at = tracks_of(document)
    assert cost.latency == 128
    # tiles of the first take 16 s, with all that Main has to read of it; the last one ends before Main would
    assert [begin for _, begin, _ in at["Einsums: stage 1"]] == [pytest.approx(k * (128 - 32) / 3) for k in range(4)]


def test_traces_of_random_pipelines_hold_the_counts_and_times():
    assert checked_pipelines(range(40)) >= 6


@pytest.mark.slow
@pytest.mark.simulator
def test_traces_of_more_random_pipelines_hold_the_counts_and_times():
    assert checked_pipelines(range(40, 600), most=300) >= 60


def checked_pipelines(seeds, most=MOST):
    """How many traces of pipelines were right."""
    ran = 0
    for seed in seeds:
        case = drawn_pipeline(random.Random(seed))
        if case is None or not is_even(case[0]) or case[1].longer:
            continue
        spec, cost = case
        execution = einmap.execute(spec, timeline=most)
        timing = timing_of(spec, cost, execution)
        assert math.isclose(timing.end * 1e-15, cost.latency, rel_tol=1e-9, abs_tol=1e-12), seed
        total, spent, tracks = Counter(), Counter(), defaultdict(list)
        for work in timing.works:
            total[work.key] += work.total
            spent[work.key[:2]] += sum(b - a for a, b in work.pieces)
            tracks[work.key[1:], work.stage] += [piece for piece in work.pieces if piece[0] < piece[1]]
        for piece in timing.slices:
            tracks[piece.stage].append((piece.begin, piece.end))
        for key, counts in execution.per_instance.items():
            assert math.isclose(total[key], sum(counts.values())), seed
        for row in cost.latencies:
            if (row.einsum, row.component) in spent:
                assert math.isclose(spent[row.einsum, row.component], row.latency * 1e15, rel_tol=1e-9, abs_tol=2), seed
        for pieces in tracks.values():
            edges = [edge for piece in sorted(pieces) for edge in piece]
            assert edges == sorted(edges), seed
        for memory in {level.memory for level in timing.levels}:
            times = [level.begin for level in timing.levels if level.memory == memory]
            assert times == sorted(times), seed
        ran += 1
    return ran
