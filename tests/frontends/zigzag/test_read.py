"""ZigZag's workloads, hardware and mappings as specifications; counts worked out by hand."""

from pathlib import Path

import pytest

from einmap import SpecError, loads, map_workload
from einmap.frontends.zigzag.read import read

HARDWARE = """
name: small
memories:
  reg_O:
    size: 16
    r_cost: 0.5
    w_cost: 0.75
    area: 0
    latency: 1
    operands: [O]
    ports:
    - {name: r_port_1, type: read, bandwidth_min: 16, bandwidth_max: 16, allocation: ["O, tl", "O, th"]}
    - {name: w_port_1, type: write, bandwidth_min: 16, bandwidth_max: 16, allocation: ["O, fh", "O, fl"]}
    served_dimensions: [D2]
  buf:
    size: 65536
    r_cost: 6.4
    w_cost: 12.8
    area: 3
    latency: 1
    operands: [I1, I2, O]
    ports:
    - {name: rw_port_1, type: read_write, bandwidth_min: 8, bandwidth_max: 64, allocation: ["I1, tl", "O, th"]}
    served_dimensions: [D1, D2]
    force_double_buffering: True
  dram:
    size: 10000000
    r_cost: 320
    w_cost: 320
    area: 0
    latency: 1
    operands: [I1, I2, O]
    ports:
    - {name: rw_port_1, type: read_write, bandwidth_min: 32, bandwidth_max: 32, allocation: ["I1, tl", "O, fl"]}
    served_dimensions: [D1, D2]
operational_array:
  unit_energy: 0.1
  unit_area: 1
  dimensions: [D1, D2]
  sizes: [4, 2]
  systolic_dimensions: [D2]
"""
CONV = "O[k][oy][ox]+=W[k][c][fy][fx]*I[c][iy][ix]"
WORKLOAD = f"""
- id: 0
  operator_type: Conv
  equation: {CONV}
  dimension_relations: [ix=2*ox+1*fx, iy=2*oy+1*fy]
  loop_dims: [K, C, OY, OX, FY, FX]
  loop_sizes: [4, 2, 4, 4, 3, 3]
  operand_precision: {{W: 4, I: 8, O: 16, O_final: 8}}
  operand_source: {{I: 0, W: 0}}
- id: 2
  name: sum
  operator_type: Add
  equation: O[g][oy][ox] = W[g][oy][ox] + I[g][oy][ox]
  loop_dims: [G, OY, OX]
  loop_sizes: [4, 4, 4]
  operand_precision: {{W: 8, I: 8, O: 8}}
  operand_source: {{W: 0, I: 1}}
- id: 1
  operator_type: Conv
  equation: {CONV}
  dimension_relations: [ix=ox+fx, iy=oy+fy]
  loop_dims: [K, C, OY, OX, FY, FX]
  loop_sizes: [4, 4, 4, 4, 3, 3]
  operand_precision: {{W: 4, I: 8, O: 8, O_final: 8}}
  operand_source: {{I: 0, W: 1}}
  pr_loop_dims: [IX, IY]
  pr_loop_sizes: [4, 4]
  padding: [[1, 1], [1, 1]]
"""
MAPPING = """
- name: default
  spatial_mapping:
    D1: ["K, 4"]
    D2: ["C, 2"]
  memory_operand_links: {O: O, W: I2, I: I1}
- name: sum
  spatial_mapping: {D1: ["G, 3"], D2: ["C, 1"]}
  memory_operand_links: {O: O, W: I1, I: I2}
"""
FILES = {"hardware.yaml": HARDWARE, "workload.yaml": WORKLOAD, "mapping.yaml": MAPPING}


def imported(folder, bits=None, **texts):
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(text)
    return read(paths, define={}, root=(), bits=bits)


def spec_of(result):
    return loads("\n".join(result.files.values()))


def left(result):
    """What is left out: line, key and reason."""
    return [(entry.at.line, entry.key, entry.reason) for entry in result.left_out]


