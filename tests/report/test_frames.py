"""Tidy tables: every result has some, their sums are those of the result, and they go to pandas, CSV and Parquet."""

import csv
import importlib
import io
import json
import math
import re
import typing
from pathlib import Path

import pandas
import pytest
from pyarrow import parquet
from tests.emit.running import needs_compiler

import einmap
from einmap.bench import result as benchmarks
from einmap.bench.timing import Times
from einmap.distribute.backends.compare import matches
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.training.model import Ranks, TrainingModel
from einmap.distribute.training.plan import TrainingPlan, TrainingRequest
from einmap.distribute.training.search import best_training_plan
from einmap.distribute.training_run.program import training_program
from einmap.distribute.training_run.run import LocalDevices, run_training
from einmap.mapper.fusion_saving import unfused_comparison
from einmap.matmul.measured.measure import Measured, Run
from einmap.model.cost_difference import compare_specs
from einmap.model.explanation.energy_terms import explain_energy
from einmap.model.explanation.explain import explain
from einmap.model.fusion import fusion_of
from einmap.report.executions.comparison import compare
from einmap.report.frames.frame import Frame, columns
from einmap.report.frames.kinds import LISTS, ROOMS, tables_of_kind
from einmap.report.frames.write import csv_text, data_frame, parquet_bytes
from einmap.report.mesh.distribution import PlanRun
from einmap.search.census import take_census
from einmap.search.experiment import Question
from einmap.search.experiment import Run as ExperimentRun
from einmap.search.problem import problem_of
from einmap.search.run import search
from einmap.search.skislope import ski_slope
from einmap.search.strategy import Budget
from einmap.search.summary import summarised
from einmap.serving.tokens import TokenRequest, token_costs
from einmap.spec.cost_sources import cost_sources


def full_name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


TWO_LAYERS = ["Y[b, k] = X[b, k] * V[k]", "Z[b] = Y[b, k] * W[k]"]


MODEL = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 9,
    "num_hidden_layers": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def results():
    """A result of each kind, by the full name of its class."""
    spec = einmap.load("simple", "matmul_chain", "simple_matmul_chain_fused")
    cost = einmap.evaluate(spec)
    best = einmap.map_workload(spec, metrics="energy,latency")
    execution = einmap.execute(spec)
    plan = einmap.plan_of(einmap.load("matmul", "matmul_reduce_scatter"))
    product = einmap.plan_matmul(256, 256, 256, einmap.load_machine("chiplet_256"), dtype="fp8", candidates=4)
    one = Run("m k n", 1.0, 64, 2.0 * 64**3)
    found = [
        cost, best, unfused_comparison(spec, best), fusion_of(spec.mapping, spec), execution,
        compare(spec, cost, execution), explain(spec), explain_energy(spec, cost), plan, einmap.plan_cost(plan), einmap.communication(plan),
        matches(einmap.communication(plan), []), PlanRun(plan), product, Measured((one,), one, one, 1.0, 1.0, 1.0, 0.5, 3),
        compare_specs(spec, spec.set("arch.nodes.GlobalBuffer.size", 10**9), (cost, cost)), cost_sources(spec, "T1"),
    ]  # fmt: skip
    small = {
        "specs": ["simple", "matmul", "simple_matmul"],
        "axes": [{"variable": "BITS", "values": [4, 8]}],
        "action": "evaluate",
    }
    found.append(tuple(einmap.sweep(small, workers=0)))
    problem = problem_of(einmap.load("simple", "matmul", define={"M": 4, "K": 4, "N": 4}))
    run = ExperimentRun.of("random", 0, search(problem, "random", Budget(20), seed=0))
    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name, 0)
    found += [(*summarised([run], problem.optimum().value, 20),), take_census(question, 50, workers=1)]
    found.append(ski_slope(problem.spec))
    found.append((einmap.run_pipeline(einmap.pipeline_schedule("zb-v", 2, 4), einmap.StageCosts.equal(4, 1, 1, 1)),))
    halves = einmap.Spec.from_dict(
        {"workload": {"rank_sizes": {"B": 2, "K": 2}, "bits_per_value": {"All": 8}, "einsums": TWO_LAYERS}}
    )
    program = training_program(halves.workload, "Z", ["V", "W"], TrainingPlan(pp=2))
    found.append(run_training(program, LocalDevices()))
    trained = TrainingModel.of(einmap.load("feed_forward").workload, 4, Ranks("M", None))
    link = Cluster(ProcessingElement(peak=((16, 1e12),)), (("x", Link(1e9)),))
    found.append(best_training_plan(trained, link, TrainingRequest(2)))
    found.append(einmap.from_huggingface(MODEL))
    times = benchmarks.Run("einmap", Times((2.0, 4.0), (3.0,)), 0)
    moved = (benchmarks.Moved("Main", "A", "read", 64.0),)
    found.append(benchmarks.Benchmark("Z[m] = A[m]", "", "cc", "wall time", False, 1, 8.0, 1.0, 2.0, moved, (times,)))
    found.append(token_costs(MODEL, einmap.load("h100_nodes"), TokenRequest((1, 2), (9,))))
    return {full_name(type(one[0] if isinstance(one, tuple) else one)): one for one in found}


