"""`einmap map`: what it hands to the mapper, what it prints and writes, how it is interrupted."""

import io
import json
import os
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from einmap import evaluate, load
from einmap.cli import progress_bar
from einmap.cli.progress_bar import ProgressBar
from einmap.errors import NoMappingError, SpecError
from einmap.mapper.result.result import Found, MapResult, MapStats
from einmap.progress import Report
from einmap.report.costs.cost_report import lying

SMALL = ("simple", "matmul", "-D", "M=4", "-D", "N=4", "-D", "K=4")


@pytest.fixture
def found() -> MapResult:
    """A result that no search has found."""
    spec = load("simple", "matmul", "simple_matmul")
    assert spec.mapping is not None
    best = Found(evaluate(spec), spec.mapping, spec)
    stats = MapStats(mapspace_size=1e12, templates=7, evaluated=12_345, seconds=3.21, by_einsum={"Z": {"templates": 7}})
    bound = best.cost.edp / 1.25
    return MapResult((best,), ("energy_delay_product",), False, bound, "the time was up", stats)


@pytest.fixture
def mapper(monkeypatch, found):
    """The mapper replaced by one that gives `mapper.result` and remembers how it was called."""
    stub = SimpleNamespace(result=found, calls=[], work=lambda progress: None)

    def best_mappings(spec, *, progress, **options):
        stub.calls.append(options)
        stub.work(progress)
        if isinstance(stub.result, Exception):
            raise stub.result
        return stub.result

    monkeypatch.setattr("einmap.mapper.mapper.best_mappings", best_mappings)
    return stub


def interrupt(_progress=None) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_options_reach_the_mapper(run, mapper):
    limits = ("--time-limit", "1.5", "--max-evaluations", "99", "--workers", "2", "--seed", "7")
    assert (
        run("map", "simple", "matmul", "--metrics", "energy,latency", "--semantics", "accelforge", *limits).status == 0
    )
    assert mapper.calls == [
        {
            "metrics": "energy,latency",
            "semantics": "accelforge",
            "time_limit_s": 1.5,
            "max_evaluations": 99,
            "workers": 2,
            "seed": 7,
            "fuse": True,
        }
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("edp", "energy_delay_product"),
        ("Energy", "energy"),
        ("latency, energy", "latency,energy"),
        ("energy|latency", "energy,latency"),
    ],
)
def test_metrics_have_short_names(run, mapper, given, meant):
    run("map", "simple", "matmul", "--metrics", given)
    assert mapper.calls[0]["metrics"] == meant


def test_a_result_that_is_not_proven_says_how_far_it_may_be_off(run, mapper):
    done = run("map", "simple", "matmul")
    first = " ".join(done.out.split("\n\n")[0].split())
    assert first == (
        "best EDP of 12,345 evaluated in 3.2 s, not proven optimal: the time was up; at most 25% above the lower bound"
    )


def test_a_stopped_search_points_to_what_shortens_a_search(run, mapper, found):
    words = "docs/slow-searches.md says what tells a weak bound from a weak mapping, and what shortens a search"
    assert words not in " ".join(run("map", "simple", "matmul").out.split())
    mapper.result = replace(found, stopped=True)
    assert words in " ".join(run("map", "simple", "matmul").out.split())


def test_a_search_that_evaluated_nothing_is_not_called_the_best(run, mapper, found):
    mapper.result = replace(found, stats=replace(found.stats, evaluated=0))
    first = " ".join(run("map", "simple", "matmul").out.split("\n\n")[0].split())
    assert first.startswith("a first mapping, not searched for EDP (0 evaluated in 3.2 s): the time was up")


def test_a_proven_result_says_so(run, mapper, found):
    mapper.result = replace(found, optimal=True, reason="")
    assert run("map", "simple", "matmul").out.startswith(
        "proven optimal in EDP of 1e12 mappings (12,345 evaluated in 3.2 s)\n"
    )


def test_a_front_is_listed_before_its_first_mapping(run, mapper, found):
    mapper.result = replace(found, front=found.front * 25, metrics=("energy", "latency"), lower_bound=None)
    out = run("map", "simple", "matmul").out
    assert "Best mappings (25)" in out
    assert "... and 5 more" in out
    assert "above the lower bound" not in out


