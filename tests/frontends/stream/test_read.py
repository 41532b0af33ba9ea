"""Stream's hardware, mappings and ONNX models as specifications; ZigZag's mappings with such a model."""

import numpy as np
import pytest
from tests.frontends.zigzag.test_read import HARDWARE
from tests.onnx_models import model, node, numbers, saved

from einmap import SpecError, loads, map_workload
from einmap.errors import EinmapError
from einmap.frontends.stream.read import read
from einmap.frontends.zigzag.read import read as read_zigzag
from einmap.mapping.nodes import Spatial

CORE = (
    HARDWARE.replace("name: small", "name: small\ntype: zigzag.compute")
    .replace("  dram:", "  sram:")
    .replace("sizes: [4, 2]", "sizes: [2, 2]")
)
POOLING = CORE + "operator_types: [MaxPool]\n"
OFFCHIP = """
name: offchip
type: zigzag.offchip
memories:
  dram:
    size: 100000000
    r_cost: 640
    w_cost: 640
    area: 0
    latency: 1
    operands: [I1, I2, O]
    ports: [{name: rw_port_1, type: read_write, bandwidth_min: 64, bandwidth_max: 64, allocation: ["I1, tl", "O, fl"]}]
    served_dimensions: [D1, D2]
operational_array: {unit_energy: 0, unit_area: 0, dimensions: [D1, D2], sizes: [0, 0]}
"""
SYSTEM = """
name: two
cores: {0: core.yaml, 1: ./cores/core.yaml, 2: pool.yaml, 3: off.yaml}
offchip_core_id: 3
unit_energy_cost: 0
core_connectivity:
- {type: link, cores: [0, 1], bandwidth: 32}
- {type: bus, cores: [0, 1, 2, 3], bandwidth: 32}
"""
MAPPING = """
layers:
- {name: product, core_allocation: [[0, 1]], inter_core_tiling: [[{dim: D0, split: 2}]], kernel: {name: gemm, kwargs: {}}}
fused_groups: [{name: all, layers: [product], intra_core_tiling: []}]
"""


@pytest.fixture
def files(tmp_path):
    tmp_path.joinpath("cores").mkdir()
    texts = {
        "system.yaml": SYSTEM,
        "mapping.yaml": MAPPING,
        "cores/core.yaml": CORE,
        "pool.yaml": POOLING,
        "cores/off.yaml": OFFCHIP,
    }
    for name, text in texts.items():
        tmp_path.joinpath(name).write_text(text)
    nodes = [node("Gemm", ["x", "w"], ["p"], name="product"), node("Relu", ["p"], ["y"])]
    saved(tmp_path, model(nodes, {"x": (4, 8)}, {"w": numbers(8, 6)}))
    return tmp_path


def imported(folder, *names, bits=8):
    return read([folder / name for name in names], define={}, root=[], bits=bits)


def spec(result):
    return loads(result.files["architecture.yaml"] + result.files["workload.yaml"])


def test_equal_cores_are_a_dimension_below_the_memory_outside(files):
    result = imported(files, "system.yaml", "model.onnx")
    text = result.files["architecture.yaml"]
    assert "{name: Cores, fanout: 2}" in text
    assert text.index("name: dram") < text.index("name: Cores") < text.index("name: sram") < text.index("name: D1")
    # the bus carries 32 bits a cycle, half of what the memory gives, for half of the energy
    assert "{name: read, energy: 3.2e-10, throughput: CLOCK, bits_per_action: 32}" in text[: text.index("Cores")]
    reasons = {entry.key: entry.reason for entry in result.left_out}
    assert "MaxPool" in reasons["cores.2"]
    assert "off-chip" in reasons["core_connectivity"]


def test_what_a_layer_spreads_over_cores_is_what_the_mapper_uses(files):
    result = imported(files, "system.yaml", "mapping.yaml", "model.onnx")
    assert spec(result).workload.n_computes == 4 * 8 * 6
    found = map_workload(spec(result), metrics="energy")
    (loop,) = (node for node in found.mapping.nodes if isinstance(node, Spatial) and node.name == "Cores")
    assert (loop.rank_variable.default, loop.tile_shape.default) == ("d4", 2)  # 4 rows, 2 on each core
    assert {"kernel", "fused_groups"} <= {entry.key for entry in result.left_out}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("system.yaml", "off.yaml", "none.yaml", r"system.yaml:3.*cores\.3"),
        ("system.yaml", "offchip_core_id: 3", "offchip_core_id: 9", "there is no core 9"),
        ("system.yaml", "pool.yaml", "./../../etc/passwd", r"system.yaml:3"),
        ("cores/off.yaml", "zigzag.offchip", "aie2.shim", "aie2.shim has no array"),
        ("mapping.yaml", "D0", "D7", r"mapping.yaml:3.*product has no dimension 'D7'"),
        ("mapping.yaml", "layers:", "rows:", "neither hardware nor a mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(files, file, old, new, message):
    path = files / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(EinmapError, match=message):
        imported(files, "system.yaml", "mapping.yaml", "model.onnx")


def test_a_mapping_is_read_with_what_it_is_for(files):
    with pytest.raises(SpecError, match="read with its model"):
        imported(files, "system.yaml", "mapping.yaml")
    with pytest.raises(SpecError, match="read with its hardware"):
        imported(files, "mapping.yaml", "model.onnx")


def test_a_mapping_of_zigzag_with_a_model_spreads_its_loops(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], ["a"], name="one", pads=[1, 0, 1, 0], strides=[2, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "v"], ["c"], name="two"),
        node("Conv", ["c", "u"], ["y"], name="three", group=4),
    ]
    path = saved(
        tmp_path,
        model(
            nodes, {"x": (1, 2, 7, 6)}, {"w": numbers(4, 2, 3, 2), "v": numbers(4, 4, 1, 1), "u": numbers(8, 1, 1, 1)}
        ),
    )
    hardware, mapping = tmp_path / "hardware.yaml", tmp_path / "mapping.yaml"
    hardware.write_text(HARDWARE)
    mapping.write_text("- {name: Conv, spatial_mapping: {D1: ['K, 4'], D2: ['C, 2']}}\n")
    result = read_zigzag([mapping, path, hardware], define={}, root=[], bits=8)
    both = spec(result)
    # 4 x 5 places: kernels of 3 rows and 2 columns over 2 channels for 4, then 4 by 4 channels, then one value for each of 8
    assert both.workload.n_computes == 4 * 5 * (4 * 2 * 6 + 4 * 4 + 8)
    assert both.workload.intermediates == {"one"}  # groups cut the cascade, as their ranks differ
    assert "D1_by_4" in result.files["architecture.yaml"]
    assert any("Relu (1)" in n.text for n in result.notes)
    assert np.isfinite(map_workload(both, fuse=False).cost.energy)