def test_every_kind_of_result_has_tables(results):
    assert {*results} == {*ROOMS}


WITHOUT = {
    "einmap.spec.spec.Spec": "what goes in",
    "einmap.matmul.layout.Layouts": "a part of a MatmulPlan",
    "einmap.cli.commands.lab.remeasuring.Executed": "a part of the document of `einmap search`",
    "einmap.frontends.cascade.imported.Imported": "a Spec, with what became of the model",
    "einmap.distribute.pipelines.search.BestPipeline": "a Timeline with a bound",
    "einmap.search.experiment.Run": "a line of a journal: its table is that of StrategySummary",
}
"""Classes with `to_dict` that are not results, with what they are instead."""
INPUTS = {
    "Gradient",
    "PipelineSchedule",
    "Spec",
    "Workload",
    "Machine",
    "Partitioned",
    "Frame",
    "DataFrame",
    "Engine",
    "Mapping",
    "str",
    "NoneType",
}
"""What public functions give beside results."""


def test_no_result_is_left_out():
    """What public functions give, and everything that has a JSON document."""
    given = set()
    for name in einmap.__all__:
        public = getattr(einmap, name)
        if (
            callable(public)
            and not isinstance(public, type)
            and name not in ("studio", "to_frame", "to_csv", "to_parquet")
        ):
            kind = typing.get_type_hints(public)["return"]
            given |= {*typing.get_args(kind)} - {Ellipsis} or {kind}
    kinds = {full_name(kind) for kind in given if kind.__name__ not in INPUTS}
    source = importlib.resources.files("einmap")
    documents = {
        f"einmap.{path.relative_to(source).with_suffix('').as_posix().replace('/', '.')}.{name}"
        for path in source.rglob("*.py")
        for name in re.findall(r"^class (\w+).*\n(?:(?:    .*)?\n)*?    def to_dict", path.read_text(), re.MULTILINE)
    }
    assert {"einmap.model.cost.Cost", "einmap.matmul.result.MatmulPlan"} <= documents
    assert {*kinds, *documents} - {*WITHOUT} <= {*ROOMS}


def test_columns_are_unique_and_have_units_and_rows_fit(results):
    plain = re.compile(
        r"^(actions|values|instances|mean points|usage|share|ratio|before|after|difference|model|simulated|value|gap|lower bound|"
        r"max error|relative error|reuse|multicast|actions per value|mapspace size|resource usage|part of peak|"
        r"full lines|times the least|energy change|latency change|bubble|peak activations)$"
    )
    for name, result in results.items():
        frames = einmap.frames_of(result)
        assert [frame.name for frame in frames] == [table.name for table in tables_of_kind(name)]
        assert len({frame.name for frame in frames}) == len(frames)
        for frame in frames:
            assert len({*frame.column_names}) == len(frame.columns)
            for column in frame.columns:
                has_unit = re.search(r" \[[^\]]+\]$", column.name)
                assert column.kind != "number" or has_unit or plain.match(column.name), (name, frame.name, column)
                kinds = {"text": str, "integer": int, "number": (int, float), "truth": bool}[column.kind]
                assert all(cell is None or isinstance(cell, kinds) for cell in frame.column(column.name)), (
                    name, frame.name, column,
                )  # fmt: skip
            assert all(len(row) == len(frame.columns) for row in frame.rows)


