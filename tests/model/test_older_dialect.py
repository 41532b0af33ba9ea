"""Inputs in the older dialect load as written, and mean what their documents say."""

from pathlib import Path

import pytest
from tests.model.worked import counts, latencies, leaks, spatial_usages, usages

from einmap import MappingError, evaluate, execute, load, loads
from einmap.frontends.yaml.spec import example_paths
from einmap.report.costs.cost_report import cost_report, to_text

SPECS = Path(__file__).parent / "specs"
BITS = 512 * 512 * 8
"""Bits of one matrix of the TPU example."""


def tpu(arch):
    size = {"M": 512, "K": 512, "N": 512}
    examples = example_paths()
    return load(SPECS / arch, examples["matmul"], examples["tpu_v4i_matmul"], define=size)


@pytest.mark.parametrize("arch", ["tpu_v4i_older.yaml", "tpu_v4i_newer.yaml"])
@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
def test_a_matmul_on_the_tpu(arch, semantics):
    cost = evaluate(tpu(arch), semantics=semantics, strict=True)
    assert counts(cost) == {
        ("Z", "A", "MainMemory", "read"): BITS,
        ("Z", "B", "MainMemory", "read"): BITS,
        ("Z", "Z", "MainMemory", "write"): BITS,
        # every core fetches all of A for itself; B goes to the registers
        ("Z", "A", "GlobalBuffer", "read"): 4 * BITS,
        ("Z", "A", "GlobalBuffer", "write"): BITS,
        ("Z", "B", "GlobalBuffer", "read"): BITS,
        ("Z", "B", "GlobalBuffer", "write"): BITS,
        ("Z", "Z", "GlobalBuffer", "read"): BITS,
        ("Z", "Z", "GlobalBuffer", "write"): BITS,
        # one value of A serves 128 columns; a partial sum comes in for each of the four tiles of k
        ("Z", "A", "LocalBuffer", "read"): 4 * BITS,
        ("Z", "A", "LocalBuffer", "write"): 4 * BITS,
        ("Z", "Z", "LocalBuffer", "read"): (4 - 1) * BITS + BITS,
        ("Z", "Z", "LocalBuffer", "write"): 4 * BITS,
        ("Z", "B", "Register", "read"): 512**3 * 8,
        ("Z", "B", "Register", "write"): BITS,
        ("Z", None, "MAC", "compute"): 512**3,
    }
    energy = BITS * (3 * 7.03 + 6 * 1.88 + 3 * 2.36 + 8 * 0.249 + 8 * 0.293) + 512**3 * 0.084
    assert cost.energy == pytest.approx(energy * 1e-12)
    assert latencies(cost, "Z") == pytest.approx(
        {
            "MainMemory": 3 * BITS / (8 * 614e9),
            "GlobalBuffer": max(6 * BITS / (8 * 2048e9), 3 * BITS / (8 * 1024e9)),
            "LocalBuffer": 0,
            "Register": 0,
            "MAC": 512**3 / (4 * 128 * 128) / 1.05e9,
        }
    )
    assert cost.latency == pytest.approx(2048 / 1.05e9)
    area = 112e-6 + 4 * 50e-6 + 4 * 10e-6 + 4 * 128 * 128 * (1e-11 + 9e-11)
    assert cost.area == pytest.approx(area)


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
def test_both_spellings_of_the_tpu_cost_the_same(semantics):
    older = evaluate(tpu("tpu_v4i_older.yaml"), semantics=semantics)
    newer = evaluate(tpu("tpu_v4i_newer.yaml"), semantics=semantics)
    assert older.energy == pytest.approx(newer.energy, rel=1e-12)
    assert older.latency == pytest.approx(newer.latency, rel=1e-12)
    assert counts(older) == counts(newer)
    assert older.components == newer.components


def test_the_dialect_is_detected():
    assert tpu("tpu_v4i_older.yaml").dialect == "older"
    assert tpu("tpu_v4i_newer.yaml").dialect == "newer"


def test_the_units_of_the_tpu_are_enabled_by_the_number_of_tensors():
    arch = tpu("tpu_v4i_older.yaml").arch()
    assert {unit.name: unit.enabled for unit in arch.computes} == {"ScalarUnit": False, "MAC": True}


