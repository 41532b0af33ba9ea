"""The numbers of a report, and how they look in a terminal."""

from dataclasses import replace

import pytest

from einmap import evaluate, load
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, PerEinsum, Sequential, Storage, Temporal
from einmap.model.cost import ActionRow, ComponentRow, Cost, LatencyRow, MemoryUsageRow, SpatialUsageRow, TensorUsageRow
from einmap.report.costs import rows
from einmap.report.costs.cost_report import cost_report, to_text
from einmap.report.costs.tables import totals
from einmap.report.text.formatting import Scale, area, percent
from einmap.report.text.loop_tree import loop_tree_lines

TPU = (("tpu_v4i", "matmul", "tpu_v4i_matmul"), {"M": 512, "K": 512, "N": 512})
EYERISS = (("eyeriss", "resnet50_layer", "eyeriss_conv"), {"LAYER": "conv2_2", "BITS": 16})
SIMPLE: tuple[tuple[str, ...], dict[str, object]] = (("simple", "matmul", "simple_matmul"), {})
CHAIN = (("simple", "matmul_chain", "simple_matmul_chain_fused"), {"N_EINSUMS": 4})
ALL = pytest.mark.parametrize("example", [SIMPLE, TPU, EYERISS, CHAIN], ids=["simple", "tpu", "eyeriss", "chain"])


def spec_of(example):
    names, define = example
    return load(*names, define=define)


def report_of(example, width=80) -> str:
    spec = spec_of(example)
    return to_text(cost_report(evaluate(spec), spec, spec.mapping, width), width)


def cost(**changes) -> Cost:
    """A cascade of two Einsums, X and Y, on a memory and a MAC; numbers that can be added in the head."""
    given = Cost(
        energy=10.0,
        latency=4.0,
        area=None,
        actions=(
            ActionRow("X", "DRAM", "A", "read", 10, 2.0),
            ActionRow("X", "DRAM", "T", "write", 10, 1.0),
            ActionRow("X", "MAC", None, "compute", 100, 1.0),
            ActionRow("Y", "DRAM", "T", "read", 10, 1.0),
            ActionRow("Y", "MAC", None, "compute", 100, 1.0),
            ActionRow("Y", "DRAM", None, "leak", None, 4.0),
        ),
        latencies=(
            LatencyRow("X", "DRAM", 3.0),
            LatencyRow("X", "MAC", 1.0),
            LatencyRow("Y", "DRAM", 1.0),
            LatencyRow("Y", "MAC", 1.0),
        ),
        memory_usage=(MemoryUsageRow("DRAM", 0.75),),
        memory_usage_by_tensor=(
            TensorUsageRow("X", "DRAM", "A", 0.5),
            TensorUsageRow("X", "DRAM", "T", 0.25),
            TensorUsageRow("Y", "DRAM", "T", 0.125),
        ),
        spatial_usage=(SpatialUsageRow("X", "DRAM", "lanes", 1.0), SpatialUsageRow("Y", "DRAM", "lanes", 0.2)),
        components=(
            ComponentRow("DRAM", 1, None, 1.0),
            ComponentRow("MAC", 1, None, 0.0),
            ComponentRow("Idle", 1, None, 0.0),
        ),
    )
    return replace(given, **changes)


# tables


def test_energy_of_a_component_is_that_of_its_tensors_computes_and_leakage():
    dram, mac = rows.energy_rows(cost())
    assert (dram.component, dict(dram.by_tensor), dram.compute) == ("DRAM", {"A": 2.0, "T": 2.0}, 0.0)
    assert dict(dram.by_power) == {"leak": 4.0}
    assert (dram.total, dram.share) == (8.0, 0.8)
    assert (mac.component, mac.compute, mac.total) == ("MAC", 2.0, 2.0)


