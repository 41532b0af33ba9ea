"""Every field of a specification is exported, named as left out, or refused: none is lost in silence.

For each field of the input models there is a specification in which it changes a cost, or it is said that it has none.
A new field is missing in the tables until somebody says what becomes of it.
"""

import copy
import inspect
import re
from functools import cache

import pytest
from tests.frontends.timeloop.test_design import imported, spec_of

from einmap import Spec, SpecError, evaluate, loads
from einmap.frontends.accelforge.write import write as to_accelforge
from einmap.frontends.timeloop.write import write as to_timeloop
from einmap.spec.schema import arch, latency, layout, mapping, placement, workload
from einmap.spec.schema.base import Input


def words(text):
    return text.split()


RATES = [{"name": name, "energy": 2e-12, "throughput": 1e9, "bits_per_action": 8} for name in ("read", "write")]
HELD = ["A", "B"]
BASE = {
    "arch": {
        "nodes": [
            {"type": "Memory", "name": "Main", "size": "inf", "leak_power": 0, "area": 0, "actions": RATES,
             "separate_read_write_ports": True},
            {"type": "Memory", "name": "Buffer", "separate_read_write_ports": True, "size": 4096, "leak_power": 1e-3, "area": 1e-6, "actions": RATES,
             "tensors": {"keep": "A | B"}},
            {"type": "Container", "name": "PE", "spatial": [{"name": "X", "fanout": 8}]},
            {"type": "Compute", "name": "MAC", "leak_power": 1e-3, "area": 1e-6,
             "actions": [{"name": "compute", "energy": 1e-12, "throughput": 1e9}]},
        ]
    },
    "workload": {
        "einsums": [{"einsum": "Z[m, n] = A[m, k] * B[k, n]"}],
        "rank_sizes": {"M": 4, "K": 3, "N": 4},
        "bits_per_value": {"All": 8},
    },
    "mapping": {
        "nodes": [
            {"type": "Storage", "component": "Main", "tensors": ["A", "B", "Z"]},
            {"type": "Temporal", "rank_variable": "k", "tile_shape": 1},
            {"type": "Storage", "component": "Buffer", "tensors": HELD},
            {"type": "Spatial", "rank_variable": "n", "tile_shape": 1, "component": "PE", "name": "X"},
            {"type": "Temporal", "rank_variable": "m", "tile_shape": 1},
            {"type": "Compute", "einsum": "Z", "component": "MAC"},
        ]
    },
}  # fmt: skip
IN_BASE = words("""
    ActionInput.name ActionInput.energy ActionInput.throughput ActionInput.bits_per_action
    ContainerInput.name ContainerInput.spatial SpatialInput.name SpatialInput.fanout
    ComponentInput.actions ComponentInput.area ComponentInput.leak_power HolderInput.tensors TensorsInput.keep MemoryInput.size
    EinsumInput.einsum WorkloadInput.rank_sizes WorkloadInput.bits_per_value
    LoopInput.rank_variable LoopInput.tile_shape SpatialLoopInput.component SpatialLoopInput.name
    TollNodeInput.tensors TollNodeInput.component ComputeNodeInput.einsum ComputeNodeInput.component
""")
"""Fields that every specification here has."""
ELSEWHERE = words("""
    AnyInput.temporal PartialComputeInput.einsum PartialComputeInput.component LoopInput.n_iterations
    AccessInput.backing_storage_size_scale MappingInput.layouts MappingInput.formats MappingInput.rewrites
""")
"""Fields of partly given mappings, which are not exported, without a value that may be written, or gone when read."""
MAIN, BUFFER, PE, MAC = (f"arch.nodes.{number}" for number in range(4))
EINSUM, ACCESS = "workload.einsums.0", "workload.einsums.0.tensor_accesses"
NODES = "mapping.nodes"
LONG = (EINSUM, {"name": "Z", "tensor_accesses": [
    {"name": "Z", "projection": ["m", "n"], "output": True}, {"name": "A", "projection": ["m", "k"]},
    {"name": "B", "projection": ["k", "n"]}]})  # fmt: skip
TOLL = (f"{BUFFER}+", {"type": "Toll", "name": "Link", "leak_power": 0, "area": 0, "direction": "up_and_down",
                       "actions": RATES[:1]})  # fmt: skip