# the fused pair of matrix-vector products

MATVECS = """
arch:
  nodes:
  - !Memory {name: OffChipBuffer, size: inf, leak_power: 0, area: 0,
             actions: [{name: read, energy: 4, latency: 2}, {name: write, energy: 5, latency: 2}]}
  - !Memory {name: OnChipBuffer, size: 128, leak_power: 0, area: 0,
             actions: [{name: read, energy: 1, latency: 1}, {name: write, energy: 2, latency: 1}]}
  - !Compute {name: ComputeUnit, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, latency: 1}]}
workload:
  rank_sizes: {NI: 3, NA: 4, NB: 5}
  bits_per_value: {All: 8}
  einsums:
  - {name: EinsumA, einsum: "A[nA] = I[nI] * WA[nI, nA]"}
  - {name: EinsumB, einsum: "B[nB] = A[nA] * WB[nA, nB]"}
"""
FUSED = (SPECS / "two_matvecs_fused.yaml").read_text()
BLOCK_STYLE = """
mapping:
  nodes:
  - !Storage
    component: OffChipBuffer
    tensors: [I, WA, WB, B]
  - !Storage
    component: OnChipBuffer
    tensors:
    - WA
  - !Temporal
    rank_variable: nA
    tile_shape: 1
  - !Storage
    component: OnChipBuffer
    tensors: [A]
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal
        rank_variable: nI
        tile_shape: 1
      - !Storage
        component: OnChipBuffer
        tensors: [I]
      - !Compute
        einsum: EinsumA
        component: ComputeUnit
    - !Nested
      nodes:
      - !Temporal
        rank_variable: nB
        tile_shape: 1
      - !Storage
        component: OnChipBuffer
        tensors: [B, WB]
      - !Compute
        einsum: EinsumB
        component: ComputeUnit
"""


@pytest.mark.parametrize("mapping", [FUSED, BLOCK_STYLE], ids=["flow style", "block style"])
def test_a_fused_pair_of_matrix_vector_products(mapping):
    cost = evaluate(loads(MATVECS + mapping))
    values = {key: count / 8 for key, count in counts(cost).items() if key[1]}
    assert values == {
        # 3*4 operations; WA is fetched once, I anew in each of 3*4 visits
        ("EinsumA", "WA", "OffChipBuffer", "read"): 12,
        ("EinsumA", "WA", "OnChipBuffer", "write"): 12,
        ("EinsumA", "WA", "OnChipBuffer", "read"): 12,
        ("EinsumA", "I", "OffChipBuffer", "read"): 12,
        ("EinsumA", "I", "OnChipBuffer", "write"): 12,
        ("EinsumA", "I", "OnChipBuffer", "read"): 12,
        # of three operations on each value of A the first finds none
        ("EinsumA", "A", "OnChipBuffer", "read"): 12 - 4,
        ("EinsumA", "A", "OnChipBuffer", "write"): 12,
        # 4*5 operations; A is read where it was made
        ("EinsumB", "A", "OnChipBuffer", "read"): 20,
        ("EinsumB", "WB", "OffChipBuffer", "read"): 20,
        ("EinsumB", "WB", "OnChipBuffer", "write"): 20,
        ("EinsumB", "WB", "OnChipBuffer", "read"): 20,
        # 20 visits of one value of B, written back each time, fetched in all but the first five
        ("EinsumB", "B", "OffChipBuffer", "read"): 15,
        ("EinsumB", "B", "OffChipBuffer", "write"): 20,
        ("EinsumB", "B", "OnChipBuffer", "read"): 15 + 20,
        ("EinsumB", "B", "OnChipBuffer", "write"): 15 + 20,
    }
    # WA is kept for the next nA: 12 + A 1 + B 1 + WB 1 values
    assert usages(cost) == {"OnChipBuffer": 15 * 8 / 128}
    assert cost.latency == (12 + 12 + 12 + 12 + 8 + 12) * 8 + (20 + 20 + 20 + 35 + 35) * 8
    off = (12 + 12 + 20 + 15) * 4 + 20 * 5
    on = (12 + 12 + 8 + 20 + 20 + 35) * 1 + (12 + 12 + 12 + 20 + 35) * 2
    assert cost.energy == 8 * (off + on) + 32