def test_json_holds_the_whole_result(run, mapper, found):
    document = json.loads(run("map", "simple", "matmul", "--json").out)
    assert document["schema"] == 1
    assert document["metrics"] == ["energy_delay_product"]
    assert (document["optimal"], document["reason"]) == (False, "the time was up")
    assert document["gap"] == pytest.approx(0.25)
    assert document["stats"]["evaluated"] == 12_345
    assert document["cost"]["energy"] == found.cost.energy
    assert document["mapping"]["nodes"][0] == {
        "type": "Storage",
        "component": "MainMemory",
        "tensors": ["A", "B", "Z"],
    }
    assert document["front"] == [
        {
            "energy": found.cost.energy,
            "latency": found.cost.latency,
            "edp": found.cost.edp,
            "mapping": document["mapping"],
        }
    ]


def test_unbounded_numbers_are_null_in_json(run, mapper, found):
    mapper.result = replace(found, lower_bound=None, stats=replace(found.stats, mapspace_size=float("inf")))
    document = json.loads(run("map", "simple", "matmul", "--json").out)
    assert (document["gap"], document["stats"]["mapspace_size"]) == (None, None)


def test_the_mapping_is_written_so_that_it_can_be_evaluated(run, mapper, tmp_path):
    path = tmp_path / "best.yaml"
    done = run("map", "simple", "matmul", "-o", path, "-D", "M=64")
    assert f"wrote the mapping to {path}" in done.err
    assert path.read_text().startswith("# Found by: einmap map simple matmul --define M=64\n# best EDP of 12,345")
    assert run("evaluate", "simple", "matmul", path).out == run("evaluate", "simple", "matmul", "simple_matmul").out


def test_a_mapping_that_cannot_be_written_after_all_is_still_printed(run, mapper, monkeypatch, tmp_path):
    def full(*_, **__):
        raise SpecError("cannot write the file: no space left")

    monkeypatch.setattr("einmap.cli.writing.target.write_atomically", full)
    done = run("map", "simple", "matmul", "-o", tmp_path / "best.yaml")
    assert done.status == 2
    assert "LoopTree" in done.out
    assert "error: cannot write the file" in done.err


def test_no_mapping_is_an_error(run, mapper):
    mapper.result = NoMappingError("no mapping fits", hint="enlarge a memory")
    done = run("map", "simple", "matmul")
    assert (done.status, done.out) == (2, "")
    assert done.err == "error: no mapping fits\n  hint: enlarge a memory\n"


def test_ctrl_c_asks_for_the_best_so_far(run, mapper):
    stopped = []

    def work(progress):
        interrupt()
        stopped.append(progress.stopped)

    mapper.work = work
    done = run("map", "simple", "matmul")
    assert (stopped, done.status) == ([True], 0)
    assert "not proven optimal" in done.out
    assert "press Ctrl-C again" in done.err


def test_ctrl_c_before_anything_is_found_has_the_status_of_an_interrupt(run, mapper):
    mapper.work, mapper.result = interrupt, NoMappingError("nothing found yet")
    done = run("map", "simple", "matmul")
    assert (done.status, done.out) == (130, "")
    assert "error: nothing found yet" in done.err


