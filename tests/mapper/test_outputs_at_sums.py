"""Outputs at sums that cannot be counted are refused before anything is searched, with what can be written instead."""

import pytest

import einmap
from einmap.errors import NotSupportedError

WORKLOAD = """
workload:
  iteration_space_shape: {{p: 0 <= p < 4, q: 0 <= q < {q}, k: 0 <= k < 4}}
  bits_per_value: {{All: 8}}
  einsums:
  - A[p, q] = X[p, k] * W[k, q]
  - "Z[H: {index}] = A[p, q]"
"""


def written(folder, index, q=2):
    """A file with two Einsums; the second one, in line 7, writes at an index."""
    path = folder / "workload.yaml"
    path.write_text(WORKLOAD.format(index=index, q=q).replace('= A[p, q]"', '= relu(A[p, q])"'))
    return path


@pytest.mark.parametrize(
    ("index", "q", "remedy"),
    [
        ("2*p + q", 2, "write Z_parts, with a rank for each"),
        ("2*p + q", 3, "an Einsum for each remainder of its stride"),
    ],
)
def test_an_output_at_sums_is_refused_where_it_stands(tmp_path, index, q, remedy):
    said = []
    with pytest.raises(NotSupportedError, match=r"'Z' of Einsum 'Z' is indexed by sums \(2\*p \+ q\)") as error:
        einmap.map_workload(
            einmap.load("simple", written(tmp_path, index, q)),
            progress=einmap.Progress(said.append),
        )
    assert error.value.at is not None
    assert error.value.at.line == 7
    assert remedy in str(error.value)
    assert said == []


def test_what_the_hint_says_is_mapped(tmp_path):
    path = written(tmp_path, "2*p + q")
    text = path.read_text().replace("Z[H: 2*p + q]", "Z_parts[p, q]")
    text += '  - {einsum: "Z[H: 2*p + q] = Z_parts[p, q]", is_copy_operation: true}\n'
    path.write_text(text)
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy").optimal


def test_an_output_at_a_sum_without_holes_is_mapped(tmp_path):
    result = einmap.map_workload(einmap.load("simple", written(tmp_path, "p + q")), metrics="energy")
    assert result.cost.energy >= result.lower_bound > 0
