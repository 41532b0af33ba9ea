"""Meshes, groups of PEs, and blocks of tensors."""

import pytest

from einmap import SpecError
from einmap.distribute.placements.mesh import MAX_DEVICES, Groups, Mesh
from einmap.distribute.placements.placement import Placement, Split, block_of, held, local_shape

GRID = Mesh((("x", 2), ("y", 3)))


def test_PEs_are_numbered_row_major():
    assert [GRID.coordinates(device) for device in (0, 2, 3, 5)] == [
        {"x": 0, "y": 0},
        {"x": 0, "y": 2},
        {"x": 1, "y": 0},
        {"x": 1, "y": 2},
    ]


def test_a_group_is_the_PEs_that_differ_in_its_axes_only():
    assert GRID.groups(("y",)).listed == ((0, 1, 2), (3, 4, 5))
    assert GRID.groups(("x",)).listed == ((0, 3), (1, 4), (2, 5))
    assert GRID.groups(("x", "y")).listed == ((0, 1, 2, 3, 4, 5),)


@pytest.mark.parametrize("axes", [("x",), ("y",), ("x", "y"), ("y", "x")])
def test_groups_list_their_PEs_by_position(axes):
    for group in GRID.groups(axes).listed:
        assert [GRID.position(device, axes) for device in group] == list(range(len(group)))


def test_groups_of_thousands_of_PEs_are_said_by_steps():
    wide = Mesh((("x", 16), ("y", 16), ("z", 16)))
    assert wide.groups(("y",)) == Groups(((16, 16),), ((16, 256), (16, 1)))
    assert wide.groups(("x", "y")) == Groups(((256, 16),), ((16, 1),))
    assert (str(wide.groups(("x", "y"))), wide.groups(("x", "y")).first[:3]) == ("16 of 256", (0, 16, 32))
    assert "listed" not in vars(wide.groups(("x",)))


def test_the_first_axis_of_a_group_is_the_slowest():
    assert GRID.groups(("y", "x")).listed == ((0, 3, 1, 4, 2, 5),)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((), "at least one axis"),
        ((("x", 2), ("x", 2)), "two axes 'x'"),
        ((("x", 0),), "size 0; expected a positive integer"),
        ((("x", True),), "size True"),
        ((("a b", 2),), "'a b' is not a name of a mesh axis"),
        ((("x", MAX_DEVICES + 1),), "at most 4,096"),
    ],
)
def test_what_is_no_mesh_is_refused(axes, message):
    with pytest.raises(SpecError, match=message):
        Mesh(axes)


def test_an_unknown_axis_is_refused_with_the_closest_one():
    with pytest.raises(SpecError, match="no axis 'rows'") as caught:
        Mesh((("row", 2), ("column", 2))).size("rows")
    assert "did you mean 'row'?" in str(caught.value)


def test_blocks_are_equal_and_rounded_up_to_whole_granules():
    assert [block_of(10, parts) for parts in (1, 2, 4, 8, 16)] == [10, 5, 3, 2, 1]
    assert block_of(6 * 16, 4, granule=16) == 32


def test_the_last_blocks_of_an_imperfect_split_are_short_or_empty():
    mesh = Mesh((("x", 8),))
    split = Split("K", ("x",), block_of(10, 8))
    assert [len(held(10, split, mesh, device)) for device in range(8)] == [2, 2, 2, 2, 2, 0, 0, 0]
    assert local_shape({"K": 10, "M": 3}, Placement((split,))) == {"K": 2, "M": 3}


def test_placements_that_say_the_same_are_equal():
    one = Placement((Split("M", ("y",), 2), Split("K", ("x",), 4)), ("w", "z"))
    other = Placement((Split("K", ("x",), 4), Split("M", ("y",), 2)), ("z", "w"))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "K: x, M: y, partial sum over w*z"
