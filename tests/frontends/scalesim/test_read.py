"""SCALE-Sim's configurations and topologies as specifications; figures are those that SCALE-Sim 3.0.0 reports."""

import pytest

from einmap import SpecError, evaluate, execute, loads
from einmap.frontends.scalesim.read import read
from einmap.report.executions.comparison import compare

CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 1
FilterSramSzkB: 1
OfmapSramSzkB: 1
IfmapOffset: 0
Bandwidth: 10
Dataflow: ws
[sparsity]
SparsitySupport: false
[run_presets]
InterfaceBandwidth: CALC
"""
PRODUCTS = "Layer, M, N, K,\na, 20, 12, 30,\nb, 64, 64, 64,\nc, 4, 4, 4,\nd, 5, 20, 9,\n"
CONVOLUTIONS = "Layer, IH, IW, FH, FW, C, N, S,\nstem, 9, 5, 2, 3, 4, 6, 2,\nDP1, 6, 6, 3, 3, 4, 1, 1, 1:1,\n"


def imported(folder, config=None, topology=None, bits=None):
    files = []
    for name, text in (("run.cfg", config), ("net.csv", topology)):
        if text is not None:
            files.append(folder / name)
            files[-1].write_text(text)
    return read(files, define={}, root=(), bits=bits)


def spec_of(result):
    return loads("\n".join(result.files.values()))


def cycles(result):
    return {name: round(seconds * 1e9) for name, seconds in evaluate(spec_of(result)).latency_by_einsum.items()}


# "Total Cycles" of COMPUTE_REPORT.csv, of reads of the two buffers and of main memory, and of writes there, those of
# DETAILED_ACCESS_REPORT.csv, less one write a column where partial sums leave, which is one too many in each layer
REPORTED = {
    "ws": {
        "a": (335, 1200, 360, 1200, 360, 960),
        "b": (5503, 32768, 4096, 32768, 4096, 32768),
        "c": (25, 16, 16, 16, 16, 16),
        "d": (161, 135, 180, 45, 180, 200),
    },
    "is": {
        "a": (407, 600, 1080, 600, 360, 960),
        "b": (5503, 4096, 32768, 4096, 32768, 32768),
        "c": (25, 16, 16, 16, 16, 16),
        "d": (83, 45, 180, 45, 180, 200),
    },
    "os": {
        "a": (263, 1200, 1080, 1200, 360, 240),
        "b": (4991, 32768, 32768, 32768, 32768, 4096),
        "c": (17, 16, 16, 16, 16, 16),
        "d": (68, 135, 180, 45, 180, 100),
    },
}


@pytest.mark.parametrize("dataflow", REPORTED)
def test_folds_take_what_scalesim_reports_and_one_cycle_more_a_layer(tmp_path, dataflow):
    spec = spec_of(imported(tmp_path, CONFIG.replace("ws", dataflow), PRODUCTS))
    cost = evaluate(spec)
    counts = cost.count_by("einsum", "component", "tensor", "action")
    for layer, (total, *accesses) in REPORTED[dataflow].items():
        assert cost.latency_by_einsum[layer] * 1e9 == pytest.approx(total + 1)
        keys = [
            ("IfmapSram", f"I_{layer}", "read"),
            ("FilterSram", f"W_{layer}", "read"),
            ("DRAM", f"I_{layer}", "read"),
            ("DRAM", f"W_{layer}", "read"),
            ("DRAM", layer, "write"),
        ]
        assert [counts[layer, *key] / 8 for key in keys] == accesses, layer


def test_the_mapping_of_each_dataflow_executes_with_the_counts_of_the_model(tmp_path):
    for dataflow in REPORTED:
        spec = spec_of(imported(tmp_path, CONFIG.replace("ws", dataflow), PRODUCTS))
        assert compare(spec, evaluate(spec), execute(spec)).agrees


@pytest.mark.parametrize(
    ("dataflow", "topology", "total"),
    [
        ("is", "L, M, N, K,\ng, 256, 128, 256,\n", 14_207),
        ("os", "L, M, N, K,\ng, 256, 128, 256,\n", 10_175),
        ("ws", "L, M, N, K,\ng, 256, 128, 256,\n", 11_199),
        # 55 x 55 places of 96 filters of 11 x 11 x 3
        ("ws", "L, IH, IW, FH, FW, C, N, S,\nconv1, 227, 227, 11, 11, 3, 96, 4,\n", 112_283),
    ],
)
def test_an_array_of_32_by_32(tmp_path, dataflow, topology, total):
    config = CONFIG.replace(": 8", ": 32").replace("kB: 1", "kB: 1024").replace("ws", dataflow)
    assert list(cycles(imported(tmp_path, config, topology)).values()) == [total + 1]


def test_a_topology_alone_gives_convolutions(tmp_path):
    result = imported(tmp_path, topology=CONVOLUTIONS)
    assert list(result.files) == ["workload.yaml"]
    stem, depth_wise = spec_of(result).to_dict()["workload"]["einsums"]
    # SCALE-Sim rounds up: rows 0, 2, 4, 6 and 8, of which the last begins at the edge
    assert stem["einsum"] == "stem[n1, p1, q1] = I_stem[c1, H1: 2*p1 + r1, W1: 2*q1 + s1] * W_stem[n1, c1, r1, s1]"
    sizes = {"n1": 6, "p1": 5, "q1": 2, "c1": 4, "r1": 2, "s1": 3}
    assert stem["iteration_space_shape"] == [f"0 <= {v} < {size}" for v, size in sizes.items()]
    assert depth_wise["n_instances"] == 4
    assert "0 <= c2 < 1" in depth_wise["iteration_space_shape"]


def test_a_configuration_alone_is_an_architecture_that_maps_any_product(tmp_path):
    result = imported(tmp_path, CONFIG)
    assert list(result.files) == ["architecture.yaml"]
    nodes = spec_of(result).to_dict()["arch"]["nodes"]
    assert [node["name"] for node in nodes if node["type"] == "Memory"] == [
        "DRAM",
        "FilterSram",
        "Stationary",
        "IfmapSram",
        "OfmapSram",
    ]


def test_a_given_bandwidth_limits_what_fills_buffers_and_what_is_written(tmp_path):
    text = CONFIG.replace("CALC", "USER").replace("Bandwidth: 10", "Bandwidth: 2") + "[layout]\n"
    text += "IfmapSRAMBankBandwidth: 5\nFilterSRAMBankBandwidth: 7\nIfmapCustomLayout: False\n"
    nodes = {n["name"]: n for n in spec_of(imported(tmp_path, text)).to_dict()["arch"]["nodes"]}
    throughput = {name: nodes[name]["actions"][1]["throughput"] for name in ("DRAM", "FilterSram", "IfmapSram")}
    assert throughput == {"DRAM": "2 * 8 * CLOCK", "FilterSram": "7 * 8 * CLOCK", "IfmapSram": "5 * 8 * CLOCK"}


def test_what_changes_counts_there_and_not_here_is_left_out_by_name(tmp_path):
    text = CONFIG.replace("Support: false", "Support: true") + "UseRamulatorTrace: True\n"
    result = imported(tmp_path, text + "Turbo: 3\n", PRODUCTS.replace("30,", "30, 2:4,"))
    assert {(entry.at.line, entry.key) for entry in result.left_out} == {
        (13, "sparsitysupport"),
        (16, "useramulatortrace"),
        (17, "turbo"),
        (2, "sparsity"),
    }


def test_buffers_below_one_fold_have_no_mapping(tmp_path):
    config = CONFIG.replace("Height: 8", "Height: 32").replace("Width: 8", "Width: 32")
    result = imported(tmp_path, config, PRODUCTS)
    assert list(result.files) == ["workload.yaml", "architecture.yaml"]
    assert [entry.key for entry in result.left_out] == ["Dataflow"]


@pytest.mark.parametrize(
    ("config", "topology", "message"),
    [
        (CONFIG.replace("Dataflow: ws", "Dataflow: rs"), None, "run.cfg:11: architecture_presets.Dataflow: "),
        (CONFIG.replace("Height: 8", "Height: -8"), None, "run.cfg:4: architecture_presets.ArrayHeight: expected"),
        (CONFIG.replace("ArrayWidth: 8\n", ""), None, "ArrayWidth is missing"),
        (CONFIG.replace("CALC", "FAST"), None, "run.cfg:15: run_presets.InterfaceBandwidth: expected CALC or USER"),
        ("ArrayHeight: 8\n", None, "run.cfg:1: this is not a configuration"),
        (None, "L, M, N, K,\na, 1, 2,\n", "net.csv:2: expected a name and 3 numbers"),
        (None, "L, M, N, K,\na, 1, x, 2,\n", "net.csv:2: N: expected an integer"),
        (None, "L, M, N, K,\n", "net.csv:1: the topology has no layer"),
        (None, "L,,,,,,,\na, 3, 3, 4, 1, 1, 1, 1,\n", "net.csv:2: the kernel, 4 x 1, is larger than its input"),
        (None, "L,,,,,,,\na, 8, 8, 3, 3, 1, 1, 1, 2,\n", "both strides of a convolution are one number"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, config, topology, message):
    with pytest.raises(SpecError) as error:
        imported(tmp_path, config, topology)
    assert message in str(error.value)
