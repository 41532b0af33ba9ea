"""`einmap search`: strategies side by side."""

import json

import pytest

WORDS = ("search", "simple", "matmul", "--evaluations", "60", "--seeds", "2", "--workers", "1")


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
        (("--model", "nothing.npz"), "cannot read a cost model"),
    ],
)
def test_bad_input_ends_with_what_is_wrong(run, words, message):
    done = run(*WORDS, *words)
    assert (done.status, done.out) == (2, "")
    assert message in " ".join(done.err.replace("│", " ").split())


def test_a_cascade_needs_the_name_of_an_einsum(run):
    done = run("search", "simple", "matmul_chain")
    assert done.status == 2
    assert "--einsum NAME, one of" in done.err
