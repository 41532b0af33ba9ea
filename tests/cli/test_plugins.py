"""Plug-ins of installed packages: the example of the documents, broken ones, names that are taken."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import einmap
from einmap.errors import SpecError
from einmap.mapper.objective.metrics import AddedMetric
from einmap.plugins import plugin
from einmap.search.problem import problem_of
from einmap.search.strategies.exhaustive import Exhaustive
from einmap.search.strategy import Budget, Setup, strategy_named
from einmap.spec.cost_sources import cost_sources

EXAMPLE = Path(__file__).parents[2] / "docs" / "plugin-example"
MATMUL = ("simple", "matmul")


def install(folder, name, version, groups):
    """The metadata of a package, as an installer writes them."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    texts = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()]
    info.joinpath("entry_points.txt").write_text("".join(texts))
    info.joinpath("RECORD").write_text(f"{info.name}/entry_points.txt,,\n")


@pytest.fixture
def example(tmp_path, monkeypatch):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(tmp_path, project["name"], project["version"], project["entry-points"])
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("einmap_example", None)


def test_the_list_names_all_and_imports_none(example, run):
    told = run("plugins")
    assert told.status == 0
    assert all(name in told.out for name in ("gemms", "RippleAdder", "ed2p", "first", "outline", "einmap-example 1.0"))
    assert told.out.count("not loaded") == 5
    assert "einmap_example" not in sys.modules


def test_a_format_reads_files(example, tmp_path, run):
    file = tmp_path / "net.txt"
    file.write_text("one 4 8 16\n")
    assert einmap.loads(run("import", "--from", "GEMMS", file, "--bits", 4).out).workload.n_computes == 4 * 8 * 16
    file.write_text("one 4 8\n")
    wrong = run("import", "--from", "gemms", file)
    assert wrong.status == 2
    assert "net.txt:1" in wrong.err
    assert "has no function `write`" in run("export", *MATMUL, "--to", "gemms").err


ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 1e-12, latency: 0}, {name: write, energy: 1e-12, latency: 0}]}
  - !Compute {name: Adder, COSTS}
workload:
  iteration_space_shape: {m: 0 <= m < 4}
  bits_per_value: {All: 8}
  einsums: ["Z[m] = A[m] + B[m]"]
