"""Line buffers: `sliding_window` counted by hand. 8 bits for each value, one bit for each action."""

import pytest
from tests.execute.agreement import differences
from tests.machines import machine
from tests.model.worked import counts, usages

from einmap import MappingError, SpecError, dump, evaluate, execute, loads, map_workload
from einmap.errors import NotSupportedError

ARCH = machine("DRAM inf 10/12 @8 / Array: X 4 / GLB 4096 2/3 @16 / MAC 1 @1")
NODE = "!Storage {tensors: [%s], component: GLB}"


def spec(einsum, extents, held, *loops, model="model: {sliding_window: true}"):
    """All in DRAM, then loops (`p 2`, or `GLB` for the node that holds `held`), down to tiles of one value."""
    nodes = ["!Storage {tensors: [I, F, O], component: DRAM}"]
    for loop in (*loops, *(f"{v} 1" for v in extents)):
        variable, *rest = loop.split()
        if variable == "GLB":
            nodes.append(NODE % held)
        elif rest[0] == "over":
            nodes.append(f"!Spatial {{rank_variable: {rest[1]}, tile_shape: {rest[2]}, component: Array, name: X}}")
        else:
            first = f", initial_tile_shape: {rest[1]}" if len(rest) > 1 else ""
            nodes.append(f"!Temporal {{rank_variable: {variable}, tile_shape: {rest[0]}{first}}}")
    tree = "\n".join(f"  - {node}" for node in (*nodes, "!Compute {einsum: O, component: MAC}"))
    bounds = ", ".join(f"{v}: 0 <= {v} < {n}" for v, n in extents.items())
    workload = f"iteration_space_shape: {{{bounds}}}\n  bits_per_value: {{All: 8}}\n  einsums: ['{einsum}']"
    return loads(f"{ARCH}\n{model}\nworkload:\n  {workload}\nmapping:\n  nodes:\n{tree}\n")


def fetched(einsum, extents, *loops, **options):
    """Values of I that GLB fetches from DRAM, in model and machine."""
    found = spec(einsum, extents, "I", *loops, **options)
    bits = counts(evaluate(found))["O", "I", "DRAM", "read"]
    assert bits == sum(r.count for r in execute(found).actions if (r.component, r.tensor) == ("DRAM", "I"))
    return bits / 8


CONV = "O[p] = I[H: p + r] * F[r]"


@pytest.mark.parametrize(
    ("extents", "loops", "values", "in_full"),
    [
        pytest.param({"p": 8, "r": 3}, ["p 2", "GLB"], 4 + 2 + 2 + 2, 4 * 4, id="only what is new"),
        pytest.param({"p": 8, "r": 3}, ["p 3", "GLB"], 5 + 3 + 2, 5 + 5 + 4, id="a ragged last tile"),
        pytest.param({"p": 7, "r": 3}, ["p 2 1", "GLB"], 3 + 2 + 2 + 2, 3 + 4 + 4 + 4, id="a first tile of its own"),
        pytest.param({"p": 8, "r": 1}, ["p 2", "GLB"], 8, 8, id="windows of one value"),
        pytest.param({"p": 8, "r": 3}, ["p 4", "p 2", "GLB"], 2 * (4 + 2), 4 * 4, id="the innermost loop only"),
        pytest.param({"p": 8, "r": 3}, ["p 2", "p 2", "GLB"], 10, 16, id="a loop of one iteration is absent"),
        pytest.param({"p": 8, "r": 4}, ["p 4", "r 1", "GLB"], 2 * (4 + 1 + 1 + 1), 8 * 4, id="sliding along r"),
        pytest.param({"m": 2, "p": 8, "r": 3}, ["m 1", "p 2", "GLB"], 2 * 10, 2 * 16, id="anew in each sweep"),
        pytest.param({"m": 2, "p": 8, "r": 3}, ["p 2", "m 1", "GLB"], 2 * 16, 2 * 16, id="an irrelevant loop inside"),
    ],
)
def test_a_visit_fetches_what_the_one_before_did_not_hold(extents, loops, values, in_full):
    einsum = CONV if "m" not in extents else "O[m, p] = I[H: p + r] * F[m, r]"
    assert fetched(einsum, extents, *loops) == values
    assert fetched(einsum, extents, *loops, model="") == in_full