def test_layers_become_a_cascade_with_the_zeros_around_tensors_stored(tmp_path):
    result = imported(tmp_path, workload=WORKLOAD)
    spec = spec_of(result)
    workload = spec.workload
    # in an order in which each tensor is written before it is read
    assert workload.einsum_names == ("Layer0", "Layer1", "sum")
    assert [str(einsum["einsum"]) for einsum in spec.to_dict()["workload"]["einsums"]] == [
        "Layer0[k4, OY6: oy4 + 1, OX6: ox4 + 1] = W_Layer0[k4, c2, fy3, fx3] * "
        "I_Layer0[c2, IY9: 2*oy4 + fy3, IX9: 2*ox4 + fx3]",
        "Layer1[k4, oy4, ox4] = W_Layer1[k4, c4, fy3, fx3] * Layer0[K4: c4, OY6: oy4 + fy3, OX6: ox4 + fx3]",
        "sum[g4, oy4, ox4] = Layer0[K4: g4, OY6: oy4 + 1, OX6: ox4 + 1] + Layer1[K4: g4, oy4, ox4]",
    ]
    assert workload.n_computes == 4 * 2 * 16 * 9 + 4 * 4 * 16 * 9 + 4 * 16
    assert workload.tensor_bits("W_Layer0") == 4 * 2 * 9 * 4
    assert workload.tensor_bits("I_Layer0") == 2 * 9 * 9 * 8
    assert left(result) == [(27, "pr_loop_sizes", "it follows from the loops and the padding")]


def test_partial_sums_have_the_bits_of_O_and_results_those_of_O_final(tmp_path):
    spec = spec_of(
        imported(tmp_path, workload=WORKLOAD.replace("{W: 8, I: 8, O: 8}", "{W: 8, I: 8, O: 32, O_final: 8}"))
    )
    # Layer1 has as many for both, and `sum` adds nothing up
    assert spec.to_dict()["workload"]["partial_bits_per_value"] == {"Layer0": 16}
    written = {access.tensor: access for einsum in spec.workload.einsums for access in einsum.accesses if access.output}
    assert [written[name].partial_bits for name in ("Layer0", "Layer1", "sum")] == [16, None, None]
    result = imported(tmp_path, workload=WORKLOAD.replace("O: 16, O_final: 8", "O: 4, O_final: 8"))
    assert (8, "operand_precision.O", "results have 8 bits, and partial sums as many, not 4") in left(result)


def test_padding_that_no_file_gives_is_half_of_what_a_window_lacks(tmp_path):
    lines = [line for line in WORKLOAD.splitlines() if "padding" not in line and "pr_loop" not in line]
    one, other = (spec_of(imported(tmp_path, workload=text)) for text in (WORKLOAD, "\n".join(lines)))
    assert one == other


def test_shapes_that_differ_cut_the_cascade_by_name(tmp_path):
    result = imported(tmp_path, workload=WORKLOAD.replace("loop_sizes: [4, 4, 4]", "loop_sizes: [5, 4, 4]"))
    assert set(spec_of(result).workload.consumers) >= {"W_sum", "I_sum"}
    assert (
        10,
        "operand_source.W",
        "its shape 5 x 4 x 4 is not that of Layer0, 4 x 4 x 4: it is an input of its own",
    ) in left(result)


def test_pooling_has_no_weight_and_a_maximum(tmp_path):
    pool = """
- {id: 7, operator_type: MaxPool, equation: "O[g][ox]+=W[fx]*I[g][ix]", dimension_relations: [ix=2*ox+1*fx],
   loop_dims: [G, OX, FX], loop_sizes: [2, 3, 2], operand_precision: {I: 8, W: 0, O: 8}}
"""
    result = imported(tmp_path, workload=pool, bits=16)
    (einsum,) = spec_of(result).to_dict()["workload"]["einsums"]
    assert einsum == {
        "einsum": "Layer7[g2, ox3] = I_Layer7[g2, IX6: 2*ox3 + fx2]",
        "reduction": "max",
        "renames": {"input": "I_Layer7", "weight": "Nothing", "output": "Outputs"},
    }
    assert spec_of(result).workload.tensor_bits("I_Layer7") == 2 * 6 * 16
    assert left(result) == [(2, "equation.W", "it has no bits, so it is not a tensor")]


def test_memories_stand_above_the_dimensions_that_share_them(tmp_path):
    result = imported(tmp_path, hardware=HARDWARE, workload=WORKLOAD)
    arch = spec_of(result).arch()
    assert [leaf.name for leaf in arch.path("MAC")] == ["dram", "buf", "Array1", "reg_O", "Array2", "MAC"]
    assert (arch.instances["reg_O"], arch.instances["MAC"]) == (4, 8)
    buffer, register = arch.find("buf"), arch.find("reg_O")
    # double buffering leaves half of the room; an access has the width of its port
    assert (buffer.size_bits, buffer.action("read").energy, buffer.action("write").energy) == (32768, 6.4e-12, 12.8e-12)
    assert loads("\n".join(result.files.values())).get("arch.nodes.buf.actions[0].bits_per_action") == 64
    assert (register.ports.read, register.ports.write, register.ports.read_write) == (1, 1, 0)
    assert register.action("write").energy == 0.75e-12
    assert arch.find("MAC").action("compute").energy == 0.1e-12
    assert [(d.name, d.fanout, d.skew) for d in arch.find("Array2").spatial] == [("D2", 2, "once")]
    found = left(result)
    assert (19, "area", "its unit is not said") in found
    assert (23, "bandwidth_min", "accesses are counted by their bits, and not rounded up to 8") in found
    assert (9, "latency", "an access takes as long as its bits need at the port (3 times)") in found