"""
CLASS = ARCH.replace(
    "COSTS",
    "component_class: ripple-adder, extra_attributes_for_component_model: {width: 8}, actions: [{name: compute}]",
)
KNOWN = ARCH.replace("COSTS", "leak_power: 0, area: 0, actions: [{name: compute, energy: 1e-12, latency: 1e-9}]")


def test_a_component_model_prices_a_class_unless_packages_are_left_out(example):
    (compute,) = (
        row for row in cost_sources(einmap.loads(CLASS), "Z") if row.action == "compute" and row.quantity == "energy"
    )
    assert compute.value == pytest.approx(8 * 2e-15)
    with pytest.raises(SpecError, match="not a known model"):
        cost_sources(einmap.loads(CLASS + "config: {use_installed_component_models: false}\n"), "Z")


def test_the_best_mapping_by_an_added_metric_is_that_of_all_mappings(example):
    small = einmap.load(*MATMUL, define={"M": 4, "K": 2, "N": 2})
    found = einmap.map_workload(small, metrics="ed2p")
    problem = problem_of(small)
    every = Exhaustive(Setup(problem, np.random.default_rng(0), Budget(1)))
    costs = problem.costs(every.ask(int(problem.space.sizes.sum())))
    best = np.where(costs.fits, costs.energy * costs.latency**2, np.inf).min()
    assert (found.optimal, found.metrics) == (True, ("ed2p",))
    assert found.lower_bound == pytest.approx(best, rel=1e-12)


def test_the_search_lab_judges_mappings_by_an_added_metric(example):
    small = einmap.load(*MATMUL, define={"M": 4, "K": 2, "N": 2})
    problem = problem_of(small, metrics="ED2P")
    points = Exhaustive(Setup(problem, np.random.default_rng(0), Budget(1))).ask(int(problem.space.sizes.sum()))
    costs = problem.costs(points)
    np.testing.assert_allclose(problem.objective_of(costs), costs.energy * costs.latency**2, rtol=1e-12)
    assert problem.optimum().value == pytest.approx(problem.evaluate(points).min(), rel=1e-12)


def test_a_metric_that_reads_more_than_it_rises_with_is_refused_in_the_lab(example, monkeypatch):
    leaky = AddedMetric("leaky", "J", "leaky", lambda cost: cost.energy + cost.leak_energy)
    monkeypatch.setattr("einmap.mapper.objective.metrics.plugin", lambda group, name: leaky)
    problem = problem_of(einmap.load(*MATMUL, define={"M": 4, "K": 2, "N": 2}), metrics="leaky")
    with pytest.raises(SpecError, match="leaky reads more of a cost than energy, latency"):
        problem.evaluate(Exhaustive(Setup(problem, np.random.default_rng(0), Budget(1))).ask(1))


def test_the_lab_reports_an_added_metric_in_its_unit(example, run):
    sizes = ("-D", "M=4", "-D", "K=2", "-D", "N=2")
    told = run("search", *MATMUL, *sizes, "--strategy", "random", "--evaluations", 5, "--metrics", "ed2p")
    assert told.status == 0, told.err
    assert "J*s^2" in told.out


@pytest.mark.parametrize(
    ("of_cost", "message"),
    [
        (lambda cost: 1 / 0, "the metric odd fails for .* J and .* s: ZeroDivisionError: division by zero"),
        (lambda cost: cost.enregy, "the metric odd fails for .*: AttributeError"),
        (lambda cost: float("nan"), "the metric odd must be a number, found '?nan"),
        (lambda cost: "7", "the metric odd must be a number, found '?7"),
        (lambda cost: None, "the metric odd must be a number, found '?None"),
    ],
)
def test_an_added_metric_that_gives_no_number_is_an_error_with_its_name(monkeypatch, of_cost, message):
    monkeypatch.setattr("einmap.mapper.objective.metrics.plugin", lambda *_: AddedMetric("odd", "J", "odd", of_cost))
    monkeypatch.setattr("einmap.mapper.objective.metrics._ADDED", {})
    with pytest.raises(SpecError, match=message):
        einmap.map_workload(einmap.load(*MATMUL, define={"M": 4, "K": 2, "N": 2}), metrics="odd")


def test_a_sweep_searches_for_the_best_mapping_by_an_added_metric(example):
    sizes = {"M": 8, "K": 4, "N": 8}
    axes = [{"path": "arch.nodes.MAC.actions.compute.throughput", "values": [1e9]}]
    (point,) = einmap.sweep({"specs": [*MATMUL], "define": sizes, "metric": "ed2p", "axes": axes}, workers=0)
    assert (point.status, point.optimal) == ("done", True), point.reason
    spec = einmap.load(*MATMUL, define=sizes).set(axes[0]["path"], 1e9)
    best = einmap.map_workload(spec, metrics="ed2p").cost
    assert point.energy * point.latency**2 == pytest.approx(best.energy * best.latency**2)


def test_a_strategy_and_a_language_are_found_by_name(example, run):
    assert strategy_named("first").__name__ == "First"
    assert run("emit", *MATMUL, "simple_matmul", "--lang", "outline").out.endswith("> Compute\n")


def test_a_broken_one_is_named_with_its_place_and_the_others_work_on(example, run):
    install(
        example,
        "broken-one",
        "2",
        {"einmap.emitters": {"bad": "no_such_module:x"}, "einmap.strategies": {"worse": "not a place"}},
    )
    with pytest.raises(
        SpecError, match=r"entry_points.txt: einmap.emitters: bad of the package broken-one 2 .*No module"
    ):
        plugin("emitters", "bad")
    assert run("emit", *MATMUL, "simple_matmul", "--lang", "bad").status == 2
    told = run("plugins", "--check")
    assert told.status == 0
    assert told.out.count("broken:") == 2
    assert told.out.count("can be loaded") == 5


def test_a_name_that_einmap_or_another_package_has_is_passed_over(example, run):
    install(example, "zzz", "1", {"einmap.strategies": {"random": "no_such_module:x", "FIRST": "no_such_module:x"}})
    assert strategy_named("random").__name__ == "RandomDraws"
    assert strategy_named("first").__name__ == "First"
    told = " ".join(run("plugins").out.split())
    assert told.count("passed over") == 2


def test_a_specification_cannot_name_a_metric_of_a_package(example):
    with pytest.raises(SpecError, match="unknown metric 'ed2p'"):
        einmap.map_workload(einmap.loads(KNOWN + "mapper: {metrics: ed2p}\n"))
    assert "einmap_example" not in sys.modules


def test_nothing_is_imported_for_plugins_at_start():
    text = "import sys, einmap.cli.main; print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "False\n"
