"""Specifications as AccelForge's files: they mean the same here, where its dialect is read, too."""

import pytest

from einmap import Spec, evaluate, load, loads
from einmap.errors import NotSupportedError
from einmap.frontends.accelforge.write import write

EXAMPLES = [
    (("simple", "matmul_chain", "simple_matmul_chain_fused"), {}),
    (("simple", "attention_core", "simple_attention_fused"), {"N_TOKENS": 16}),
    (("simple", "two_matvecs", "simple_two_matvecs_fused"), {}),
    (("edge", "mobilenet_pair", "edge_mobilenet_pair_fused"), {}),
    (("eyeriss", "resnet50_layer", "eyeriss_conv"), {"LAYER": "conv2_2", "BITS": 16}),
    (("tpu_v4i", "matmul", "tpu_v4i_matmul"), {"M": 512, "K": 512, "N": 512}),
]
MEMORY = {"type": "Memory", "leak_power": 0, "size": 65536}
RATES = [{"name": name, "energy": 2e-12, "throughput": 1e9, "bits_per_action": 8} for name in ("read", "write")]
COMPUTE = {
    "type": "Compute",
    "name": "MAC",
    "leak_power": 0,
    "actions": [{"name": "compute", "energy": 1e-12, "throughput": 1e9}],
}
# the second Einsum reads by `p` what the first one writes by `n`; one loop runs over both
FUSED = [
    {"type": "Storage", "component": "Main", "tensors": ["A", "B", "C", "Z"]},
    {"type": "Temporal", "rank_variable": {"T": "n", "Z": "p"}, "tile_shape": {"T": 2, "Z": 2}},
    {"type": "Storage", "component": "Buffer", "tensors": ["T"]},
    {
        "type": "Sequential",
        "nodes": [
            {
                "type": "Nested",
                "nodes": [
                    *({"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in "nmk"),
                    {"type": "Compute", "einsum": "T", "component": "MAC"},
                ],
            },
            {
                "type": "Nested",
                "nodes": [
                    *({"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in "pmn"),
                    {"type": "Compute", "einsum": "Z", "component": "MAC"},
                ],
            },
        ],
    },
]


def spec_of(buffer=None, nodes=None, **fields):
    """Two products on two memories; `Z` calls `p` what `T` calls `n`, and uses the name `n` for another rank."""
    arch = {
        "nodes": [
            {**MEMORY, "name": "Main", "size": "inf", "actions": RATES},
            {**MEMORY, "name": "Buffer", "actions": RATES, **(buffer or {})},
            COMPUTE,
        ]
    }
    workload = {
        "einsums": ["T[m, n] = A[m, k] * B[k, n]", "Z[M: m, Q: n] = T[M: m, N: p] * C[N: p, Q: n]"],
        "iteration_space_shape": {},
        "rank_sizes": {"M": 4, "K": 3, "N": 4, "Q": 4},
        "bits_per_value": {"All": 8},
    }
    return Spec.from_dict(arch=arch, workload=workload, mapping={"nodes": nodes or FUSED}, **fields)


def again(spec):
    """What is written, as it is read."""
    return loads("\n".join(write(spec).files.values()))


def costs(spec, semantics="exact"):
    cost = evaluate(Spec.from_dict({**spec.to_dict(), "model": {"semantics": semantics}}))
    return cost.energy, cost.latency, {(r.component, r.tensor, r.action, r.count) for r in cost.actions}


@pytest.mark.parametrize(("names", "define"), EXAMPLES, ids=lambda value: value[-1] if isinstance(value, tuple) else "")
@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
def test_what_is_written_costs_the_same(names, define, semantics):
    spec = load(*names, define=define)
    written = again(spec)
    energy, latency, actions = costs(spec, semantics)
    assert costs(written, semantics) == (pytest.approx(energy, rel=1e-15), pytest.approx(latency, rel=1e-15), actions)
    assert written.dialect == "newer"


def test_a_loop_over_several_einsums_has_one_name_for_its_rank_variable():
    spec = spec_of()
    written = again(spec)
    loop = written.to_dict()["mapping"]["nodes"][1]
    assert loop == {"type": "Temporal", "rank_variable": "n", "tile_shape": 2}
    # `n` of Z is another rank variable, and has another name there; ranks keep their names
    first, second = written.workload.einsums
    assert set(first.rank_variables) == {"m", "n", "k"}
    assert {str(rank): str(index) for rank, index in second.by_tensor["C"].projection} == {"N": "n", "Q": "n2"}
    assert costs(written) == costs(spec)


def test_renames_stand_at_the_einsums_as_what_they_are():
    spec = load("simple", "matmul_chain")
    fields = again(spec).to_dict()["workload"]["einsums"]
    assert [einsum["renames"]["output"] for einsum in fields] == [einsum.name for einsum in spec.workload.einsums]


def test_ports_become_a_total_latency():
    slow = {"actions": [{**action, "throughput": 1e7} for action in RATES]}
    spec = spec_of(buffer={"ports": {"read": 2, "read_write": 1}, **slow})
    result = write(spec)
    assert result.left_out == ()
    latency = again(spec).get("arch.nodes.Buffer.total_latency")
    # a single port writes, and all three together read and write; that three read is said by that
    assert latency.startswith("max((actions['write'].n_calls / actions['write'].throughput) / 1, ")
    assert latency.endswith(") / 3)")
    assert costs(again(spec)) == costs(spec)
    assert costs(spec)[1] < costs(spec_of(buffer=slow))[1]


def test_costs_of_component_models_are_written_as_numbers():
    buffer = {
        "actions": [{"name": name, "bits_per_action": "width"} for name in ("read", "write")],
        "component_class": "SRAM",
        "extra_attributes_for_component_model": {"width": 64, "tech_node": 28e-9, "n_banks": 2},
        "leak_power": None,
    }
    spec = spec_of(buffer=buffer)
    written = again(spec)
    fields = written.to_dict()["arch"]["nodes"][1]
    assert "component_class" not in fields
    assert fields["extra_attributes_for_component_model"] == {"width": 64}
    assert fields["leak_power"] > 0
    assert costs(written) == costs(spec)


def test_what_has_no_field_there_is_named_with_its_place():
    spec = spec_of(
        buffer={"buffering": "double", "wind_up": False, "tensors": {"keep": ["T"], "tile_shape": []}},
        mapper={"metrics": "energy"},
    )
    found = {(entry.key, entry.at.path) for entry in write(spec).left_out}
    assert found == {
        ("buffering", 'arch.nodes[1] "Buffer".buffering'),
        ("tile_shape", 'arch.nodes[1] "Buffer".tensors.tile_shape'),
        ("mapper", ""),
    }
    written = again(spec)
    assert written.arch().find("Buffer").size_bits == 65536
    assert written.get("arch.nodes.Buffer.tensors.keep") == "T"


def test_networks_are_written_where_their_topology_is_known():
    def with_network(topology):
        hop = {"name": "hop", "energy": 1e-12, "throughput": 1e9, "latency": 1e-9}
        network = {"type": "Network", "name": "NoC", "leak_power": 0, "actions": [hop], "topology": topology}
        nodes = spec_of().to_dict()["arch"]["nodes"]
        return Spec.from_dict({**spec_of().to_dict(), "arch": {"nodes": [nodes[0], network, *nodes[1:]]}})

    assert costs(again(with_network("all_to_all"))) == costs(with_network("all_to_all"))
    assert [entry.key for entry in write(with_network("mesh")).left_out] == ["Network"]
    with pytest.raises(NotSupportedError, match="a network of topology ring cannot be written"):
        write(with_network("ring"))


def test_arrays_are_written_with_the_units_of_their_memories():
    hop = {"name": "hops", "energy": 1e-12, "throughput": 1e9, "latency": 1e-9}
    network = {"type": "Network", "name": "NoC", "leak_power": 0, "actions": [hop]}
    whole = spec_of().to_dict()
    outer, buffer, *rest = whole["arch"]["nodes"]
    inner = {**buffer, "spatial": [{"name": "R", "fanout": "1 + 1"}], "replicate": "A"}
    lanes = [{"name": "R", "fanout": 4}, {"name": "C", "fanout": 2}]
    array = {"type": "Array", "name": "PEs", "spatial": lanes, "nodes": [inner, network]}
    spec = Spec.from_dict({**whole, "arch": {"nodes": [outer, array, *rest]}})
    assert [entry.key for entry in write(spec).left_out] == ["replicate", "Network"]
    found = again(spec).arch()
    assert [(u.name, u.number) for u in found.memories[1].units] == [("R", 2), ("C", 1)]
    assert [leaf.name for leaf in found.path(found.computes[0].name)][1:4] == [buffer["name"], "NoC", "PEs"]


def test_what_would_mean_something_else_is_refused():
    uneven = [FUSED[0], {**FUSED[1], "tile_shape": {"T": 2, "Z": 1}}, *FUSED[2:]]
    with pytest.raises(NotSupportedError, match="a loop has several tile shapes: 2, 1"):
        write(spec_of(nodes=uneven))
    changing = [{**RATES[0], "energy": "1e-12 * len(B)"}, RATES[1]]
    with pytest.raises(NotSupportedError, match=r'arch.nodes\[1\] "Buffer": costs that differ from Einsum to Einsum'):
        write(spec_of(buffer={"actions": changing}))


def test_an_architecture_by_itself_keeps_its_expressions():
    text = write(load("nvdla_components")).files
    assert list(text) == ["architecture.yaml"]
    assert "component_class" in text["architecture.yaml"]
