"""What is found in programs of JAX: written by hand, so that each count and size is known."""

import importlib.util
from pathlib import Path

import pytest

from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Command, Processes
from einmap.distribute.backends.jax.read_hlo import compiled_collectives
from einmap.distribute.backends.observed_collectives import groups_over, sorted_pairs
from einmap.distribute.placements.mesh import Mesh
from einmap.errors import InvariantError

ROOT = Path(__file__).parents[2]
ALONG_X = ((0, 4), (1, 5), (2, 6), (3, 7))
ALONG_Y = ((0, 1, 2, 3), (4, 5, 6, 7))
BOTH_WAYS = ((0, 4), (1, 5), (2, 6), (3, 7), (4, 0), (5, 1), (6, 2), (7, 3))
ALL = ((0, 1, 2, 3, 4, 5, 6, 7),)
ALL_BY_COLUMN = ((0, 4, 1, 5, 2, 6, 3, 7),)
SIZE = 8 * 24 * 4


@pytest.fixture(scope="module")
def programs():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    environment = {
        "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"
    }  # fmt: skip
    with Processes([Command(("tests.distribute.lowering_server", "{}"), environment)]) as processes:
        (answer,) = processes.ask([Message({})], 120)
    return answer.document["communication"]


def as_found(*wanted):
    return sorted([kind, [list(group) for group in groups], *rest] for kind, groups, *rest in wanted)


def test_every_kind_has_its_groups_in_order_and_its_bytes(programs):
    lowered, _ = programs["all_kinds"]
    assert lowered == as_found(
        ("all_gather", ALL_BY_COLUMN, SIZE, 8 * SIZE, 1),
        ("reduce_scatter", ALONG_Y, 8 * SIZE, 2 * SIZE, 1),
        ("all_reduce", ALONG_X, 2 * SIZE, 2 * SIZE, 1),
        ("all_to_all", ALONG_Y, 2 * SIZE, 2 * SIZE, 1),
        ("collective_permute", tuple((i, (i + 1) % 8) for i in range(8)), 2 * SIZE, 2 * SIZE, 1),
    )


def test_loops_are_multiplied_out(programs):
    lowered, compiled = programs["loops"]
    assert lowered == as_found(
        ("collective_permute", BOTH_WAYS, SIZE, SIZE, 3 * 5),
        ("all_reduce", ALONG_Y, SIZE, SIZE, 3),
        ("all_reduce", ALONG_X, 8, 8, 11),
    )
    assert compiled == lowered


def test_functions_count_at_every_call(programs):
    lowered, _ = programs["functions"]
    assert lowered == as_found(("all_reduce", ALONG_X, SIZE, SIZE, 3 * 2))


def test_the_compiler_drops_what_it_has_already(programs):
    lowered, compiled = programs["repeated"]
    assert lowered == as_found(("all_reduce", ALONG_X, SIZE, SIZE, 2))
    assert compiled == as_found(("all_reduce", ALONG_X, SIZE, SIZE, 1))


def test_what_cannot_be_counted_is_no_number(programs):
    assert "unknown number of turns" in programs["unknown_turns"][0]
    assert "under a condition" in programs["conditional"][0]


def test_slices_and_positions_send_nothing(programs):
    assert programs["silent"] == [[], []]


def test_groups_are_those_of_the_mesh():
    mesh = Mesh((("x", 2), ("y", 3), ("z", 4)))
    for axes in (("x",), ("y", "z"), ("z", "y"), ("z", "x"), ("x", "y", "z")):
        assert groups_over(mesh.shape, [mesh.names.index(axis) for axis in axes]) == mesh.groups(axes).listed


def test_a_permute_of_some_devices_is_read_as_its_pairs(programs):
    lowered, compiled = programs["some_send"]
    # along x device 0 sends to 4 and nobody else sends along; along y devices 1 and 2 exchange, in both groups
    assert lowered == as_found(
        ("collective_permute", ((0, 4), (1, 5), (2, 6), (3, 7)), SIZE, SIZE, 1),
        ("collective_permute", ((1, 2), (2, 1), (5, 6), (6, 5)), SIZE, SIZE, 1),
    )
    assert compiled == lowered


def test_pairs_are_sorted_and_nobody_occurs_twice():
    assert sorted_pairs([(2, 0), (0, 2), (3, 1)]) == ((0, 2), (2, 0), (3, 1))
    for pairs in ([(0, 0)], [(0, 1), (1, 1)], [(0, 1), (0, 2)], [(0, 2), (1, 2)]):
        with pytest.raises(InvariantError, match="one sender and one receiver"):
            sorted_pairs(pairs)


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("replica_groups={{0,2},{1,3}}", ((0, 2), (1, 3))),
        ("replica_groups=[2,2]<=[4]", ((0, 1), (2, 3))),
        ("replica_groups=[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("replica_groups=mesh['x'=2,'y'=2] {'x'}", ((0, 2), (1, 3))),
    ],
)
def test_groups_of_compiled_programs_are_read_in_every_form(written, groups):
    text = f"""ENTRY %main (a: f32[4]) -> (f32[4], f32[4]) {{
  %a = f32[4]{{0}} parameter(0)
  %s = (f32[4]{{0}}, f32[4]{{0}}) all-reduce-start(%a, %a), channel_id=1, {written}, to_apply=%add
  ROOT %d = (f32[4]{{0}}, f32[4]{{0}}) all-reduce-done(%s)
}}"""
    (found,) = compiled_collectives(text)
    assert (found.kind, found.groups, found.operand_bytes, found.count) == ("all_reduce", groups, 32, 1)