@pytest.mark.parametrize("inherited", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_a_second_ctrl_c_ends_at_once_and_the_old_handler_comes_back(run, mapper, inherited):
    outside = signal.signal(signal.SIGINT, inherited)  # jobs in the background are started with SIGINT ignored

    def work(progress):
        interrupt()
        interrupt()
        time.sleep(1)
        pytest.fail("the search went on")

    mapper.work = work
    try:
        assert run("map", "simple", "matmul").status == 130
        assert signal.getsignal(signal.SIGINT) == inherited
    finally:
        signal.signal(signal.SIGINT, outside)


def test_a_search_in_another_thread_leaves_signals_alone():
    seen = []

    def work():
        with progress_bar.searching() as search:
            seen.append(search.interrupted)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def terminal(monkeypatch, patience):
    monkeypatch.setattr(progress_bar, "PATIENCE", patience)
    return Console(file=io.StringIO(), force_terminal=True, record=True, width=100)


def test_long_work_shows_what_is_searched_and_the_best_so_far(monkeypatch):
    console = terminal(monkeypatch, 0.01)
    with ProgressBar(console) as bar:
        bar.report(Report("Einsum Z", 30, 120, "1.2 nJ*s"))
        for _ in range(6_000):
            if "Einsum Z" in console.export_text(clear=False):
                break
            time.sleep(0.01)
    shown = console.export_text()
    assert "Einsum Z" in shown
    assert "30 of 120" in shown
    assert "best 1.2 nJ*s" in shown


def test_short_work_shows_nothing(monkeypatch):
    console = terminal(monkeypatch, 60)
    with ProgressBar(console) as bar:
        bar.report(Report("Einsum Z", 1, 2))
    assert console.export_text().strip() == ""


def test_nothing_is_reported_to_a_pipe(run, mapper):
    callbacks = []
    mapper.work = lambda progress: callbacks.append(progress.callback)
    run("map", "simple", "matmul")
    assert callbacks == [None]


# the real mapper


def test_a_small_workload_is_mapped_and_proven_optimal(run):
    done = run("map", *SMALL)
    assert done.status == 0
    assert done.out.startswith("proven optimal in EDP")


def test_the_front_of_energy_and_latency_holds_the_best_of_each(run):
    def mapped(metrics):
        return json.loads(run("map", *SMALL, "--metrics", metrics, "--json").out)

    front = mapped("energy,latency")["front"]
    assert min(entry["energy"] for entry in front) == pytest.approx(mapped("energy")["cost"]["energy"])
    assert min(entry["latency"] for entry in front) == pytest.approx(mapped("latency")["cost"]["latency"])


def test_a_mapping_found_and_written_costs_the_same_when_evaluated(run, tmp_path):
    path = tmp_path / "best.yaml"
    mapped = json.loads(run("map", *SMALL, "-o", path, "--json").out)
    evaluated = json.loads(run("evaluate", *SMALL, path, "--json").out)
    del evaluated["notes"], mapped["cost"]["notes"]  # their places differ
    assert evaluated == mapped["cost"]


PARTIAL = """\
given:
  nodes:
  - !Any {}
  - !Temporal {rank_variable: k, tile_shape: {{ INNER }}}
  - !Temporal {rank_variable: k, tile_shape: 1}
"""


def test_what_is_given_is_kept_and_named_in_the_file(run, tmp_path):
    given, best = tmp_path / "partial.yaml", tmp_path / "best.yaml"
    given.write_text(PARTIAL)
    done = run("map", *SMALL, "-D", "INNER=2", "--given", given, "-o", best)
    assert done.status == 0
    assert f"--given {given}" in best.read_text()
    loops = [placed.node for placed in load(best).mapping.loops]
    shapes = [loop.tile_shape.default for loop in loops if loop.rank_variable.default == "k"]
    assert (loops[-1].rank_variable.default, shapes[-2:]) == ("k", [2, 1])
    again = run("map", *SMALL, "--given", best)
    assert again.out.split("\n\n")[1] == done.out.split("\n\n")[1]


def test_a_shipped_mapping_can_be_given(run):
    costs = [
        json.loads(run(*words, "--json").out)
        for words in (
            ("map", "simple", "matmul", "--given", "simple_matmul"),
            ("evaluate", "simple", "matmul", "simple_matmul"),
        )
    ]
    assert costs[0]["cost"]["energy"] == costs[1]["energy"]


def test_errors_in_what_is_given_have_file_and_line(run, tmp_path):
    given = tmp_path / "partial.yaml"
    given.write_text(PARTIAL)
    done = run("map", *SMALL, "-D", "INNER=3", "--given", given)
    assert (done.status, done.out) == (2, "")
    assert f"{given}:4:5: given.nodes[1]: Einsum 'Z': tile shape 3 of 'k' does not divide 4" in done.err
    assert run("map", *SMALL, "--given", tmp_path / "none.yaml").status == 2
    assert run("map", *SMALL, "-D", "INNER=2", "--given", given, "-o", given).status == 2


def test_the_mapping_file_names_the_inputs_that_are_copied_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    einsums = ["A[m, n] = X[m, k] * V[k, n]", "B[m, n] = X[m, k] * W[k, n]"]
    workload = {"rank_sizes": {"M": 4, "K": 4, "N": 4}, "bits_per_value": {"All": 8}, "einsums": einsums}
    (tmp_path / "two.yaml").write_text(json.dumps({"workload": workload}))
    found = run("map", "simple", "two.yaml", "--metrics", "energy", "-o", "best.yaml")
    assert "the input X is copied once, as X_shared, for A and B" in found.out
    text = run("map", "simple", "two.yaml", "--metrics", "energy", "--json").out
    document = json.loads(text)
    assert document["shared_inputs"] == [{"input": "X", "copy": "X_shared", "users": ["A", "B"]}]
    assert document["mapping"]["shared_inputs"] == {"X": "X_shared"}
    cost = json.loads(run("evaluate", "simple", "two.yaml", "best.yaml", "--json").out)
    assert cost["energy"] == document["cost"]["energy"]
    assert (tmp_path / "best.yaml").read_text().startswith("# Found by: einmap map simple two.yaml --metrics energy\n")
    again = run("map", "simple", "two.yaml", "--given", "best.yaml")
    assert again.status == 2
    assert "best.yaml:4:18: mapping.shared_inputs: a given mapping is for each Einsum by itself" in again.err


def test_the_layouts_that_are_chosen_are_reported_written_and_read_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = {"leak_power": 0, "area": 0}
    actions = [{"name": name, "energy": 9, "throughput": 8} for name in ("read", "write")]
    main = {
        "type": "Memory",
        "name": "DRAM",
        "size": "inf",
        "actions": actions,
        **common,
        "tensors": {"keep": "~Intermediates", "may_keep": "All"},
    }
    main["layout"] = {"line": 32, "order": {"A": "best", "B": [["K", "N"], {"K": 2, "N": 2}]}}
    buffer = {**main, "name": "GLB", "size": 200, "actions": [{**action, "energy": 1} for action in actions]}
    buffer["tensors"] = {"keep": "~DRAM", "may_keep": "All"}
    del buffer["layout"]
    unit = {"type": "Compute", "name": "MAC", "actions": [{"name": "compute", "energy": 1, "throughput": 1}], **common}
    workload = {"rank_sizes": {"M": 8, "K": 4, "N": 4}, "bits_per_value": {"All": 8}}
    workload["einsums"] = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, k] = X[m, n] * D[n, k]"]
    spec = {"arch": {"nodes": [main, buffer, unit]}, "workload": workload}
    (tmp_path / "open.yaml").write_text(json.dumps(spec))
    told = run("map", "open.yaml", "--metrics", "energy", "-o", "best.yaml").out
    assert "A lies in DRAM in the order K, M" in told
    assert "Against the best mapping that fuses nothing" in told
    assert "B lies in DRAM in the order K, N" in told
    assert "all 4 choices of layouts were" in " ".join(told.split())
    document = json.loads(run("map", "open.yaml", "--metrics", "energy", "--json").out)
    assert document["mapping"]["layouts"] == {"DRAM": {"A": ["K", "M"], "B": ["K", "N"]}}
    cost = json.loads(run("evaluate", "open.yaml", "best.yaml", "--json").out)
    assert cost["energy"] == document["cost"]["energy"]
    assert lying({"K": 2, "N": 2}) == "in blocks of K 2 x N 2"