def test_flow_style_and_block_style_are_the_same_mapping():
    assert loads(MATVECS + FUSED).mapping == loads(MATVECS + BLOCK_STYLE).mapping


# further forms; an elementwise Einsum of 6 values of 8 bits moves 48 bits of A down and 48 of Z up

WORKLOAD = """
workload:
  rank_sizes: {M: 6}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Z[m] = A[m]", renames: {input: A, output: Z, weight: Nothing}}
"""
MAPPING = """
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, Z]}
  - !Storage {component: Buffer, tensors: [A, Z]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {component: MAC, einsum: Z}
"""
MAIN = "{name: Main, size: inf, leak_power: 0, area: 0, actions: [{name: read, energy: 0, latency: 0}, {name: write, energy: 0, latency: 0}]}"
UNIT = "{name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0, latency: 0}]}"


def spec(fields="", actions="", before="", mapping=MAPPING):
    """Main, something, a Buffer of 8 bits per action and latency 0.5 and 0.25, a MAC that costs nothing."""
    arch = f"""
arch:
  nodes:
  - !Memory {MAIN}
{before}
  - !Memory
    name: Buffer
    size: 4096
    leak_power: 1
    area: 2
    actions:
    - {{name: read, energy: 3, latency: 0.5 {actions}}}
    - {{name: write, energy: 4, latency: 0.25}}
    {fields}
  - !Compute {UNIT}
"""
    return loads(arch + WORKLOAD + mapping)


def buffer(cost):
    """Dynamic energy, latency, leak power and area of the Buffer."""
    energy = sum(r.energy for r in cost.actions if r.component == "Buffer" and r.action != "leak")
    row = next(r for r in cost.components if r.component == "Buffer")
    return energy, latencies(cost, "Z")["Buffer"], row.total_leak_power, row.total_area


PLAIN = (96 * 3 + 96 * 4, 96 * 0.5 + 96 * 0.25, 1, 2)


@pytest.mark.parametrize(
    ("fields", "actions", "expected"),
    [
        ("", "", PLAIN),
        ("energy_scale: 2", "", (1344, 72, 1, 2)),
        ("", ", energy_scale: 2", (96 * 6 + 96 * 4, 72, 1, 2)),
        ("latency_scale: 3", "", (672, 216, 1, 2)),
        ("", ", latency_scale: 3", (672, 96 * 1.5 + 96 * 0.25, 1, 2)),
        ("n_parallel_instances: 2", "", (672, 36, 2, 4)),
        ("leak_power_scale: 5", "", (672, 72, 5, 2)),
        ("area_scale: 7", "", (672, 72, 1, 14)),
        ("bits_per_value_scale: {output: 2}", "", (144 * 3 + 144 * 4, 144 * 0.75, 1, 2)),
        ("bits_per_value_scale: {All: 1}", "", PLAIN),
        ("total_latency: 1e-9 * (read_actions + write_actions)", "", (672, 192e-9, 1, 2)),
        ("total_latency: max(read_latency, write_latency)", "", (672, 48, 1, 2)),
        ("total_latency: min(read_latency, write_latency)", "", (672, 24, 1, 2)),
        ("total_latency: sum(read_latency, write_latency, 1)", "", (672, 73, 1, 2)),
        ("total_latency: sum(*action2latency.values())", "", (672, 72, 1, 2)),
        ("total_latency: max(*action2latency.values())", "", (672, 48, 1, 2)),
        ("total_latency: size * 2", "", (672, 8192, 1, 2)),
        ("extra_attributes_for_component_model: {depth: 64, width: 8}", ", energy_scale: depth / width", (96 * 24 + 384, 72, 1, 2)),
        ("extra_attributes_for_component_model: {technology: \"45nm\"}", "", PLAIN),
    ],
)  # fmt: skip
def test_what_a_field_of_a_component_does(fields, actions, expected):
    assert buffer(evaluate(spec(fields, actions))) == pytest.approx(expected)


def test_a_bits_scale_changes_what_fits():
    assert usages(evaluate(spec("bits_per_value_scale: {output: 2}"))) == {"Buffer": (48 + 96) / 4096}