def test_strides_and_dilations():
    # tiles 4*1 + 2 + 1 = 7, 8 apart: nothing in common
    assert fetched("O[p] = I[H: 4*p + r] * F[r]", {"p": 8, "r": 3}, "p 2", "GLB") == 4 * 7
    # tiles 2*1 + 4 + 1 = 7, 4 apart: 3 in common
    assert fetched("O[p] = I[H: 2*p + 2*r] * F[r]", {"p": 6, "r": 3}, "p 2", "GLB") == 7 + 4 + 4
    # backwards: p from 0 to 7 goes down
    assert fetched("O[p] = I[H: r - p + 7] * F[r]", {"p": 8, "r": 3}, "p 2", "GLB") == 10


def test_two_ranks_overlap_where_both_do():
    einsum = "O[p, q] = I[H: p + r, W: q + r] * F[r]"
    # rows of 4 x 6; the next one shares 2 x 6
    assert fetched(einsum, {"p": 4, "q": 4, "r": 3}, "p 2", "GLB") == 24 + 12
    # a diagonal: 4 x 4 tiles that share 2 x 2
    assert fetched("O[p] = I[H: p + r, W: p + s] * F[r, s]", {"p": 4, "r": 3, "s": 3}, "p 2", "GLB") == 16 + 12


def test_each_lane_keeps_its_own_tile():
    # lanes of 2 of each 4 values of p; a lane moves on by 4: windows of 3 leave 1 gap, those of 5 share 2 of 6
    assert fetched(CONV, {"p": 8, "r": 3}, "p 4", "X over p 2", "GLB") == 2 * 2 * 4
    assert fetched(CONV, {"p": 8, "r": 5}, "p 4", "X over p 2", "GLB") == 2 * (6 + 4)
    # the lane outside the loop: each goes through its half
    assert fetched(CONV, {"p": 8, "r": 3}, "X over p 4", "p 2", "GLB") == 2 * (4 + 2)
    # the second lane has nothing before it: the first tile is smaller than a lane
    assert fetched(CONV, {"p": 5, "r": 3}, "p 4 1", "X over p 2", "GLB") == 3 + 4 - 2 + 4


SCATTER = "O[H: p + r] = I[p] * F[r]"


def test_an_output_is_written_back_when_it_leaves_and_not_fetched_again():
    extents = {"p": 4, "r": 3}
    plain = counts(evaluate(spec(SCATTER, extents, "O", "p 2", "GLB", model="")))
    assert (plain["O", "O", "DRAM", "read"], plain["O", "O", "DRAM", "write"]) == (2 * 8, 8 * 8)
    found = counts(evaluate(spec(SCATTER, extents, "O", "p 2", "GLB")))
    assert ("O", "O", "DRAM", "read") not in found
    assert found["O", "O", "DRAM", "write"] == 6 * 8
    # 12 results come in, 6 of them first ones; 6 values leave
    assert found["O", "O", "GLB", "write"] == 12 * 8
    assert found["O", "O", "GLB", "read"] == (12 - 6 + 6) * 8


def test_lanes_that_take_turns_on_an_output_keep_nothing():
    extents, loops = {"p": 8, "r": 5}, ("p 4", "X over p 2", "GLB")
    assert counts(evaluate(spec(SCATTER, extents, "O", *loops))) == counts(
        evaluate(spec(SCATTER, extents, "O", *loops, model=""))
    )


def test_a_line_buffer_is_as_large_as_the_tile():
    loops = {"p": 8, "r": 3}, "I", "p 2", "GLB"
    slides, plain = (evaluate(spec(CONV, *loops, **more)) for more in ({}, {"model": ""}))
    assert usages(slides) == usages(plain) == {"GLB": 4 * 8 / 4096}


def test_a_node_says_for_itself_whether_it_slides():
    found = spec(CONV, {"p": 8, "r": 3}, "I", "p 2", "GLB")
    off = found.set("mapping.nodes[2].sliding_window", False)
    on = off.set("mapping.nodes[2].sliding_window", True).set("model.sliding_window", False)
    assert counts(evaluate(off))["O", "I", "DRAM", "read"] == 16 * 8
    assert counts(evaluate(on))["O", "I", "DRAM", "read"] == 10 * 8
    for each in (off, on):
        assert loads(dump(each)).mapping == each.mapping
        assert counts(evaluate(loads(dump(each)))) == counts(evaluate(each))