def test_the_formats_that_are_chosen_are_reported_written_and_read_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sparsity = "sparsity:\n  densities: {A: 0.25}\n  formats:\n    MainMemory: {A: [uncompressed, coo, bitmask]}\n"
    (tmp_path / "sparse.yaml").write_text(sparsity)
    files = ("simple", "two.yaml", "sparse.yaml")
    (tmp_path / "two.yaml").write_text(
        'workload: {rank_sizes: {M: 8, K: 4, N: 4}, bits_per_value: {All: 8}, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}'
    )
    told = run("map", *files, "--metrics", "energy", "-o", "best.yaml").out
    assert "MainMemory stores A as bitmask" in told
    assert "all 3 choices of formats were searched" in " ".join(told.split())
    document = json.loads(run("map", *files, "--metrics", "energy", "--json").out)
    assert document["mapping"]["formats"] == {"MainMemory": {"A": "bitmask"}}
    cost = json.loads(run("evaluate", *files, "best.yaml", "--json").out)
    assert cost["energy"] == document["cost"]["energy"]
    assert run("simulate", *files, "best.yaml", "--seed", "1").status == 0
    assert run("rewrite", *files, "best.yaml", "--do", "split n 2", "-o", "split.yaml").status == 0
    assert "formats: {MainMemory: {A: bitmask}}" in (tmp_path / "split.yaml").read_text()
    named = (tmp_path / "best.yaml").read_text()
    (tmp_path / "open.yaml").write_text("".join(line for line in named.splitlines(True) if "formats:" not in line))
    for command in ("evaluate", "simulate"):
        refused = run(command, *files, "open.yaml")
        assert refused.status == 2
        assert "sparse.yaml:4:21: sparsity.formats.MainMemory.A: the format of 'A' in 'MainMemory'" in refused.err
        assert "is left open: expected one format, found 3 alternatives" in " ".join(refused.err.split())
