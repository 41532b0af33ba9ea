"""`einmap census`: the shape of a mapspace."""

import json


def test_a_report_has_sizes_ties_and_a_histogram(run):
    done = run("census", "simple", "matmul", "--samples", "2000", "--workers", "1")
    assert done.status == 0
    assert "mappings" in done.out and "3.56e6" in done.out
    assert "proven optimal energy delay product" in done.out
    assert "█" in done.out


def test_json_says_how_sure_it_is(run):
    census = json.loads(run("census", "simple", "matmul", "--samples", "2000", "--workers", "1", "--json").out)
    assert census["size"] == [3556224.0] * 3
    assert census["size_is_exact"]
    assert census["valid_mappings"] == 2000
    part = census["within_1_percent"]
    assert part["low"] <= part["value"] <= part["high"]
    assert sum(row["count"] for row in census["histogram"]) == 2000