def test_the_note_on_overlaps_says_what_sliding_would_keep():
    notes = "\n".join(n.text for n in evaluate(spec(CONV, {"p": 8, "r": 3}, "I", "p 4", "p 2", "GLB", model="")).notes)
    assert "6 of 16 values (38%) are fetched again" in notes
    assert "sliding_window: true on this node would keep 4 of them" in notes
    notes = "\n".join(n.text for n in evaluate(spec(CONV, {"p": 8, "r": 3}, "I", "p 4", "p 2", "GLB")).notes)
    assert "2 of 12 values (17%), beside 4 that it keeps from visit to visit, are fetched again" in notes
    assert "overlap" not in str(evaluate(spec(CONV, {"p": 8, "r": 3}, "I", "p 2", "GLB")).notes)


def test_the_preset_accelforge_and_the_mapper_have_no_sliding_windows():
    found = spec(CONV, {"p": 8, "r": 3}, "I", "p 2", "GLB")
    with pytest.raises(SpecError, match=r"sliding_window.*accelforge"):
        evaluate(found, semantics="accelforge")
    off = found.set("model.sliding_window", False).set("mapping.nodes[2].sliding_window", True)
    with pytest.raises(SpecError, match="accelforge") as error:
        evaluate(off, semantics="accelforge")
    assert error.value.at.path == "mapping.nodes[2]"
    with pytest.raises(NotSupportedError, match="sliding_window") as error:
        map_workload(found)
    assert error.value.at.path == "model.sliding_window"


def test_no_advice_to_move_a_line_buffer_away_from_its_loop():
    einsum, sizes = "O[m, p] = I[m, H: p + r] * F[r]", {"m": 2, "p": 8, "r": 3}
    for everywhere in (True, False):
        for own in (True, False, None):
            found = spec(einsum, sizes, "I", "p 2", "GLB").set("model.sliding_window", everywhere)
            found = found if own is None else found.set("mapping.nodes[2].sliding_window", own)
            slides = everywhere if own is None else own
            assert any("bits less at equal traffic" in n.text for n in evaluate(found).notes) != slides


FUSED = """
workload:
  iteration_space_shape: {p: 0 <= p < 8, r: 0 <= r < 3, s: 0 <= s < 3}
  bits_per_value: {All: 8}
  einsums: ["X[p] = I[H: p + r] * F[r]", "Y[p] = I[H: p + s] * G[s]"]
mapping:
  nodes:
  - !Storage {tensors: [I, F, G, X, Y], component: DRAM}
  - !Temporal {rank_variable: p, tile_shape: 2}
  %s
  - !Sequential
    nodes:
    - !Nested {nodes: [%s !Temporal {rank_variable: p, tile_shape: 1}, !Temporal {rank_variable: r, tile_shape: 1},
                       !Compute {einsum: X, component: MAC}]}
    - !Nested {nodes: [!Storage {tensors: [G], component: GLB}, !Temporal {rank_variable: p, tile_shape: 1},
                       !Temporal {rank_variable: s, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]}
"""


@pytest.mark.parametrize("slides", [True, False])
def test_one_line_buffer_serves_several_einsums(slides):
    found = loads(ARCH + FUSED % ("- " + NODE % "I", "")).set("model.sliding_window", slides)
    values = counts(evaluate(found))["X", "I", "DRAM", "read"] / 8
    assert values == (10 if slides else 16)
    assert ("Y", "I", "DRAM", "read") not in counts(evaluate(found))


@pytest.mark.parametrize("slides", [True, False])
def test_a_line_buffer_in_a_branch_keeps_its_space_while_others_run(slides):
    found = loads(ARCH + FUSED % ("", NODE % "I" + ",")).set("model.sliding_window", slides)
    cost = evaluate(found)
    assert counts(cost)["X", "I", "DRAM", "read"] / 8 == (10 if slides else 16)
    # 4 values of I; G (3 values) in the other branch
    assert usages(cost) == {"GLB": (7 if slides else 4) * 8 / 4096}
    assert execute(found).usage == {"DRAM": 0, **usages(cost)}


