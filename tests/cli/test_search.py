"""`einmap search`: strategies side by side."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import without

WORDS = ("search", "simple", "matmul", "--evaluations", "60", "--seeds", "2", "--workers", "1")
SMALL = (*WORDS, "-D", "M=16", "-D", "N=16", "-D", "K=16")


def test_a_table_has_gaps_and_how_soon_they_are_reached(run):
    done = run(*WORDS, "--strategy", "optimal,random")
    assert done.status == 0
    assert "3.56e6 mappings; proven optimal energy delay product 1.38 nJ*s" in done.out
    assert "Gap to the optimum" in done.out
    rows = [line.split()[:3] for line in done.out.splitlines() if line.startswith("  optimal")]
    assert rows[0] == ["optimal", "1", "100"]


def test_a_journal_goes_on_where_it_ended(run, tmp_path):
    journal = tmp_path / "runs"
    first = json.loads(run(*WORDS, "--strategy", "random", "-o", journal, "--json").out)
    lines = journal.read_text().splitlines()
    assert len(lines) == 3
    again = json.loads(run(*WORDS, "--strategy", "random,exhaustive", "-o", journal, "--json").out)
    assert journal.read_text().splitlines()[:3] == lines
    assert [r for r in again["runs"] if r["strategy"] == "random"] == first["runs"]
    assert {row["strategy"]: row["seeds"] for row in again["strategies"]} == {"random": 2, "exhaustive": 2}


def test_processes_come_to_the_same_runs_as_one(run):
    words = ("search", "simple", "matmul", "--evaluations", "30", "--seeds", "2", "--strategy", "annealing", "--json")
    alone, together = (json.loads(run(*words, "--workers", n).out)["runs"] for n in (1, 2))
    values = [[[n, v] for n, _, v in r["improvements"]] for r in alone]
    assert values == [[[n, v] for n, _, v in r["improvements"]] for r in together]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--strategy", "annealin"), "annealing"),
        (("--strategy", ","), "names no strategy"),
        (("--evaluations", "0"), "greater than or equal to 1"),
        (("--seconds", "0"), "a search needs a budget"),
        (("--seconds", "nan"), "a search needs a budget"),
        (("--metrics", "energy,latency"), "one objective"),
        (("--einsum", "Y"), "no Einsum 'Y'"),
        (("--model", "nothing.model"), "nothing.model: cannot read a cost model: No such file"),
        (("--model", str(Path(__file__))), "test_search.py: this is not a cost model"),
        (("--remeasure", "33"), "less than or equal to 32"),
        (("--remeasure", "2", "--remeasure-by", "simulater"), "did you mean 'simulator'?"),
        (("--remeasure-by", "c"), "it says how --remeasure N measures"),
    ],
)
def test_bad_input_ends_with_what_is_wrong(run, words, message):
    done = run(*without(WORDS, words), *words)
    assert (done.status, done.out) == (2, "")
    assert message in " ".join(done.err.replace("│", " ").split())


def test_a_cascade_needs_the_name_of_an_einsum(run):
    done = run("search", "simple", "matmul_chain")
    assert done.status == 2
    assert "--einsum NAME, one of" in done.err


def test_the_best_of_each_strategy_are_executed_beside_the_mapping_of_the_mapper(run):
    done = run(*SMALL, "--strategy", "random,annealing", "--remeasure", "2", "--json")
    executed = json.loads(done.out)["executed"]
    assert (executed["by"], list(executed["strategies"])) == ("simulator", ["random", "annealing"])
    for of_one in executed["strategies"].values():
        assert len(of_one) == 2 and of_one[0]["measured"] <= of_one[1]["measured"]
        assert all(one["measured"] == pytest.approx(one["predicted"], rel=1e-9) for one in of_one)
        assert of_one[0]["measured"] >= executed["optimum"]["measured"]
        assert of_one[0]["mapping"]["nodes"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_best_are_compiled_and_timed(run):
    done = run(*WORDS, "--strategy", "random", "--remeasure", "1", "--remeasure-by", "c")
    rows = [line.split() for line in done.out.partition("executed as C on this machine")[2].splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows[:1]] == [("the", "x")] and [row[0] for row in rows[1:]] == ["random"]
    assert all(row[-3].endswith("s") for row in rows)


def test_a_journal_is_of_one_code_file(run, tmp_path):
    journal, code, arch = tmp_path / "runs", tmp_path / "code.py", tmp_path / "arch.yaml"
    text = run("dump", "simple").out
    arch.write_text(text + "\nvariables: {slower: factor()}\n")
    words = ("search", arch, "matmul", *SMALL[3:], "--strategy", "random", "--allow-code", code, "-o", journal)
    for factor, status in ((1, 0), (1, 0), (2, 2)):
        code.write_text(f"def factor(): return {factor}\n")
        done = run(*words)
        assert (done.status, "the journal of another experiment" in done.err) == (status, status == 2)


def test_a_journal_keeps_what_is_executed(run, tmp_path):
    words = (*SMALL, "--strategy", "random", "-o", tmp_path / "runs", "--json")
    run(*words)
    later = json.loads(run(*words, "--remeasure", "2").out)
    fresh = json.loads(run(*SMALL, "--strategy", "random", "--json", "--remeasure", "2").out)
    assert later["executed"]["strategies"] == fresh["executed"]["strategies"]
    text = (tmp_path / "runs").read_text()
    (tmp_path / "runs").write_text(re.sub(r'(?<="best_points": \[\[)[^,]*', "1e-30", text))
    done = run(*words, "--remeasure", "2")
    assert (done.status, "have other objectives here" in done.err) == (2, True)


def test_what_cannot_be_executed_is_told_before_the_search(run, monkeypatch):
    monkeypatch.setattr("einmap.cli.commands.lab.search._runs", lambda *_: pytest.fail("the search has started"))
    done = run("search", "nvdla", "vgg16", "--einsum", "conv3_2", "--remeasure", "2")
    assert (done.status, done.out) == (2, "")
    assert "--remeasure: none of the best mappings can be executed: too large to execute" in done.err


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="extra")
def test_what_is_learnt_on_one_workload_is_used_on_another(run, tmp_path):
    file = tmp_path / "learnt.model"
    done = run(*SMALL, "--strategy", "random,mcmc", "--save-model", file)
    assert (done.status, "wrote a cost model of " in done.err) == (0, True)
    words = (*WORDS, "--strategy", "learned", "--json")
    alone, begun = (json.loads(run(*words, *more).out)["runs"] for more in ((), ("--model", file)))
    # without a model the first 64 evaluations are uniform draws: all 60 of this budget
    assert sum(r["improvements"][-1][2] for r in begun) < sum(r["improvements"][-1][2] for r in alone)
    assert run("search", "nvdla", "conv", "--model", file).status == 2


def test_a_model_of_journalled_runs_is_refused_and_of_some_says_so(run, tmp_path):
    words = (*WORDS, "-o", tmp_path / "runs", "--save-model", tmp_path / "model", "--strategy")
    run(*words, "random")
    done = run(*words, "random", "--force")
    assert (done.status, "all runs are in the journal" in done.err) == (2, True)
    done = run(*words, "random,mcmc", "--force")
    assert (done.status, "2 runs of the journal are not in it" in done.err) == (0, True)