PASSED = (f"{NODES}.2+", {"type": "Toll", "component": "Link", "tensors": ["A", "B"]})
NETWORK = (f"{BUFFER}+", {"type": "Network", "name": "NoC", "leak_power": 0, "area": 0,
                          "actions": [{"name": "hop", "energy": 1e-12, "throughput": 1e9, "latency": 1e-9, "bits_per_action": 8}]})  # fmt: skip
MODEL = (
    (f"{BUFFER}.component_class", "SRAM"),
    (f"{BUFFER}.extra_attributes_for_component_model", {"width": 32, "n_banks": 2, "tech_node": 28e-9}),
)
ASKED = (f"{BUFFER}.actions", [{"name": name, "throughput": 1e9, "bits_per_action": 8} for name in ("read", "write")])
SHARED = (f"{BUFFER}.separate_read_write_ports", False)
SLOW = (f"{BUFFER}.actions", [{**action, "throughput": 1e7} for action in RATES])
NAMED = ("renames.einsums", [{"name": "default", "tensor_accesses": {"weight": "A"}}])
NARROW = (f"{BUFFER}.bits_per_value", {"weight": 4, "Other": 8})
LINES = (f"{BUFFER}.layout", {"line": 32, "order": {"A": ["M", "K"], "B": ["K", "N"]}})
OPEN = (f"{BUFFER}.layout", {"line": 32, "order": {"A": "best", "B": ["K", "N"]}, "chosen": {"A": ["M", "K"]}})
SPREAD = ("arch.nodes", [BASE["arch"]["nodes"][0], {"type": "Array", "name": "PE", "spatial": [{"name": "X", "fanout": 8}], "nodes": [
    {**BASE["arch"]["nodes"][1], "spatial": [{"name": "X", "fanout": 4}]}]}, BASE["arch"]["nodes"][3]])  # fmt: skip
