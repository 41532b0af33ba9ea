"""Costs that a specification leaves out come from the model that its `component_class` names."""

import pytest

import einmap
from einmap.components.base import FormulaModel
from einmap.components.registry import builtin
from einmap.spec.cost_sources import cost_sources

SRAM = {"type": "Memory", "name": "Buffer", "component_class": "sram", "size": 32 * 1024 * 8, "bits_per_action": 64}
SRAM["extra_attributes_for_component_model"] = {"tech_node": "45nm", "width": 64}


def spec(**changes) -> einmap.Spec:
    """A buffer by its class between a memory and a unit that cost nothing."""
    main = {"type": "Memory", "name": "Main", "size": "inf", "component_class": "Dummy"}
    unit = {"type": "Compute", "name": "MAC", "component_class": "Dummy"}
    sizes = {"M": 4, "N": 4, "K": 4}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": ["Z[m, n] = A[m, k] * B[k, n]"]}
    return einmap.Spec.from_dict(arch={"nodes": [main, {**SRAM, **changes}, unit]}, workload=workload)


def buffer(**changes):
    memory = spec(**changes).arch("Z").components["Buffer"]
    return memory, {action.name: action for action in memory.actions}


def test_what_is_missing_is_that_of_the_model_and_what_is_given_stays():
    estimate = builtin().estimate("SRAM", {"size": 2**18, "width": 64, "tech_node": 45e-9}, {})
    memory, actions = buffer()
    assert (memory.area, memory.leak_power) == pytest.approx((estimate.area, estimate.leak_power))
    assert actions["read"].energy == pytest.approx(20e-12)  # Horowitz, ISSCC 2014: 32 KB, 64 bits
    assert actions["read"].throughput == estimate.actions["read"].throughput
    given = [{"name": "read", "energy": 1e-12}, {"name": "write", "latency": 3e-9, "energy_scale": 2}]
    memory, actions = buffer(actions=given, area=1, area_scale=3, leak_power_scale=0.5, energy_scale=10)
    assert (memory.area, memory.leak_power) == pytest.approx((3, estimate.leak_power / 2))
    assert [actions[name].energy for name in ("read", "write")] == pytest.approx([1e-11, 400e-12])
    assert actions["write"].throughput == pytest.approx(1 / 3e-9)


def test_an_action_without_width_is_one_bit_of_a_row():
    _, row = buffer()
    _, bit = buffer(bits_per_action=None)
    assert bit["read"].energy * 64 == pytest.approx(row["read"].energy)
    assert bit["read"].throughput == pytest.approx(row["read"].throughput * 64)


def test_defaults_of_the_architecture_are_attributes_too():
    changed = spec(extra_attributes_for_component_model={"width": 64})
    changed = changed.set("arch.extra_attributes_for_all_component_models", {"tech_node": 45e-9})
    assert changed.arch("Z").components["Buffer"].area == pytest.approx(buffer()[0].area)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"component_class": "SRRAM"}, ["'SRRAM' of 'Buffer'", "did you mean 'SRAM'", "component_class"]),
        ({"component_class": "Dumy"}, ["did you mean 'Dummy'"]),
        ({"extra_attributes_for_component_model": {"width": 64}}, ["'Buffer'", "needs tech_node", "set tech_node"]),
        ({"extra_attributes_for_component_model": {"tech_node": -1}}, ["'Buffer'", "tech_node", "above 0"]),
    ],
)
def test_what_no_model_can_price_is_said_with_its_place(changes, words):
    with pytest.raises(einmap.SpecError) as error:
        spec(**changes).arch("Z")
    assert "arch.nodes[1]" in str(error.value)
    assert [word for word in words if word not in str(error.value)] == []


def test_costs_outside_the_range_of_a_source_are_noted():
    wide = spec(extra_attributes_for_component_model={"tech_node": "45nm", "width": 8192})
    mapping = einmap.map_workload(wide).mapping
    assert any("Buffer: width 8192" in note.text for note in einmap.evaluate(wide, mapping).notes)


def test_a_model_is_asked_once_for_components_that_are_alike(monkeypatch):
    asked = []
    estimate = FormulaModel.estimate
    monkeypatch.setattr(
        FormulaModel, "estimate", lambda model, *given: asked.append(model.name) or estimate(model, *given)
    )
    size = 7 * 1024 * 8  # no other test asks for it
    einsums = [f"Z{i}[m, n] = A{i}[m, k] * B{i}[k, n]" for i in range(4)]
    given = spec(size=size).set("workload.einsums", einsums)
    assert len({given.arch(f"Z{i}").components["Buffer"].area for i in range(4)}) == 1
    assert asked == ["SRAM"]


@pytest.mark.parametrize(("name", "bits"), [("eyeriss", 16), ("nvdla", 8), ("simba", 8)])
def test_shipped_designs_run_with_component_classes_only(name, bits):
    given, modelled = (
        einmap.map_workload(einmap.load(arch, "conv", define={"BITS": bits}), metrics="energy")
        for arch in (name, f"{name}_components")
    )
    assert modelled.optimal
    assert 0.4 < modelled.cost.energy / given.cost.energy < 1.2
    assert modelled.cost.area > 0


def test_each_cost_has_its_source():
    text = """
    arch:
      nodes:
      - !Memory {name: Main, size: inf, component_class: Dummy}
      - !Memory
        name: Buffer
        component_class: SRAM
        size: 2**18
        leak_power: 1e-3
        extra_attributes_for_component_model: {tech_node: 45nm, width: 64}
        actions:
        - {name: read, energy: 1e-12}
        - {name: write, latency: 1e-9}
      - !Compute {name: MAC, component_class: Dummy}
    workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m]"]}
    """
    rows = {(r.component, r.action, r.quantity): r for r in cost_sources(einmap.loads(text), "Z")}
    assert rows["Main", None, "area"].source == "component_class: Dummy"
    assert rows["Buffer", None, "area"].source.startswith("SRAM: 6T cells: IEDM 2000")
    assert rows["Buffer", None, "leak_power"].source == "<text>:9"
    assert rows["Buffer", "read", "energy"].source == "<text>:12"
    assert rows["Buffer", "write", "energy"].source.startswith("SRAM: Horowitz")
    assert rows["Buffer", "write", "latency"].source == "<text>:13"
    assert rows["Buffer", "write", "latency"].value == 1e-9