def test_every_table_goes_to_pandas_csv_and_parquet(results):
    for result in results.values():
        for frame in einmap.frames_of(result):
            lines = list(csv.reader(io.StringIO(csv_text(frame))))
            table = parquet.read_table(io.BytesIO(parquet_bytes(frame)))
            shown = data_frame(frame)
            assert lines[0] == table.column_names == [*shown.columns] == [*frame.column_names]
            assert len(lines) - 1 == table.num_rows == len(shown) == len(frame.rows)


def test_sums_of_tables_are_those_of_the_result(results):
    cost = results["einmap.model.cost.Cost"]
    frame = einmap.to_frame(cost)
    assert list(frame.columns) == ["einsum", "component", "tensor", "action", "actions", "energy [J]"]
    assert math.isclose(frame["energy [J]"].sum(), cost.energy)
    by_component = frame.groupby("component")["energy [J]"].sum()
    assert math.isclose(by_component["MAC"], cost.energy_by("component")["MAC",])
    assert einmap.to_frame(cost, "latencies").groupby("einsum")["latency [s]"].max().sum() == cost.latency

    best = results["einmap.mapper.result.result.MapResult"]
    front = einmap.to_frame(best)
    assert list(front["energy [J]"]) == [one.cost.energy for one in best.front]
    actions = einmap.to_frame(best, "actions")
    assert actions["mapping"].nunique() == len(best.front)

    counts = einmap.to_frame(results["einmap.model.explanation.values.Explanation"])
    main = counts[(counts["component"] == "MainMemory") & (counts["tensor"] == "T0")]
    assert list(main["traffic [bits]"]) == [4096 * 8]  # T0 is read once, 8 bits a value
    plan = results["einmap.distribute.plans.plan.Plan"]
    assert einmap.to_frame(plan)["sent in all [bytes]"].sum() == einmap.plan_cost(plan).sent_bytes


def test_missing_and_huge_values_keep_their_meaning():
    given = columns("text name; integer count; truth fits")
    frame = Frame("t", given, (("a", 1, True), ('b,"\n', None, None), ("c", 2**70, False)))
    assert csv_text(frame) == 'name,count,fits\na,1,True\n"b,""\n",,\nc,1180591620717411303424,False\n'
    shown = data_frame(frame)
    assert (shown["count"].dtype, pandas.isna(shown["count"][1]), shown["count"][2]) == ("float64", True, 2.0**70)
    table = parquet.read_table(io.BytesIO(parquet_bytes(frame)))
    assert table.to_pylist()[1] == {"name": 'b,"\n', "count": None, "fits": None}


def test_what_has_no_table_is_refused_by_name(results, tmp_path):
    cost = results["einmap.model.cost.Cost"]
    with pytest.raises(einmap.SpecError, match=r"a Cost has no table 'latencis'\n  hint: did you mean 'latencies'"):
        einmap.frame_of(cost, "latencis")
    with pytest.raises(
        einmap.SpecError,
        match=r"a str is not a result with a table\n  hint: results: Benchmark, BestTraining, Census, Comparison, Cost",
    ):
        einmap.frame_of("text")
    with pytest.raises(einmap.SpecError, match="a list of Cost is not"):
        einmap.frame_of([cost, cost])
    with pytest.raises(einmap.SpecError, match="empty list"):
        einmap.frame_of(())
    assert all(kind in ROOMS for kind in LISTS)
    einmap.to_csv(cost, tmp_path / "a.csv")
    einmap.to_parquet(cost, tmp_path / "a.parquet", "totals")
    with pytest.raises(einmap.SpecError, match="the file exists"):
        einmap.to_csv(cost, tmp_path / "a.csv")
    assert parquet.read_table(tmp_path / "a.parquet").column("energy [J]").to_pylist() == [cost.energy]


def test_without_pandas_the_tables_are_there_and_the_error_says_what_to_install(results, monkeypatch):
    def without(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    cost = results["einmap.model.cost.Cost"]
    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        einmap.SpecError, match=r"needs pandas, which is not installed\n  hint: pip install 'einmap\[tables"
    ):
        data_frame(Frame("t", columns("text a"), (("b",),)))
    assert csv_text(Frame("t", columns("text a"), (("b",),))) == "a\nb\n"
    assert cost.energy > 0


# the command line

