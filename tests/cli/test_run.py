"""`einmap run`: a plan is printed, run and checked."""

import json

import pytest
from tests.machines import workload

from einmap.distribute.backends import local
from einmap.distribute.backends.base import Run

MATMUL = ("matmul", "matmul_reduce_scatter", "-D", "M=10", "-D", "K=11", "-D", "N=9")


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_shipped_distribution_runs_and_is_right(run, devices):
    done = run("run", *MATMUL, "-D", f"G={devices}")
    assert done.status == 0
    assert f"mesh x={devices}: {devices} PEs, float64" in done.out
    assert "Z of the engine local: equal to the unpartitioned result" in done.out


def test_the_plan_is_printed_as_einsums_with_its_communication(run):
    out = run("run", *MATMUL, "--dry-run").out
    assert "ZL[x, m, n] = AD[x, m, k0] * BD[x, k0, n]" in out
    assert "ZD[x, m0, n] = ZL[x', m, n]" in out
    # 12 rows, padding included, 9 columns, 8 bytes
    assert ["reduce-scatter", "Z", "x:", "1", "of", "4", "1", "864", "216", "648", "648"] in map(
        str.split, out.splitlines()
    )
    assert "unpartitioned" not in out


def test_json_has_the_plan_its_traffic_and_the_outcome(run):
    document = json.loads(run("run", *MATMUL, "--json", "--dtype", "float32").out)
    assert document["agrees"] is True
    assert document["dtype"] == "float32"
    (row,) = document["predicted"]
    assert (row["kind"], row["groups"], row["count"], row["total_sent_bytes"]) == (
        "reduce_scatter",
        {"count": 1, "size": 4, "inside": [[4, 1]], "between": []},
        1,
        324,
    )
    assert document["outputs"][0]["tensor"] == "Z"


def test_a_plan_may_stand_in_one_file(run, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(
        """
distribution:
  mesh: {x: 4}
  placements:
    A: {K: x}
    Z: {M: x}
"""
        + workload("M: 4, K: 6", "Z[m] = A[m, k] * B[k]")
    )
    done = run("run", file, "--seed", "3")
    assert done.status == 0
    assert "equal" in done.out


def test_a_wrong_result_is_exit_status_1(run, monkeypatch):
    right = local.LocalEngine.run

    def off(self, plan, inputs):
        return Run({tensor: values + 1 for tensor, values in right(self, plan, inputs).outputs.items()})

    monkeypatch.setattr(local.LocalEngine, "run", off)
    done = run("run", *MATMUL)
    assert done.status == 1
    assert "DIFFERS from the unpartitioned result" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("matmul",), "the specification has no key 'distribution'"),
        (("matmul_reduce_scatter",), "no workload to distribute"),
        (("matmul", "attention_over_h"), "the workload has no tensor 'WK'"),
        ((*MATMUL, "--engine", "lokal"), "did you mean 'local'?"),
        ((*MATMUL, "--processes", "2"), "one process"),
        ((*MATMUL, "--dtype", "float16"), "values are float64 or float32, not 'float16'"),
        ((*MATMUL, "-D", "G=0"), "mesh axis 'x' has size 0"),
        (
            ("llama3_8b", "llama3_8b_tensor_parallel", "--check", "whole"),
            "Einsum 'V' has 8,589,934,592 points; at most",
        ),
        (("matmul", "matmul_2d_gather", "-D", "G=3"), "G must be a multiple of X"),
    ],
)
def test_bad_input_is_an_error_before_anything_runs(run, words, message):
    done = run("run", *words)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert "unpartitioned" not in done.out


def test_a_sample_is_checked_and_told(run):
    done = run("run", "matmul", "matmul_reduce_scatter", "--check", "sample", "--seed", "7")
    assert done.status == 0
    said = " ".join(done.out.split())
    assert "1,024 of 4,096 values checked, they equal what the definition gives" in said
    assert "checked on a sample, drawn with seed 7" in said


def test_no_check_is_told(run):
    done = run("run", "matmul", "matmul_reduce_scatter", "--check", "none", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    assert document["check"] == {"extent": "none", "seed": 0, "why": None}
    assert document["outputs"] == []
    assert "nothing was checked" in run("run", "matmul", "matmul_reduce_scatter", "--check", "none").out


def test_an_unknown_extent_is_refused(run):
    done = run("run", "matmul", "matmul_reduce_scatter", "--check", "sampel")
    assert done.status == 2
    assert "did you mean 'sample'" in done.err
