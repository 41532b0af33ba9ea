"""Equal calls write equal files, however long they take and on however many cores."""

import pytest
from tests.machines import workload

MATMUL = workload("M: 8, K: 16, N: 8", "A[m, n] = X[m, k] * W[k, n]", "Z[m, n] = relu(A[m, n])")


@pytest.mark.parametrize(
    "words",
    [
        ("map", "simple", "work.yaml"),
        ("map", "simple", "work.yaml", "--max-evaluations", "3"),
        ("map", "simple", "work.yaml", "--csv"),
        ("plan", "work.yaml", "--mesh", "x=2"),
        ("rewrite", "simple", "matmul", "simple_matmul", "--do", "sink B@GlobalBuffer"),
        ("emit", "simple", "matmul", "simple_matmul", "--lang", "c"),
        ("plan-matmul", "256", "256", "256", "--machine", "cpu_core", "--dtype", "fp32"),
        ("partition", "matmul", "--split", "K/4"),
        ("dump", "simple", "work.yaml"),
    ],
)
def test_two_runs_write_equal_files(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.yaml").write_text(MATMUL)
    to = () if words[-1] == "--csv" else ("-o",)
    written = []
    for _ in range(2):
        assert run(*words, *to, "out", "--force").status == 0
        written.append((tmp_path / "out").read_bytes())
    assert written[0] == written[1]


def test_the_number_of_processes_changes_nothing_that_is_written(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.yaml").write_text(MATMUL)
    written = []
    for workers in ("1", "2"):
        assert run("map", "simple", "work.yaml", "--workers", workers, "-o", f"{workers}.yaml").status == 0
        written.append((tmp_path / f"{workers}.yaml").read_text().partition("\n")[2])
    assert written[0] == written[1]