SMALL = ("-D", "M=16", "-D", "K=8", "-D", "N=16")
COMMANDS = {
    "evaluate": (("simple", "matmul", "simple_matmul"), "energy [J]"),
    "explain": (("simple", "matmul", "simple_matmul"), "traffic [bits]"),
    "diff": (
        ("simple_matmul_chain_unfused", "simple_matmul_chain_fused", "-w", "simple", "-w", "matmul_chain"),
        "ratio",
    ),
    "simulate": (("simple", "matmul", "simple_matmul", *SMALL), "simulated"),
    "map": (("simple", "matmul", "--metrics", "energy", *SMALL), "EDP [J*s]"),
    "rewrite": (("simple", "matmul", "simple_matmul", "--do", "split k 8"), "energy [J]"),
    "components": (("show", "simple"), "value"),
    "sweep": (("simple_buffer", "--workers", "0", "--sample", "2"), "leak energy [J]"),
    "run": (("matmul", "matmul_reduce_scatter", "--dry-run"), "sent [bytes]"),
    "plan": (("matmul", "--mesh", "x=2", "--fix", "A: M=x", "--fix", "B: K=x", "--fix", "Z: N=x"), "result [bytes]"),
    "search": (
        ("simple", "matmul", *SMALL, "--strategy", "random", "--evaluations", "20", "--seeds", "1", "--workers", "1"),
        "time, median [s]",
    ),
    "census": (("simple", "matmul", *SMALL, "--samples", "100", "--workers", "1"), "energy [J]"),
    "skislope": (("matmul", *SMALL), "traffic [bits]"),
    "train-plan": (
        ("feed_forward", "--mesh", "x=2", "--batch", "4", "--ranks", "M"),
        "sent [bytes]",
    ),
    "tokens": (("config.json", "--on", "h100_nodes", "--batch", "2", "--context", "9"), "time for each token [s]"),
    "bench": (("simple", "matmul", "simple_matmul", *SMALL, "-D", "BITS=32", "--repeats", "1"), "median [s]"),
    "pipeline": (("--devices", "2", "--micro-batches", "4"), "makespan [s]"),
    "plan-matmul": (
        ("256", "256", "256", "--machine", "chiplet_256", "--dtype", "fp8", "--candidates", "4"),
        "traffic [bits]",
    ),
}


def test_every_command_with_numbers_writes_them():
    from einmap.cli.registry import Commands

    options = {name: {word for p in command.params for word in p.opts} for name, command in Commands().items()}
    assert {name for name, words in options.items() if {"--csv", "--parquet", "--table"} <= words} == {*COMMANDS}
    assert {name for name, words in options.items() if "--json" in words} - {*COMMANDS} == {"warmup"}


@pytest.mark.parametrize("command", [pytest.param(c, marks=needs_compiler if c == "bench" else ()) for c in COMMANDS])
def test_commands_write_their_tables(command, tmp_path, tmp_path_factory, monkeypatch):
    from typer.testing import CliRunner

    from einmap.cli.main import app

    monkeypatch.chdir(tmp_path_factory.mktemp("here"))  # a store of `sweep` is made there
    Path("config.json").write_text(json.dumps(MODEL))
    words, column = COMMANDS[command]
    files = ["--csv", str(tmp_path / "t.csv"), "--parquet", str(tmp_path / "t.parquet")]
    done = CliRunner().invoke(app, [command, *words, *files, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    assert f"to {tmp_path}/t.parquet" in done.stderr.replace("\n", " ")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert rows
    assert column in rows[0]
    assert parquet.read_table(tmp_path / "t.parquet").num_rows == len(rows)
    wrong = CliRunner().invoke(app, [command, *words, "--csv", str(tmp_path / "u.csv"), "--table", "nonsense"])
    assert wrong.exit_code == 2
    assert "has no table 'nonsense'" in " ".join(wrong.output.replace("│", " ").split())
    assert CliRunner().invoke(app, [command, *words, "--table", "x"]).exit_code == 2
    again = CliRunner().invoke(app, [command, *words, *files])
    assert "the file exists" in str(again.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.parquet"]


def test_the_page_lists_all_tables():
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
    for kind in ROOMS:
        names = ", ".join(f"`{table.name}`" for table in tables_of_kind(kind))
        assert f"| `{kind.rpartition('.')[2]}` | {names} |\n" in page
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