@ALL
def test_energy_rows_add_up_to_the_energy(example):
    found = evaluate(spec_of(example))
    assert sum(row.total for row in rows.energy_rows(found)) == pytest.approx(found.energy)
    assert sum(row.energy for row in rows.einsum_rows(found)) == pytest.approx(found.energy)
    assert sum(row.latency for row in rows.einsum_rows(found)) == pytest.approx(found.latency)


def test_an_einsum_is_limited_by_what_works_longest_or_by_several_in_balance():
    assert cost().limited_by == {"X": ("DRAM",), "Y": ("DRAM", "MAC")}


def test_components_limit_the_part_of_the_latency_for_which_none_works_longer():
    dram, mac = rows.busy_rows(cost())
    assert (dram.busy, dram.share, dram.limits) == (4.0, 1.0, 1.0)
    assert (mac.busy, mac.share, mac.limits) == (2.0, 0.5, 0.25)


def test_an_einsum_names_the_memory_that_it_fills_most():
    x, y = rows.einsum_rows(cost())
    assert (x.energy, x.latency, x.memory, x.usage) == (4.0, 3.0, "DRAM", 0.75)
    assert (y.energy_share, y.latency_share, y.usage) == (0.6, 0.25, 0.125)


def test_a_memory_lists_the_largest_part_of_each_tensor():
    (row,) = rows.memory_rows(cost())
    assert (row.usage, row.size_bits, dict(row.by_tensor)) == (0.75, None, {"A": 0.5, "T": 0.25})


def test_use_of_a_fanout_is_averaged_over_time():
    (row,) = rows.spatial_rows(cost())
    assert row.mean == pytest.approx(0.8)
    assert (row.lowest, row.lowest_in, row.highest) == (0.2, "Y", 1.0)


def test_leakage_and_computes_are_in_the_totals():
    told = {name: (value, note) for name, value, note in totals(cost())}
    assert told["energy"] == ("10 J", "DRAM 80%, MAC 20%; leakage 40%")
    assert (told["computes"][0], told["EDP"][0]) == ("200", "40 J*s")


def test_a_cost_of_nothing_has_rows_without_divisions_by_zero():
    nothing = cost(energy=0.0, latency=0.0, actions=(), latencies=(), spatial_usage=(), memory_usage_by_tensor=())
    assert "nothing takes time" in to_text(cost_report(nothing))


# numbers


def test_percentages_tell_nothing_from_little_and_all_from_nearly_all():
    parts = (0, 0.001, 0.005, 0.994, 0.9951, 1, 1.5)
    assert [percent(part) for part in parts] == ["0%", "<1%", "0%", "99%", ">99%", "100%", "150%"]


def test_areas_are_in_square_millimetres_or_micrometres():
    assert [area(value) for value in (0.000359, 1.2e-6, 3e-11)] == ["359 mm²", "1.2 mm²", "30 µm²"]


@pytest.mark.parametrize(
    ("largest", "unit", "shown"),
    [(103.1e-6, "µJ", "103"), (9.86e-6, "µJ", "9.86"), (1.0, "J", "1.00"), (1e-9, "nJ", "1.00")],
)
def test_a_column_has_one_unit_and_three_digits(largest, unit, shown):
    scale = Scale.of([largest, largest / 7], "J")
    assert (scale.unit, scale.show(largest)) == (unit, shown)


def test_values_too_small_for_a_column_differ_from_none():
    scale = Scale.of([100e-6], "J")
    assert [scale.show(value) for value in (0.0, 1e-12, 2e-6)] == ["-", "<1", "2"]
    assert Scale.of([], "J").show(0.0) == "-"


# text


@ALL
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_report_fits_its_width(example, width):
    assert [line for line in report_of(example, width).splitlines() if len(line) > width] == []


@ALL
def test_a_report_names_the_limit_the_energy_the_memories_and_the_mapping(example):
    text = report_of(example)
    spec = spec_of(example)
    assert "limited by " in text
    assert [name for name in spec.arch().components if name != "ScalarUnit" and f"  {name}" not in text] == []
    assert "LoopTree" in text