LANES = "  - !Fanout {name: Array, spatial: [{name: X, fanout: 4, %s}]}"
TWO_LANES = MAPPING.replace(
    "  - !Storage {component: Buffer",
    "  - !Spatial {rank_variable: m, tile_shape: 3, component: Array, name: X}\n  - !Storage {component: Buffer",
)


def test_a_gated_fanout_leaks_where_it_is_used():
    # two of four lanes work for 36 s (half of the 72 each); four Buffers of 1 W, half of them gated
    cost = evaluate(spec(before=LANES % "power_gateable: true", mapping=TWO_LANES))
    assert cost.latency == 36
    assert leaks(cost) == {"Buffer": 36 * 4 * 0.5}
    assert leaks(evaluate(spec(before=LANES % "power_gateable: false", mapping=TWO_LANES))) == {"Buffer": 36 * 4}


def test_a_usage_scale_scales_the_usage_that_is_reported():
    cost = evaluate(spec(before=LANES % "usage_scale: 0.5", mapping=TWO_LANES))
    assert spatial_usages(cost) == {"Array.X": 0.5 * 0.5}


TOLL = "  - !Toll {name: Link, direction: %s, leak_power: 0, area: 0, actions: [{name: read, energy: 1, latency: 0}]}"


@pytest.mark.parametrize(
    ("direction", "passing"), [("up", {"Z": 48}), ("down", {"A": 48}), ("up_and_down", {"A": 48, "Z": 48})]
)
def test_a_toll_charges_its_direction_only(direction, passing):
    through = MAPPING.replace(
        "  - !Storage {component: Buffer",
        "  - !Toll {component: Link, tensors: [A, Z]}\n  - !Storage {component: Buffer",
    )
    cost = evaluate(spec(before=TOLL % direction, mapping=through))
    assert {key[1]: count for key, count in counts(cost).items() if key[2] == "Link"} == passing


FORK = """
  - !Fork
    nodes:
    - !Memory {name: VectorBuffer, size: 8192, leak_power: 0, area: 0, tensors: {keep: All}, actions: [{name: read, energy: 1e-13, latency: 0}, {name: write, energy: 1e-13, latency: 0}]}
    - !Compute {name: VectorUnit, leak_power: 0, area: 0, actions: [{name: compute, energy: 1e-13, latency: 1e-9}]}
"""


def test_a_side_branch_has_components_of_its_own():
    on_branch = MAPPING.replace("Buffer", "VectorBuffer").replace("MAC", "VectorUnit")
    cost = evaluate(spec(before=FORK, mapping=on_branch))
    assert cost.energy - cost.leak_energy == pytest.approx((4 * 48 + 6) * 1e-13)
    assert cost.latency == pytest.approx(6e-9)
    assert usages(cost) == {"VectorBuffer": 96 / 8192}


def test_the_main_hierarchy_goes_on_after_a_side_branch():
    assert buffer(evaluate(spec(before=FORK))) == PLAIN
    with pytest.raises(MappingError, match=r"'VectorBuffer' on the path to its Compute"):
        evaluate(spec(before=FORK, mapping=MAPPING.replace("Buffer", "VectorBuffer")))


# demands on the mapping: notes, or errors on request

BELOW = MAPPING.replace(
    "  - !Storage {component: Buffer, tensors: [A, Z]}\n  - !Temporal {rank_variable: m, tile_shape: 1}\n",
    "  - !Temporal {rank_variable: m, tile_shape: 2}\n  - !Storage {component: Buffer, tensors: [A, Z]}\n"
    "  - !Temporal {rank_variable: m, tile_shape: 1}\n",
)
BYPASS_A = MAPPING.replace("{component: Buffer, tensors: [A, Z]}", "{component: Buffer, tensors: [Z]}")
Z_FIRST = MAPPING.replace(
    "{component: Buffer, tensors: [A, Z]}",
    "{component: Buffer, tensors: [Z]}\n  - !Temporal {rank_variable: m, tile_shape: 2}\n"
    "  - !Storage {component: Buffer, tensors: [A]}",
)