def test_common_tiles_that_grow_are_added_at_their_largest():
    """Usage is then an upper bound: common tiles of I grow along the loop, those of X shrink."""
    text = (
        ARCH
        + FUSED.replace("Y[p] = I[H: p + s]", "Y[p] = I[H: 2*p + s]")
        .replace("p: 0 <= p < 8", "p: 0 <= p < 5")
        .replace("r < 3, s: 0 <= s < 3", "r < 1, s: 0 <= s < 1")
        .replace("!Temporal {rank_variable: p, tile_shape: 2}", "!Temporal {rank_variable: p, tile_shape: 3}")
        % ("- " + NODE % "I, X", "")
    ).replace("!Storage {tensors: [G], component: GLB}, ", "")
    # I: 0..4, then 3..8; X: 0..2, then 3..4
    assert usages(evaluate(loads(text))) == {"GLB": (6 + 3) * 8 / 4096}
    assert execute(loads(text)).usage["GLB"] == max(5 + 3, 6 + 2) * 8 / 4096


HALO = """
workload:
  iteration_space_shape: {{h: 0 <= h < {h}, p: 0 <= p < {p}, r: 0 <= r < {r}, j: 0 <= j < 2}}
  bits_per_value: {{All: 8}}
  einsums: ["T[h] = A[h, j] * B[j]", "Z[p] = T[H: {stride}*p + r] * F[r]"]
mapping:
  nodes:
  - !Storage {{tensors: [A, B, F, Z], component: DRAM}}
  - !Temporal {{rank_variable: {{T: h, Z: p}}, tile_shape: {{T: {step}, Z: {tile}}}, initial_tile_shape: {{T: {first}, Z: {tile}}}}}
  - !Storage {{tensors: [T], component: GLB{slides}}}
  - !Sequential
    nodes:
    - !Nested {{nodes: [!Temporal {{rank_variable: h, tile_shape: 1}}, !Temporal {{rank_variable: j, tile_shape: 1}},
                       !Compute {{einsum: T, component: MAC}}]}}
    - !Nested {{nodes: [!Temporal {{rank_variable: p, tile_shape: 1}}, !Temporal {{rank_variable: r, tile_shape: 1}},
                       !Compute {{einsum: Z, component: MAC}}]}}
"""


def fused(p, r, stride, tile, slides=", sliding_window: true"):
    """A producer and a convolution, fused: the first tile of T is a whole window, later ones are what is new."""
    h = stride * (p - 1) + r
    text = HALO.format(
        h=h, p=p, r=r, stride=stride, tile=tile, step=stride * tile, first=stride * (tile - 1) + r, slides=slides
    )
    return loads(ARCH + text)


@pytest.mark.parametrize("p", [4, 6, 8])
@pytest.mark.parametrize("r", [2, 3, 4])
@pytest.mark.parametrize(("stride", "tile"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
def test_fused_layers_keep_the_halo_of_an_intermediate(p, r, stride, tile):
    if r < stride:
        pytest.skip("windows that leave gaps")
    found = fused(p, r, stride, tile)
    cost = evaluate(found)
    assert differences(found, cost) == []
    # T is computed once, read in windows, and never leaves GLB
    moved = counts(cost)
    assert moved["T", None, "MAC", "compute"] == 2 * (stride * (p - 1) + r)
    assert not any(tensor == "T" and component == "DRAM" for _, tensor, component, _ in moved)
    assert usages(cost) == {"GLB": (stride * (tile - 1) + r) * 8 / 4096}


def test_without_a_line_buffer_the_halo_is_missing():
    with pytest.raises(MappingError, match="does not produce in the same visit") as error:
        evaluate(fused(8, 3, 1, 2, slides=""))
    assert "sliding_window: true" in error.value.hint
    # a producer that does not make the first window whole leaves it incomplete
    text = dump(fused(8, 3, 1, 2)).replace("T: 4", "T: 2")
    with pytest.raises(MappingError):
        evaluate(loads(text))
