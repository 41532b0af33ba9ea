"""The key `distribution` in files: what it says, and where problems are."""

import pytest

from einmap import SpecError, loads
from einmap.distribute.costs.cost import communication
from einmap.distribute.read import plan_of

WORKLOAD = """\
workload:
  rank_sizes: {M: 4, N: 8, K: 16}
  bits_per_value: {All: 8}
  einsums:
  - einsum: "Z[m, n] = A[m, k] * B[k, n]"
"""


def plan(distribution):
    return plan_of(loads(WORKLOAD + "distribution:\n" + distribution))


def test_a_plan_file_holds_workload_mesh_and_placements():
    found = plan(
        """\
  mesh: {x: 2, y: 2}
  placements:
    A: {K: [x, y]}
    B: {k: {axes: [x, y], granule: 2}}
    Z: {M: x, partial: y}
  loops: {Z: {k: [x, y]}}
  dtype: float32
"""
    )
    assert found.mesh.axes == (("x", 2), ("y", 2))
    assert found.dtype == "float32"
    assert [(row.kind, row.axes) for row in communication(found)] == [("reduce_scatter", ("x",))]


def test_the_type_of_values_can_be_chosen_at_last():
    assert plan_of(loads(WORKLOAD + "distribution: {mesh: {x: 2}}"), "float32").dtype == "float32"


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        ("  mesh: {x: 2}\n  placements:\n    A: {M: x}\n    C: {M: x}\n", "<text>:10:8: distribution.placements.C"),
        ("  mesh: {x: 2}\n  placements:\n    A: {M: y}\n", "the mesh has no axis 'y'\n  hint: axes: x"),
        ("  mesh: {row: 2}\n  placements:\n    A: {M: rows}\n", "did you mean 'row'?"),
        ("  mesh: {x: 2}\n  placements:\n    A:\n      M: x\n      K: x\n", "mesh axis 'x' is used twice"),
        ("  mesh: {x: 2}\n  placements:\n    A: {Q: x}\n", "distribution.placements.A.Q: tensor 'A' has no rank 'Q'"),
        ("  mesh: {x: 3}\n  imperfect: false\n  placements:\n    A: {M: x}\n", "do not divide into 3 equal blocks"),
        ("  mesh: {x: 0}\n", "distribution.mesh.x: mesh axis 'x' has size 0"),
        ("  mesh: {}\n", "at least one axis"),
        ("  mesh: {x: two}\n", "distribution.mesh.x: mesh axis 'x' has size 'two'"),
        ("  placements: {}\n", "mesh"),
        (
            "  mesh: {x: 2}\n  placements: {A: 3}\n",
            "placements.A: expected a dictionary of ranks and their mesh axes, or",
        ),
        ("  mesh: {x: 2}\n  placements: {A: {M: {axes: x, granul: 2}}}\n", "did you mean 'granule'?"),
        ("  mesh: {x: 2}\n  overlap: Z\n", "distribution.overlap: expected a list of Einsums, found 'Z'"),
        ("  mesh: {x: 2}\n  placement: {}\n", "did you mean 'placements'?"),
        ("  mesh: {x: 2}\n  loops: {Y: {k: x}}\n", "distribution.loops.Y: the workload has no Einsum 'Y'"),
        ("  mesh: {x: 2}\n  overlap: [Z]\n", "distribution.overlap: the result of Einsum 'Z' is not reduce-scattered"),
        ("  mesh: {x: 2}\n  dtype: float16\n", "distribution.dtype: values are float64 or float32"),
    ],
)
def test_problems_are_told_with_their_place(distribution, message):
    with pytest.raises(SpecError) as caught:
        plan(distribution)
    assert message in str(caught.value)
    assert "<text>:" in str(caught.value)


def test_without_a_distribution_or_a_workload_there_is_no_plan():
    with pytest.raises(SpecError, match="no key 'distribution'"):
        plan_of(loads(WORKLOAD))
    with pytest.raises(SpecError, match="no workload"):
        plan_of(loads("distribution: {mesh: {x: 2}}"))