def test_a_memory_that_no_order_gives_as_it_is_has_copies(tmp_path):
    # weights want one register for each unit of D1, outputs one for each of D2: one of the two stands below both
    weights = (
        HARDWARE.split("  buf:", maxsplit=1)[0].split("memories:\n")[1].replace("reg_O", "reg_W").replace("[O]", "[I2]")
    )
    both = HARDWARE.replace("memories:\n", "memories:\n" + weights.replace("[D2]", "[D1]"))
    result = imported(tmp_path, hardware=both, workload=WORKLOAD)
    arch = spec_of(result).arch()
    # 8 registers of outputs in place of 4 are fewer copies than 8 of weights in place of 2
    assert [leaf.name for leaf in arch.path("MAC")] == ["dram", "buf", "Array1", "reg_W", "Array2", "reg_O", "MAC"]
    ((_, _, reason),) = [entry for entry in left(result) if entry[1] == "served_dimensions"]
    assert reason.startswith("one instance serves the units of D2; here each of them has its own, 2 for one")


def test_in_memory_arrays_take_a_cycle_for_each_slice_of_the_input(tmp_path):
    array = """
operational_array:
  is_imc: True
  imc_type: analog
  adc_resolution: 8
  input_precision: [8, 8]
  bit_serial_precision: 3
  dimensions: [D1]
  sizes: [16]
memories:
  cells: {size: 8, r_bw: 8, w_bw: 8, r_cost: 0, w_cost: 0.095, r_port: 0, w_port: 0, rw_port: 1, latency: 0,
          operands: [I2], ports: [{fh: rw_port_1, tl: rw_port_1}], served_dimensions: []}
"""
    result = imported(tmp_path, hardware=array, workload=WORKLOAD)
    arch = spec_of(result).arch()
    # inputs and outputs have no memory there
    assert [leaf.name for leaf in arch.path("MAC")] == ["outside", "Array", "cells", "MAC"]
    assert arch.find("MAC").action("compute").throughput == pytest.approx(1e9 / 3)
    assert {"imc_type", "adc_resolution", "input_precision"} <= {key for _, key, _ in left(result)}


def test_a_spatial_mapping_is_what_the_mapper_uses(tmp_path):
    result = imported(tmp_path, hardware=HARDWARE, workload=WORKLOAD, mapping=MAPPING)
    spec = spec_of(result)
    # the mapping of `sum` changes what is an input and what a weight
    roles = spec.to_dict()["workload"]["einsums"][2]["renames"]
    assert (roles["input"], roles["weight"]) == ("Layer0", "Layer1")
    cost = map_workload(spec.set("arch.nodes.Array2.spatial[0].skew", "none"), metrics="latency", fuse=False).cost
    cycles = {row.einsum: row.latency * 1e9 for row in cost.latencies if row.component == "MAC"}
    # 8 lanes, 8 lanes; of the 3 that are asked for, 2 divide 4 iterations
    assert cycles == pytest.approx({"Layer0": 1152 / 8, "Layer1": 2304 / 8, "sum": 64 / 2})
    assert (7, "spatial_mapping.D1.G", "4 is not a multiple of 3, so a factor of it is spread") in left(result)


def test_hints_say_what_may_be_spread(tmp_path):
    hints = "- {name: default, spatial_mapping_hint: {D1: [OX], D2: [K, OY]}}"
    spec = spec_of(imported(tmp_path, hardware=HARDWARE, workload=WORKLOAD, mapping=hints))
    result = map_workload(spec, metrics="latency", fuse=False)
    loops = [placed.node for placed in result.mapping.loops if type(placed.node).__name__ == "Spatial"]
    assert {(loop.name, str(loop.rank_variable)[:2]) for loop in loops} <= {("D1", "ox"), ("D2", "k4"), ("D2", "oy")}
    assert loops