def test_energy_by_tensor_is_a_table_where_it_fits_and_a_list_where_not():
    assert "A     B     Z  compute  total" in report_of(SIMPLE)
    narrow = report_of(CHAIN, 80)
    assert "of which" in narrow
    assert "compute 100%" in narrow
    assert "of which" not in report_of(CHAIN, 200)


def test_a_cascade_begins_with_a_line_for_each_einsum():
    text = report_of(CHAIN)
    assert text.index("Einsums") < text.index("Energy (µJ)")
    assert all(any(line.startswith(f"  {name} ") for line in text.splitlines()) for name in ("T1", "T2", "T3", "T4"))
    assert "Einsums" not in report_of(SIMPLE)


def test_leakage_area_and_balance_are_named():
    text = to_text(cost_report(cost(area=2e-6)))
    assert "leakage 40%" in text
    assert "2 mm²" in text
    assert "DRAM 100%, MAC 25%" in text
    assert "20% in Y, up to 100%" in text


def test_capacities_are_those_of_one_instance_and_unlimited_memories_say_so():
    text = report_of(TPU)
    unlimited = [line.split() for line in text.splitlines() if line.endswith("unlimited")]
    assert unlimited == [["MainMemory", "-", "unlimited"]]
    assert "65,536 x 8 bits" in text


def test_loops_say_their_trips_and_storage_nodes_their_tiles():
    spec = spec_of(SIMPLE)
    assert spec.mapping is not None
    assert loop_tree_lines(spec.mapping, spec) == [
        "[MainMemory holds A, B, Z]      A 64x64, B 64x64, Z 64x64: 12 KiB",
        "for m by 16                     4 x",
        "  [GlobalBuffer holds A]        A 16x64: 1 KiB of 64 KiB",
        "  for n by 16                   4 x",
        "    [GlobalBuffer holds B, Z]   B 64x16, Z 16x16: 1.25 KiB of 64 KiB",
        "    for k by 1                  64 x",
        "      for m by 1                16 x",
        "        for n by 1              16 x",
        "          compute Z on MAC",
    ]


def test_spatial_loops_say_how_much_of_their_fanout_they_use():
    spec = spec_of(EYERISS)
    assert spec.mapping is not None
    lines = [line.split() for line in loop_tree_lines(spec.mapping, spec) if "spatial-for" in line]
    assert [" ".join(words[-3:]) for words in lines] == ["14 of 14", "4 of 12", "3 of 12"]


def test_a_last_and_a_first_tile_of_another_shape_are_trips_too():
    spec = load("simple", "matmul", define={"M": 10, "N": 1, "K": 1})
    loops = (
        Temporal(PerEinsum("m"), PerEinsum(3), PerEinsum(5)),
        Temporal(PerEinsum("m"), PerEinsum(2)),
        *(Temporal(PerEinsum(v), PerEinsum(1)) for v in "mnk"),
    )
    mapping = Mapping((Storage(("A", "B", "Z"), "MainMemory"), *loops, Compute("Z", "MAC")))
    lines = loop_tree_lines(mapping, spec)
    assert lines[1].split()[-2:] == ["3", "x"]  # 5, 3 and 2
    assert lines[2].split()[-2:] == ["3", "x"]  # the first tile of 5 by 2


def test_a_loop_nest_without_a_specification_has_no_annotations():
    spec = spec_of(CHAIN)
    assert spec.mapping is not None
    assert loop_tree_lines(spec.mapping)[0] == "[MainMemory holds W0, W1, W2, W3, T0, T4]"


def test_long_nodes_are_wrapped_below_themselves():
    names = tuple(f"tensor{i}" for i in range(20))
    mapping = Mapping((Sequential(((Storage(names, "DRAM"), Compute("Z", "MAC")),)),))
    lines = loop_tree_lines(mapping, width=60)
    assert max(len(line) for line in lines) <= 60
    assert lines[2].startswith("      tensor")
