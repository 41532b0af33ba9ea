"""`einmap plan`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import pytest

SMALL = ("-D", "N_TOKENS=16", "-D", "D_MODEL=16", "-D", "D_FF=32", "-D", "BITS=32")


def test_the_plan_that_is_written_is_run(run, tmp_path):
    file = tmp_path / "plan.yaml"
    done = run("plan", "feed_forward", "--mesh", "x=2,y=2", "--memory", "5KiB", "-o", file, *SMALL)
    assert done.status == 0, done.err
    assert "proven least" in done.out
    assert "of 5 KiB" in done.out
    assert "The best plans that differ" in done.out
    done = run("run", "feed_forward", file, *SMALL)
    assert done.status == 0, done.err
    assert "equal to the unpartitioned result" in done.out


def test_the_json_has_costs_placements_and_reasons(run):
    done = run("plan", "feed_forward", "--mesh", "x=4", "--cluster", "a100_nodes", "--fix", "W1: S=x", "--json", *SMALL)
    document = json.loads(done.out)
    assert document["proven"]
    assert document["distribution"]["placements"]["W1"] == {"S": "x"}
    assert document["cost"] == pytest.approx(sum(part["cost"] for part in document["parts"]), rel=1e-6)
    assert all("more for" in other["why"] for other in document["others"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mesh", "x"], "'x' is not an axis with its PEs"),
        (["--mesh", "x=0"], "mesh axis 'x' has size 0"),
        (["--mesh", "x=2", "--memory", "16"], "--memory '16' is not an amount of memory"),
        (["--mesh", "x=2", "--memory", "16 gigs"], "write 16GiB; units: B, kB,"),
        (["--mesh", "x=2", "--memory", "1KiB"], "no plan keeps to 1 KiB on each PE: the thriftiest needs"),
        (["--mesh", "x=2", "--metrics", "tim"], "did you mean 'time'"),
        (["--mesh", "x=2", "--fix", "W1 S=x"], "a colon is missing"),
        (["--mesh", "x=2", "--fix", "W1: S"], "'S' is not a placement"),
        (["--mesh", "x=2", "--fix", "W9: S=x"], "no tensor 'W9'"),
        (["--mesh", "x=2", "--fix", "W1: Q=x"], "tensor 'W1' has no rank 'Q'"),
        (["--mesh", "x=2", "--search", "mcmc"], "No such option: --search"),
        (["--mesh", "x=2", "--svg", "a.svg", "--timeline", "a.svg"], "two outputs name the same file 'a.svg'"),
        (["--mesh", "z=2", "--cluster", "a100_nodes"], "the cluster has no links along mesh axis 'z'"),
        (["--mesh", "x=2", "--cluster", "a100_node"], "did you mean 'a100_nodes'"),
        (["--mesh", "x=2", "--cluster", "matmul"], "--cluster 'matmul': it has no key 'cluster'"),
        (["--mesh", "x=16", "--cluster", "a100_nodes"], "the cluster at most 8 hint: lay at most 8 PEs along x"),
        (["--mesh", "x=2,x=4"], "the mesh has two axes 'x'"),
        (["--mesh", "x=64,y=65"], "4,160 PEs; at most 4,096 are supported"),
        (["--mesh", "x=" + 5000 * "9"], "a number of 5,000 digits; at most 4,096 PEs"),
        (["--mesh", "x=2", "--memory", "0GiB"], "is less than a byte"),
        (["--mesh", "x=2", "--memory", "0.5B"], "is less than a byte"),
        (["--mesh", "x=2", "--memory", 400 * "9" + "GiB"], "is more than there can be"),
        (["--mesh", "x=2", "--fix", "W1: S=x,S=x"], "rank S is split twice"),
        (["--mesh", "x=2", "--fix", "W1: S=x*x"], "--fix 'W1: S=x*x': mesh axis 'x' is used twice"),
        (["--mesh", "x=2", "--fix", "W1: S=x", "--fix", "W1: D=x"], "W1 is fixed twice"),
        (["--mesh", "x=2", "--fix", ": S=x"], "a tensor is missing"),
    ],
)
def test_bad_input_is_told(run, options, message):
    done = run("plan", "feed_forward", *options, *SMALL)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.out + done.err


def test_all_problems_of_the_options_are_told_at_once(run):
    options = ["--mesh", "x=0,y,z=-2", "--metrics", "tim", "--memory", "1", "--fix", "W1", "--fix", "W2: "]
    done = run("plan", "feed_forward", *options, *SMALL)
    assert done.status == 2
    assert done.err.count("error:") == 7
    options = ["--mesh", "x=16,q=2", "--cluster", "a100_nodes", "--fix", "W9: S=x", "--fix", "W1: Q=x,S=w"]
    done = run("plan", "feed_forward", *options, *SMALL)
    assert done.status == 2
    assert done.err.count("error:") == 5


def test_a_shipped_distribution_with_turns_that_does_is_named(run):
    small = ("-D", "HEADS=1", "-D", "N_TOKENS=64", "--mesh", "x=8")
    done = run("plan", "attention_causal", *small, "--metrics", "memory")
    assert "in turns: QK, GM, SN, SD, AN over p: x as a ring" in done.out
    assert "the shipped distribution attention_causal_ring needs 1.555 KiB" in done.err
    assert "attention_ring" not in done.err
    assert "shipped" not in run("plan", "attention_causal", *small).err


def test_ends_that_match_are_told(run, tmp_path):
    layers = tmp_path / "layers.yaml"
    layers.write_text(
        "workload: {n_instances: 3, rank_sizes: {M: 4, K: 8, N: 8}, bits_per_value: {All: 8}, "
        'einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}'
    )
    words = ("plan", layers, "--mesh", "x=2")
    assert "Z lies as A does" in run(*words).out
    assert "Z lies as A does" not in run(*words, "--same", "none").out


def test_a_plan_that_differs_and_takes_less_where_steps_run_at_once_is_told(run, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "cluster:\n"
        "  pe: {peak: {fp16: 312e12}, memory_bandwidth: 2048e9}\n"
        "  axes: {x: {bandwidth: 195e9, latency: 10e-6, topology: switch}}\n"
    )
    done = run("plan", "llama3_8b", "--mesh", "x=8", "--cluster", cluster)
    said = " ".join(done.out.split())
    assert "time 490 µs with and without overlap; with overlap 450 µs for XS over m: x (not nothing)" in said


def test_pictures_a_trace_and_a_page_are_written(run, tmp_path):
    svg, lanes, trace, page = (tmp_path / name for name in ("a.svg", "b.svg", "c.json", "d.html"))
    options = ("--svg", svg, "--timeline", lanes, "--trace", trace, "--html", page)
    done = run("plan", "feed_forward", "--mesh", "x=4", "--fix", "W1: S=x", *options, *SMALL)
    assert done.status == 0, done.err
    assert svg.read_text().startswith("<svg")
    assert "axis x" in lanes.read_text()
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X", "C"}
    assert "einmap plan feed_forward --mesh x=4" in page.read_text()
    again = run("plan", "feed_forward", "--mesh", "x=4", *options, *SMALL)
    assert again.status == 2
    assert "--force" in again.err


def test_the_picture_of_the_documents_is_what_is_drawn(run, tmp_path):
    fixed = ("X: replicated", "W1: S=x", "W2: S=x", "Z: M=x")
    words = [word for text in fixed for word in ("--fix", text)]
    sizes = ("-D", "N_TOKENS=8", "-D", "D_MODEL=512", "-D", "D_FF=2048", "-D", "BITS=16")
    file = tmp_path / "plan.svg"
    assert run("plan", "feed_forward", "--mesh", "x=4", *words, *sizes, "--svg", file).status == 0
    shown = Path(__file__).parents[2] / "docs" / "images" / "plan_feed_forward.svg"
    assert file.read_text() == shown.read_text()


def test_axes_of_a_repeated_mesh_are_joined(run):
    done = run("plan", "feed_forward", "--mesh", "x=2", "--mesh", "y=2", "--json")
    assert json.loads(done.out)["distribution"]["mesh"] == {"x": 2, "y": 2}


def test_results_that_lie_as_inputs_do_are_named_on_the_command_line(run):
    words = ("plan", "llama3_8b", "--mesh", "x=8", "--json")
    free, same = (json.loads(run(*words, *more).out) for more in ((), ("--same", "O: X")))
    assert same["sent_bytes"] == 4 * free["sent_bytes"]
    assert same["homes"]["O"] == same["homes"]["X"]
    assert (free["same"], same["same"]) == ({}, {"O": "X"})
    assert "O lies as X does" in run(*words[:-1], "--same", "O: X").out
    assert json.loads(run(*words, "--same", "none").out)["cost"] == free["cost"]
    for text, said in [("O", "two tensors are needed"), ("O: XX", "did you mean 'X'?"), ("P: X", "not a result")]:
        done = run(*words, "--same", text)
        assert done.status == 2
        assert said in " ".join(done.err.split())