def test_a_key_that_is_given_twice_has_its_last_value(tmp_path):
    twice = HARDWARE.replace("    size: 16\n", "    size: 99\n    size: 16\n")
    result = imported(tmp_path, hardware=twice)
    assert result.files == imported(tmp_path, hardware=HARDWARE).files
    assert (5, "size", "it is given again below, which counts") in left(result)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("hardware", "    size: 16\n", "", "hardware.yaml:5:5: memories.reg_O: the key 'size' is missing"),
        ("hardware", "size: 16", "size: -1", "hardware.yaml:5:11: memories.reg_O.size: expected an integer of at least 1, found -1"),
        ("hardware", "r_cost: 0.5", "r_cost: .nan", "memories.reg_O.r_cost: expected a number of at least 0, found nan"),
        ("hardware", "operands: [O]", "operands: [I3]", "memories.reg_O.operands[0]: expected one of I1, I2, O, found 'I3'"),
        ("hardware", "served_dimensions: [D2]", "served_dimensions: [D3]", "expected one of D1, D2, found 'D3'"),
        ("hardware", "type: write,", "type: read,", "memories.reg_O.ports: no port of the memory serves a write"),
        ("hardware", "sizes: [4, 2]", "sizes: [4]", "operational_array.sizes: expected 2 sizes, one for each dimension"),
        ("hardware", "sizes: [4, 2]", "sizes: [4, 0]", "operational_array.sizes[1]: expected an integer of at least 1"),
        ("hardware", "  unit_energy: 0.1\n", "", "operational_array: the key 'unit_energy' is missing"),
        ("hardware", "systolic_dimensions: [D2]", "systolic_dimensions: 3", "expected a list of at most 10,000 items, found 3"),
        ("hardware", "dimensions: [D1, D2]\n  sizes", "dimensions: [D1, DX]\n  sizes", "expected one of D0 to D9, each once"),
        ("workload", "loop_sizes: [4, 4, 4]", "loop_sizes: [4, 4]", "[1].loop_sizes: loop_dims has 3 dimensions, loop_sizes 2 sizes"),
        ("workload", "loop_sizes: [4, 4, 4]", "loop_sizes: [4, 4, 1e99]", "[1].loop_sizes[2]: expected an integer of at least 1"),
        ("workload", "W[g][oy][ox] + I", "W[g][oy][oz] + I", "[1].equation: oz is neither in loop_dims nor in dimension_relations"),
        ("workload", "O[g][oy][ox] = W", "O[g][oy][ox] == W", "expected an equation of one output and one or two inputs"),
        ("workload", "= W[g][oy][ox] + I", "= W[g][oy][ox] + W", "two operands have the same letter"),
        ("workload", "[ix=ox+fx, iy=oy+fy]", "[ix=ox, iy=oy+fy]", "expected a relation of three dimensions, found 'ix=ox'"),
        ("workload", "{W: 0, I: 1}", "{W: 0, I: 9}", "operand_source.I: there is no layer with id 9"),
        ("workload", "{I: 0, W: 1}", "{I: 2, W: 1}", "layers read one another in a circle: 2, 1"),
        ("workload", "- id: 2", "- id: 1", "the id 1 is given twice"),
        ("workload", "O: 8}\n  operand_source: {W: 0", "Z: 8}\n  operand_source: {W: 0", "operand_precision: the key 'O' is missing"),
        ("workload", "padding: [[1, 1], [1, 1]]", "padding: [[1, 1]]", "expected 2 pairs, one for each of pr_loop_dims"),
        ("mapping", '"K, 4"', '"K 4"', "spatial_mapping.D1[0]: expected a loop dimension and how often it is spread"),
        ("mapping", 'D2: ["C, 2"]', 'D7: ["C, 2"]', "the array has no dimension D7"),
        ("mapping", '["K, 4"]', '["K, 4", "OY, 2"]', "Layer0 spreads 8 iterations over D1, which has 4 units"),
        ("mapping", "W: I2, I: I1", "W: O, I: I1", "expected O for O, and I1 or I2 for an input, found 'O'"),
        ("mapping", "- name: sum", "- name: default", "the mapping 'default' is given twice"),
        ("mapping", MAPPING, "- 3\n- 4\n", "this is neither a workload nor hardware nor a mapping of ZigZag"),
        ("mapping", MAPPING, WORKLOAD, "a second workload, beside"),
        ("mapping", MAPPING, "- name: *a\n", "the alias *a is not defined"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path, file, old, new, message):
    texts = {Path(name).stem: text for name, text in FILES.items()}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    with pytest.raises(SpecError) as raised:
        imported(tmp_path, **texts)
    assert message in str(raised.value)
    assert raised.value.at.file.endswith(f"{file}.yaml")


def test_a_mapping_is_read_with_what_it_is_for(tmp_path):
    with pytest.raises(SpecError, match="a mapping is read with its workload"):
        imported(tmp_path, mapping=MAPPING, hardware=HARDWARE)
    with pytest.raises(SpecError, match="have no templates"):
        read([], define={"N": 3}, root=(), bits=None)
