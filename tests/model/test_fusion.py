"""What a mapping fuses, of the shipped mappings; bits that cross the outermost memory."""

import einmap
from einmap.model.fusion import FusedLoop, fusion_of, outside_bits


def fusion(*names, **define):
    spec = einmap.load(*names, define=define)
    assert spec.mapping is not None
    return fusion_of(spec.mapping, spec)


def test_rows_that_pass_through_a_chain_are_tiles_of_its_intermediates():
    found = fusion("simple", "matmul_chain", "simple_matmul_chain_fused", N_EINSUMS=3, M=16)
    assert found.nests == (("T1", "T2", "T3"),)
    first = found.tensors[0]
    assert (first.tensor, first.einsums, first.memory, first.fused) == ("T1", ("T1", "T2"), "GlobalBuffer", True)
    assert (first.shape, first.bits) == ((8, 64), 8 * 64 * 8)
    assert first.loops[0] == FusedLoop((("T1", "m"), ("T2", "m")), 8, 2)
    assert first.loops[0].name == "m"


def test_what_goes_through_the_outermost_memory_is_not_fused():
    found = fusion("simple", "matmul_chain", "simple_matmul_chain_unfused", N_EINSUMS=3, M=16)
    assert [kept.memory for kept in found.tensors] == ["MainMemory", "MainMemory"]
    assert (found.fused, found.nests) == ((), ())


def test_every_user_says_how_it_calls_a_loop():
    found = fusion("simple", "two_matvecs", "simple_two_matvecs_fused")
    (kept,) = found.fused
    assert [dict(loop.variables) for loop in kept.loops] == [{"EinsumA": "nA", "EinsumB": "nA"}]
    plain = found.to_dict()["intermediates"][0]
    assert plain["loops"][0]["variables"] == {"EinsumA": "nA", "EinsumB": "nA"}
    assert FusedLoop((("X", "m"), ("Y", "p")), 4, 2).name == "m/p"


def test_a_convolution_keeps_the_rows_that_the_next_one_reads():
    found = fusion("edge", "mobilenet_pair", "edge_mobilenet_pair_fused")
    (kept,) = found.fused
    assert (kept.tensor, kept.memory, kept.loops[0].tile_shape) == ("D", "SRAM", 4)
    assert kept.shape == (1, 256, 4, 28)


def test_outside_traffic_is_counted_in_bits():
    spec = einmap.load("simple", "matmul_chain", "simple_matmul_chain_fused", define={"M": 8, "N": 4, "N_EINSUMS": 2})
    # 8 bits each: T0 and T2 are 8x4, the weights 4x4; all pass once
    assert outside_bits(einmap.evaluate(spec), spec) == (2 * 8 * 4 + 2 * 4 * 4) * 8


def test_bits_do_not_depend_on_how_wide_an_action_is():
    spec = einmap.load("simple", "matmul_chain", "simple_matmul_chain_fused", define={"M": 8, "N": 4, "N_EINSUMS": 2})
    wide = spec.set("arch.nodes[0].bits_per_action", 64)
    costs = [einmap.evaluate(given) for given in (spec, wide)]
    assert outside_bits(costs[0], spec) == outside_bits(costs[1], wide)
    assert costs[0].count_by("component")["MainMemory",] > costs[1].count_by("component")["MainMemory",]