LIMIT = {"expression": "n", "operator": "<=", "value": 4}
FORK = {"type": "Fork", "nodes": [{**BASE["arch"]["nodes"][3], "name": "ALU"}]}
SIDE = (f"{PE}+", FORK)
SECOND = {"einsum": "Y[m, n] = Z[m, n] * C[n]"}
BRANCHES = [{"type": "Nested", "nodes": [*({"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in order),
                                         {"type": "Compute", "einsum": name, "component": "MAC"}]}
            for name, order in (("Z", "kn"), ("Y", "n"))]  # fmt: skip
STAGES = [BASE["mapping"]["nodes"][0] | {"tensors": ["A", "B", "C", "Y"]}, {"type": "Temporal", "rank_variable": "m", "tile_shape": 1},
          {"type": "Storage", "component": "Buffer", "tensors": ["Z"]}]  # fmt: skip
PIPED = [(f"{EINSUM}+", SECOND), (f"{BUFFER}.tensors", {"may_keep": "All"}), (NODES, [*STAGES, {"type": "Sequential", "nodes": BRANCHES}]),
         (f"{NODES}.3", {"type": "Pipeline", "component": "PE", "name": "X", "nodes": BRANCHES})]  # fmt: skip
CASES = {
    "WorkloadInput.iteration_space_shape": [("workload.iteration_space_shape", {"m": "0 <= m < 2"})],
    "WorkloadInput.partial_bits_per_value": [("workload.partial_bits_per_value", {"Z": 32})],
    "WorkloadInput.persistent_tensors": [("workload.n_instances", 2), ("workload.persistent_tensors", "B")],
    "WorkloadInput.n_instances": [("workload.n_instances", 3)],
    "EinsumInput.name": [(EINSUM, {"einsum": "Z[m, n] = A[m, k] * B[k, n]", "name": "Z"})],
    "EinsumInput.tensor_accesses": [LONG],
    "EinsumInput.iteration_space_shape": [(f"{EINSUM}.iteration_space_shape", ["0 <= m < 2"])],
    "EinsumInput.rank_sizes": [(f"{EINSUM}.rank_sizes", {"M": 2})],
    "EinsumInput.is_copy_operation": [
        (EINSUM, {"einsum": "Z[m, n] = A[m, n]"}), (f"{NODES}.0.tensors", ["A", "Z"]), (f"{BUFFER}.tensors", {"keep": "A"}),
        (f"{NODES}.1", {"type": "Temporal", "rank_variable": "m", "tile_shape": 2}), (f"{NODES}.2.tensors", ["A"]),
        (f"{EINSUM}.is_copy_operation", True)],
    "EinsumInput.renames": [NAMED, NARROW, (f"{EINSUM}.renames", {"weight": "B"})],
    "EinsumInput.n_instances": [(f"{EINSUM}.n_instances", 3)],
    "EinsumInput.compute": [(f"{EINSUM}.compute", "MAC")],
    "EinsumInput.operation": [LONG, (f"{EINSUM}.operation", "A + B")],
    "EinsumInput.part": [(f"{EINSUM}.part", "weight")],
    "EinsumInput.reduction": [(f"{EINSUM}.reduction", "max")],
    "AccessInput.name": [LONG],
    "AccessInput.projection": [LONG],
    "AccessInput.output": [LONG],
    "AccessInput.persistent": [LONG, ("workload.n_instances", 2), (f"{ACCESS}.2.persistent", True)],
    "AccessInput.bits_per_value": [LONG, (f"{ACCESS}.2.bits_per_value", 16)],
    "AccessInput.partial_bits_per_value": [LONG, (f"{ACCESS}.0.partial_bits_per_value", 32)],
    "RenameInput.name": [NAMED, NARROW, (f"{EINSUM}.renames", [{"name": "weight", "source": "B"}])],
    "RenameInput.source": [NAMED, NARROW, (f"{EINSUM}.renames", [{"name": "weight", "source": "A | B"}])],
    "RenameInput.expected_count": [(f"{EINSUM}.renames", [{"name": "weight", "source": "B", "expected_count": 1}])],
    "RenamesInput.einsums": [NAMED, NARROW, ("renames.einsums", [{"name": "default", "tensor_accesses": {"weight": "B"}}])],
    "EinsumRenamesInput.name": [NAMED, NARROW, ("renames.einsums", [{"name": "Z", "tensor_accesses": {"weight": "B"}}])],
    "EinsumRenamesInput.tensor_accesses": [NAMED, NARROW, ("renames.einsums", [{"name": "Z", "tensor_accesses": {"weight": "B"}}])],
    "EinsumRenamesInput.rank_variables": [("renames.einsums", [{"name": "Z", "rank_variables": {"spread": "n"}}])],
    "ArchInput.variables": [("arch.variables", {"word": 16}), (f"{BUFFER}.bits_per_value", {"All": "word"})],
    "ArchInput.extra_attributes_for_all_component_models": [("arch.extra_attributes_for_all_component_models", {"word": 16}), (f"{BUFFER}.bits_per_value", {"All": "word"})],
    "ActionInput.energy_scale": [(f"{BUFFER}.actions.0.energy_scale", 3)],
    "ActionInput.latency": [("config.dialect", "older"), (f"{BUFFER}.actions", [{"name": a["name"], "energy": 2e-12, "latency": 1e-7, "bits_per_action": 8} for a in RATES])],
    "ActionInput.latency_scale": [("config.dialect", "older"), (f"{BUFFER}.actions", [{"name": a["name"], "energy": 2e-12, "latency": 1e-9, "latency_scale": 100, "bits_per_action": 8} for a in RATES])],
    "ActionInput.throughput_scale": [(f"{BUFFER}.actions.0.throughput_scale", 0.01)],
    "ActionInput.values_per_action": [(f"{BUFFER}.actions.0", {"name": "read", "energy": 2e-12, "throughput": 1e7, "values_per_action": {"All": 4}})],
    "ActionInput.extra_attributes_for_component_model": [*MODEL, ASKED, (f"{BUFFER}.actions.0.extra_attributes_for_component_model", {"tech_node": 7e-9})],
    "ActionTimingInput.startup": [(f"{MAIN}.actions.0.startup", 1e-6)],
    "ActionTimingInput.pipeline_latency": [(f"{MAC}.actions.0.pipeline_latency", 1e-6)],
    "ComponentInput.component_class": [*MODEL, ASKED, (f"{BUFFER}.component_class", "Dummy")],
    "ComponentInput.component_model": [(f"{BUFFER}.component_model", "Latches")],
    "ComponentInput.component_modeling_log": [(f"{BUFFER}.component_modeling_log", ["said"])],
    "ComponentInput.enabled": [(f"{NODES}.2.tensors", ["B"]), (f"{BUFFER}.enabled", "Outputs == Z")],
    "ComponentInput.area_scale": [(f"{BUFFER}.area_scale", 2)],
    "ComponentInput.total_area": [(f"{BUFFER}.total_area", 1)],
    "ComponentInput.leak_power_scale": [(f"{BUFFER}.leak_power_scale", 2)],
    "ComponentInput.total_leak_power": [(f"{BUFFER}.total_leak_power", 1)],
    "ComponentInput.energy_scale": [(f"{BUFFER}.energy_scale", 2)],
    "ComponentInput.throughput_scale": [(f"{BUFFER}.throughput_scale", 0.01)],
    "ComponentInput.latency_scale": [("config.dialect", "older"), (f"{BUFFER}.latency_scale", 100)],
    "ComponentInput.actions_scale": [(f"{BUFFER}.actions_scale", 100)],
    "ComponentInput.n_parallel_instances": [(f"{BUFFER}.n_parallel_instances", 2)],
    "ComponentInput.total_latency": [SHARED, (f"{BUFFER}.total_latency", 1e-3)],
    "ComponentInput.extra_attributes_for_component_model": [*MODEL, ASKED, (f"{BUFFER}.extra_attributes_for_component_model.tech_node", 7e-9)],
    "CarrierInput.bits_per_action": [(f"{BUFFER}.actions", [{**{k: v for k, v in a.items() if k != "bits_per_action"}, "throughput": 1e7} for a in RATES]), (f"{BUFFER}.bits_per_action", 4)],
    "CarrierInput.values_per_action": [(f"{BUFFER}.actions", [{**{k: v for k, v in a.items() if k != "bits_per_action"}, "throughput": 1e7} for a in RATES]), (f"{BUFFER}.values_per_action", {"All": 4})],
    "CarrierInput.bits_per_value": [(f"{BUFFER}.bits_per_value", {"B": 4, "Other": 8})],
    "CarrierInput.bits_per_value_scale": [(f"{BUFFER}.bits_per_value_scale", {"All": 2})],
    "MemoryInput.skip_initial_output_write": [(f"{MAIN}.skip_initial_output_write", False)],
    "ComputeInput.skip_initial_output_write": [(f"{MAC}.skip_initial_output_write", False)],
    "MemoryTimingInput.buffering": [SLOW, (f"{MAIN}.actions", SLOW[1]), (f"{BUFFER}.buffering", "single")],
    "MemoryTimingInput.refresh_busy": [(f"{BUFFER}.actions.0.throughput", 1e5), (f"{BUFFER}.refresh_busy", 0.9)],
    "MemoryTimingInput.refresh_power": [(f"{BUFFER}.refresh_power", 2)],
    "MemoryTimingInput.wind_up": [SLOW, (f"{MAIN}.actions", SLOW[1]), (f"{BUFFER}.wind_up", True)],
    "MemoryTimingInput.stalls": [SLOW, (f"{MAIN}.actions", SLOW[1]), (f"{BUFFER}.stalls", "tile_by_tile")],
    "MemoryTimingInput.ports": [SHARED, SLOW, (f"{BUFFER}.ports", {"read": 3, "write": 1})],
    "MemoryTimingInput.separate_read_write_ports": [SLOW, (f"{BUFFER}.separate_read_write_ports", False)],
    "MemoryTimingInput.banks": [SHARED, SLOW, (f"{BUFFER}.ports", {"read_write": 2}), (f"{BUFFER}.banks", {"number": 2, "conflicts": "random"})],
    "PortsInput.read": [SHARED, SLOW, (f"{BUFFER}.ports", {"write": 1, "read_write": 1}), (f"{BUFFER}.ports.read", 3)],
    "PortsInput.write": [SHARED, SLOW, (f"{BUFFER}.ports", {"read": 1, "read_write": 1}), (f"{BUFFER}.ports.write", 3)],
    "PortsInput.read_write": [SHARED, SLOW, (f"{BUFFER}.ports", {"read": 1, "write": 1}), (f"{BUFFER}.ports.read_write", 3)],
    "BanksInput.number": [SHARED, SLOW, (f"{BUFFER}.ports", {"read_write": 4}), (f"{BUFFER}.banks", {"number": 2})],
    "BanksInput.conflicts": [SHARED, SLOW, (f"{BUFFER}.ports", {"read_write": 4}), (f"{BUFFER}.banks", {"number": 4}), (f"{BUFFER}.banks.conflicts", "random")],
    "BanksInput.interleave": [SHARED, SLOW, (f"{BUFFER}.layout", {"line": 8, "order": {"B": ["K", "N"]}}), (f"{BUFFER}.banks", {"number": 4, "conflicts": "interleaved"}), (f"{BUFFER}.banks.interleave", {"B": {"K": 1, "N": 4}})],
    "MemoryLayoutInput.layout": [LINES],
    "LayoutInput.line": [LINES, (f"{BUFFER}.layout.line", 64)],
    "LayoutInput.order": [LINES, (f"{BUFFER}.layout.order", {"A": ["K", "M"], "B": ["K", "N"]})],
    "LayoutInput.block": [(f"{BUFFER}.layout", {"line": 32, "order": {"A": ["M", "K"]}}), (f"{BUFFER}.layout.block", {"B": {"K": 3, "N": 1}})],
    "LayoutInput.lanes": [LINES, (f"{BUFFER}.layout.lanes", "together")],
    "LayoutInput.chosen": [OPEN, (f"{BUFFER}.layout.chosen", {"A": ["K", "M"]})],
    "MemoryLayoutInput.replicate": [SPREAD, (f"{BUFFER}.nodes.0.replicate", "A")],
    "TollInput.direction": [TOLL, PASSED, (f"{PE}.direction", "up")],
    "NetworkInput.topology": [NETWORK, (f"{PE}.topology", "all_to_all")],
    "NetworkInput.multicast": [NETWORK, (f"{PE}.multicast", False)],
    "NetworkInput.reduction": [NETWORK, (f"{NODES}.3.rank_variable", "k"), (f"{NODES}.1.rank_variable", "n"), (f"{PE}.reduction", "at_parent")],
    "NetworkInput.links": [NETWORK, (f"{PE}.actions.0.throughput", 1e5), (f"{PE}.links", "per_tensor")],
    "ForkInput.name": [SIDE, (f"{MAC}.name", "Side")],
    "ForkInput.forked_power_gateable": [SIDE, (f"{MAC}.forked_power_gateable", True)],
    "ForkInput.non_forked_power_gateable": [SIDE, (f"{NODES}.5.component", "ALU"), (f"{MAC}.non_forked_power_gateable", True)],
    "HierarchicalInput.name": [(MAC, {"type": "Hierarchical", "nodes": [BASE["arch"]["nodes"][3]]}), (f"{MAC}.name", "Core")],
    "SpatialInput.may_reuse": [(f"{PE}.spatial.0.may_reuse", "Nothing")],
    "SpatialInput.reuse": [(f"{PE}.spatial.0.reuse", "A")],
    "SpatialInput.loop_bounds": [(f"{PE}.spatial.0.loop_bounds", [LIMIT])],
    "SpatialInput.min_usage": [(f"{PE}.spatial.0.min_usage", 0.5)],
    "SpatialInput.usage_scale": [(f"{PE}.spatial.0.usage_scale", 2)],
    "SpatialInput.power_gateable": [(f"{PE}.spatial.0.power_gateable", True)],
    "SpatialInput.skew": [(f"{MAC}.actions.0.throughput", 1e6), (f"{PE}.spatial.0.skew", "once")],
    "SpatialInput.vector": [
        (f"{PE}.spatial.0.fanout", 1), (f"{MAC}.spatial", [{"name": "X", "fanout": 4}]),
        (f"{NODES}.3", BASE["mapping"]["nodes"][4]), (f"{NODES}.4", BASE["mapping"]["nodes"][3] | {"component": "MAC"}),
        (f"{MAC}.spatial.0.vector", True)],
    "ComparisonInput.expression": [(f"{PE}.spatial.0.loop_bounds", [{**LIMIT, "expression": "~k"}])],
    "ComparisonInput.operator": [(f"{PE}.spatial.0.loop_bounds", [{**LIMIT, "operator": "multiple_of"}])],
    "ComparisonInput.value": [(f"{PE}.spatial.0.loop_bounds", [{**LIMIT, "operator": "one_of", "value": [2, 4]}])],
    "TensorsInput.may_keep": [(f"{BUFFER}.tensors.may_keep", "Z")],
    "TensorsInput.back": [(f"{BUFFER}.tensors.back", "B")],
    "TensorsInput.tile_shape": [(f"{BUFFER}.tensors.tile_shape", [{"expression": "m", "operator": "<=", "value": 4}])],
    "TensorsInput.no_refetch_from_above": [(f"{BUFFER}.tensors.no_refetch_from_above", "B")],
    "TensorsInput.no_resend_to_below": [(f"{MAIN}.tensors", {"keep": "All"}), (f"{MAIN}.tensors.no_resend_to_below", "B")],
    "TensorsInput.tensor_order_options": [(f"{BUFFER}.tensors.tensor_order_options", [["A", "B"]])],
    "TensorsInput.force_memory_hierarchy_order": [(f"{BUFFER}.tensors.force_memory_hierarchy_order", False)],
    "MappingInput.title": [("mapping.title", "mine")],
    "MappingInput.shared_inputs": [("mapping.shared_inputs", {})],
    "NodeInput.text": [(f"{NODES}.1.text", "outer")],
    "TemporalInput.initial_tile_shape": [
        (f"{NODES}.1", {"type": "Temporal", "rank_variable": "m", "tile_shape": 2}), (f"{NODES}.4+", BASE["mapping"]["nodes"][1]),
        (f"{NODES}.1.initial_tile_shape", 1)],
    "TollNodeInput.persistent": [
        ("workload.n_instances", 2), (f"{NODES}.1", BASE["mapping"]["nodes"][2]), (f"{NODES}.2", BASE["mapping"]["nodes"][1]),
        (f"{NODES}.1.persistent", True)],
    "StorageInput.sliding_window": [(EINSUM, {"einsum": "Z[m, n] = A[H: m + k] * B[k, n]"}), ("workload.rank_sizes", {"H": 6, "K": 3, "N": 4}), ("workload.iteration_space_shape", {"m": "0 <= m < 4"}), (f"{NODES}.1", {"type": "Temporal", "rank_variable": "m", "tile_shape": 1}),
                                    (f"{NODES}.4", {"type": "Temporal", "rank_variable": "k", "tile_shape": 1}), (f"{NODES}.2.sliding_window", True)],
    "PipelineInput.component": PIPED,
    "PipelineInput.name": PIPED,
}  # fmt: skip
"""For each field the edits that lead to it, the last of which sets it: a path and its value, `+` puts one in behind."""
NO_EFFECT = words("""
    EinsumInput.tensor_accesses EinsumInput.name EinsumInput.operation EinsumInput.reduction EinsumInput.compute EinsumInput.part
    WorkloadInput.persistent_tensors AccessInput.persistent AccessInput.name AccessInput.projection AccessInput.output
    RenameInput.expected_count EinsumRenamesInput.rank_variables
    ComponentInput.component_modeling_log ComponentInput.total_area ComponentInput.total_leak_power
    ForkInput.name HierarchicalInput.name MappingInput.title MappingInput.shared_inputs NodeInput.text
    ComponentInput.component_model ComponentInput.enabled
    SpatialInput.reuse SpatialInput.loop_bounds SpatialInput.min_usage SpatialInput.usage_scale SpatialInput.vector
    ComparisonInput.expression ComparisonInput.operator ComparisonInput.value
    TensorsInput.may_keep TensorsInput.back TensorsInput.tile_shape TensorsInput.no_refetch_from_above
    TensorsInput.no_resend_to_below TensorsInput.tensor_order_options TensorsInput.force_memory_hierarchy_order
""")
"""Fields that change no cost of a mapping: names, constraints, what is computed."""
NAMED_FOR_TIMELOOP = words("""
    EinsumInput.operation EinsumInput.reduction EinsumInput.part SpatialInput.reuse SpatialInput.min_usage SpatialInput.usage_scale
    SpatialInput.vector ComparisonInput.operator ComparisonInput.value
    TensorsInput.back TensorsInput.tile_shape TensorsInput.no_refetch_from_above TensorsInput.no_resend_to_below
    TensorsInput.tensor_order_options
""")
"""Of these, those that Timeloop's files cannot say."""
NOT_IN_ACCELFORGE = words("""
    partial_bits_per_value compute operation reduction part startup pipeline_latency bits_per_value_scale
    buffering wind_up stalls ports separate_read_write_ports banks layout multicast links skew vector
    refresh_power title shared_inputs layouts replicate text sliding_window n_iterations
""")
"""Fields here that AccelForge 1.0.467 does not have."""


def fields():
    """All fields, by the model that defines them."""
    found = set()
    for module in (workload, arch, latency, layout, placement, mapping):
        for name, model in inspect.getmembers(module, inspect.isclass):
            if issubclass(model, Input) and model.__module__ == module.__name__:
                own = set(model.model_fields) & set(inspect.get_annotations(model))
                found |= {f"{name}.{field}" for field in own}
    return found


def edited(tree, path, value):
    """A tree with another value at a path."""
    tree = copy.deepcopy(tree)
    *above, last = path.removesuffix("+").split(".")
    place = tree
    for key in above:
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
    if path.endswith("+"):
        place.insert(int(last) + 1, value)
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return tree


def test_no_field_is_forgotten():
    assert fields() == {*IN_BASE, *ELSEWHERE, *CASES}
    assert len(IN_BASE) + len(ELSEWHERE) + len(CASES) == len(fields())
    assert set(NO_EFFECT) <= set(CASES)


def pair(field):
    """The specification without the field, or with what stands for it, and the one with it."""
    tree = BASE
    *before, last = CASES[field]
    for edit in before:
        tree = edited(tree, *edit)
    return Spec.from_dict(tree), Spec.from_dict(edited(tree, *last))


def costs(spec):
    """What is counted, as actions and as values that move; and what Timeloop takes from Accelergy."""
    cost, (einsum, *_) = evaluate(spec), spec.workload.einsum_names
    leaves = spec.arch(einsum).leaves
    rows = {(r.component, r.tensor, r.action): r.count for r in cost.actions if r.count}
    per_value = {key: leaves[key[0]].action(key[2]).actions_per_value.get(key[1], 1) for key in rows}
    values = {key: round(count / per_value[key], 6) for key, count in rows.items()}
    usage = {row.component: row.usage for row in cost.memory_usage if row.usage}
    return (values, usage, f"{cost.latency:.9g}"), (rows, f"{cost.energy:.9g}", cost.area)


@cache
def always_named(write):
    """What is left out of the specification without anything special."""
    return {(entry.key, entry.reason) for entry in write(Spec.from_dict(BASE)).left_out}


def written_of(write, spec):
    """The files of a specification, and what is left out of them that is not always."""
    try:
        result = write(spec)
    except SpecError as error:
        assert error.at is not None
        return None, {str(error)}
    return "\n".join(result.files.values()), {(entry.key, entry.reason) for entry in result.left_out} - always_named(
        write
    )


@pytest.mark.parametrize("field", CASES)
def test_a_field_is_exported_or_named_or_refused(tmp_path, field):
    without, spec = pair(field)
    expected = costs(spec)
    assert (costs(without) == expected) == (field in NO_EFFECT)
    text, named = written_of(to_accelforge, spec)
    if text is not None:
        assert not set(re.findall(r"[{,\s](\w+): ", text)) & set(NOT_IN_ACCELFORGE)
    if not named and field not in NO_EFFECT:
        assert costs(loads(text)) == expected
    text, named = written_of(to_timeloop, spec)
    assert named or field not in NAMED_FOR_TIMELOOP
    if not named and field not in NO_EFFECT:
        assert costs(spec_of(imported(tmp_path, text)))[0] == expected[0]
