"""`einmap skislope`: the least traffic by capacity."""

import json


def test_a_table_has_every_corner_beside_the_bound(run):
    done = run("skislope", "matmul")
    assert done.status == 0
    rows = [line.split() for line in done.out.splitlines()]
    # 64 x 64 x 64 in 8 bits
    assert any(row[:1] == ["4,161"] and "12,288" in row for row in rows)
    assert "proven least traffic" in done.out


def test_json_has_bits_of_a_single_einsum_of_a_cascade(run):
    curve = json.loads(run("skislope", "matmul_chain", "--einsum", "T1", "--json").out)
    assert curve["einsums"] == ["T1"]
    assert curve["proven"]
    assert curve["corners"][-1]["traffic_bits"] == curve["compulsory_traffic_bits"]


def test_an_unknown_einsum_is_refused_with_the_names(run):
    done = run("skislope", "matmul_chain", "--einsum", "T9")
    assert done.status == 2
    assert "T1" in done.err