@pytest.mark.parametrize(
    ("tensors", "good", "bad", "said"),
    [
        ("{keep: input | output}", MAPPING, BYPASS_A, "Buffer must keep 'A'"),
        ("{keep: output}", BYPASS_A, MAPPING, "Buffer may not keep 'A'"),
        ("{back: weight, may_keep: All}", MAPPING, None, ""),
        ("{back: output, may_keep: All}", None, MAPPING, "Buffer must be the outermost holder of 'Z'"),
        ("{keep: All, tile_shape: [{expression: m, operator: <=, value: 2}]}", BELOW, MAPPING, "tile_shape"),
        ("{keep: All, no_refetch_from_above: input}", MAPPING, None, ""),
        ("{keep: All, tensor_order_options: [[input | output, weight]]}", Z_FIRST, None, ""),
        ("{keep: All, tensor_order_options: [[input, output]]}", None, Z_FIRST, "tensor_order_options"),
        ("{keep: All, force_memory_hierarchy_order: false}", MAPPING, None, ""),
    ],
)
def test_a_demand_on_the_mapping_is_noted_where_it_is_violated(tensors, good, bad, said):
    fields = f"tensors: {tensors}"
    if good is not None:
        evaluate(spec(fields, mapping=good), strict=True)
    if bad is not None:
        assert any(said in str(note) for note in evaluate(spec(fields, mapping=bad)).notes)
        with pytest.raises(MappingError, match=said):
            evaluate(spec(fields, mapping=bad), strict=True)


MATVEC = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, component_class: Dummy}
  - !Memory {name: Buffer, size: 4096, leak_power: 0, area: 0, component_class: Dummy, tensors: {keep: A, no_refetch_from_above: A}}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4, N: 3}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m]"]
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, Z]}
  - !Temporal {rank_variable: %s, tile_shape: 1}
  - !Storage {component: Buffer, tensors: [A]}
  - !Temporal {rank_variable: %s, tile_shape: 1}
  - !Compute {component: MAC, einsum: Z}
"""


def test_piecewise_fetching_is_no_refetching():
    evaluate(loads(MATVEC % ("m", "n")), strict=True)
    with pytest.raises(MappingError, match="'A' is fetched again into Buffer by the loop over n"):
        evaluate(loads(MATVEC % ("n", "m")), strict=True)


# the one default that differs

REUSE = """
config: {dialect: %s}
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Container {name: Array, spatial: [{name: X, fanout: 3, reuse: Z}]}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {N: 3}
  bits_per_value: {All: 1}
  einsums: ["Z[n] = A[K: 0] * B[n]"]
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, Z]}
  - !Spatial {rank_variable: n, tile_shape: 1, component: Array, name: X}
  - !Compute {component: MAC, einsum: Z}
"""


@pytest.mark.parametrize(("dialect", "reads", "warned"), [("older", 1, True), ("newer", 3, False)])
def test_reuse_without_may_reuse_allows_all_tensors_in_the_older_dialect_only(dialect, reads, warned):
    cost = evaluate(loads(REUSE % dialect))
    assert counts(cost)["Z", "A", "Main", "read"] == reads
    assert any("may_reuse" in str(note) for note in cost.notes) == warned


def test_a_size_may_depend_on_the_einsum_and_be_zero_for_the_first_one():
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: All},
             actions: [{name: read, energy: 1, latency: 0}, {name: write, energy: 1, latency: 0}]}
  - !Memory {name: Register, size: weight.bits_per_value if weight else 0, leak_power: 0, area: 0,
             tensors: {keep: weight}, actions: [{name: read, energy: 1, latency: 0}, {name: write, energy: 1, latency: 0}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, latency: 1}]}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "X[m] = exp(A[m])", renames: {weight: Nothing}}
  - {einsum: "Z[m] = X[m] * B[m]", renames: {weight: B}}
mapping:
  nodes:
  - !Storage {tensors: [A, X, B, Z], component: DRAM}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: X, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Storage {tensors: [B], component: Register},
                       !Compute {einsum: Z, component: MAC}]}
"""
    spec = loads(text)
    cost = evaluate(spec)
    assert usages(cost) == {"Register": 1}
    assert execute(spec).usage["Register"] == 1
    assert "8 bits" in to_text(cost_report(cost, spec))
