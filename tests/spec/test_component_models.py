"""Costs that a specification leaves out come from the model that its `component_class` names."""

import pickle
from types import SimpleNamespace
from typing import ClassVar

import pytest

import einmap
from einmap.components.base import FormulaModel
from einmap.components.installed import hwcomponents
from einmap.components.registry import builtin
from einmap.spec.cost_sources import component_modeling_log, cost_sources, used_models

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
    assert rows["Buffer", None, "area"].source.startswith(
        "SRAM (width 64 bits, 45 nm, size 32 KiB): 6T cells: IEDM 2000"
    )
    assert rows["Buffer", None, "leak_power"].source == "<text>:9"
    assert rows["Buffer", "read", "energy"].source == "<text>:12"
    assert rows["Buffer", "write", "energy"].source.startswith("SRAM (width 64 bits, 45 nm, size 32 KiB): Horowitz")
    assert rows["Buffer", "write", "latency"].source == "<text>:13"
    assert rows["Buffer", "write", "latency"].value == 1e-9


class Latches:
    """A model as users write it: arguments are attributes, methods are actions."""

    leak_power = 2e-6
    made: ClassVar[list[dict]] = []

    def __init__(self, width, size, cells=1):
        self.made.append({"width": width, "size": size, "cells": cells})
        self.width, self.area = width, size * 1e-12

    def read(self, bits_per_action):
        return bits_per_action * 5e-15, 1e-9

    def write(self, bits_per_action, penalty=1):
        return bits_per_action * 7e-15 * penalty, 2e-9

    def get_log_messages(self):
        return [f"{self.width} bits"]


def test_a_python_class_prices_a_component_before_its_class():
    extra = {"width": 64, "cells": [1, 2]}
    actions = [{"name": "read"}, {"name": "write", "extra_attributes_for_component_model": {"penalty": 2}}]
    given = spec(component_model=Latches, extra_attributes_for_component_model=extra, actions=actions)
    Latches.made.clear()
    memory = given.arch("Z").components["Buffer"]
    costs = {action.name: (action.energy, action.throughput) for action in memory.actions}
    assert (memory.area, memory.leak_power) == (2**18 * 1e-12, 2e-6)
    assert costs == {"read": pytest.approx((64 * 5e-15, 1e9)), "write": pytest.approx((64 * 14e-15, 5e8))}
    assert Latches.made == [{"width": 64, "size": 2**18, "cells": [1, 2]}]  # once, with extra attributes as given
    assert given.get("arch.nodes.Buffer.component_model") == "Latches"
    assert component_modeling_log(given, "Z") == {"Buffer": ("64 bits",)}
    assert [(model.component_class, model.components) for model in used_models(given)] == [("Latches", ("Buffer",))]


def test_without_a_width_a_python_model_is_asked_for_one_bit():
    given = spec(component_model=Latches, bits_per_action=None, extra_attributes_for_component_model={"width": 64})
    read, _ = given.arch("Z").components["Buffer"].actions
    assert read.energy == 5e-15


def test_models_of_python_are_a_part_of_the_specification():
    given = spec(component_model=Latches, extra_attributes_for_component_model={"width": 64})
    assert pickle.loads(pickle.dumps(given)) == given != spec()
    assert given.runs_code and not spec().runs_code
    other = given.set("arch.nodes.Main.component_model", Latches(1, 1))
    assert other.get("arch.nodes.Main.component_model") == "Latches_2"
    other = spec(component_class="latches").set("arch.nodes.Buffer.size", 128)
    with pytest.raises(einmap.SpecError, match="'latches' of 'Buffer' is not a known model"):
        other.arch("Z")
    named = einmap.Spec.from_dict(other.to_dict(), component_models=[Latches])
    assert named.arch("Z").components["Buffer"].area == pytest.approx(128e-12)
    with pytest.raises(einmap.SpecError, match=r"component_model 'Latches' of 'Buffer' is not a model(.|\n)*load"):
        einmap.Spec.from_dict(given.to_dict()).arch("Z")
    with pytest.raises(einmap.SpecError, match="expected Python classes, objects or models"):
        einmap.Spec.from_dict({}, component_models=["costs.csv"])


def test_a_failing_model_is_an_error_with_its_place():
    class Broken(Latches):
        def read(self, bits_per_action):
            raise RuntimeError("no such cell")

    with pytest.raises(einmap.SpecError) as error:
        spec(component_model=Broken).arch("Z")
    assert str(error.value).startswith("arch.nodes[1] \"Buffer\".component_model: 'Buffer': read of Broken failed")
    assert "RuntimeError: " in str(error.value)


def test_a_hop_takes_energy_throughput_and_latency_of_its_model():
    wire = {"type": "Network", "name": "Wires", "component_class": "Wire", "bits_per_action": 64}
    extra = {"tech_node": "40nm", "length": 10e-3, "width": 256, "cycle_period": 2e-9}
    given = spec(extra_attributes_for_component_model={"tech_node": "45nm", "width": 64})
    nodes = given.get("arch.nodes")
    nodes.insert(1, {**wire, "extra_attributes_for_component_model": extra})
    network = given.set("arch.nodes", nodes).arch("Z").components["Wires"]
    (hop,) = network.actions
    assert hop.energy == pytest.approx(310e-12 / 4)  # Keckler et al.: 256 bits over 10 mm
    assert hop.throughput == pytest.approx(4 / 2e-9)
    assert network.hop_latency == 2e-9
    nodes[1] |= {"actions": [{"name": "hop", "latency": 7e-9}], "latency_scale": 2, "throughput_scale": 3}
    network = given.set("arch.nodes", nodes).arch("Z").components["Wires"]
    assert (network.hop_latency, network.actions[0].throughput) == pytest.approx((14e-9, 6e9))
    del nodes[1]["bits_per_action"], nodes[1]["actions"], nodes[1]["latency_scale"]
    bit = given.set("arch.nodes", nodes).arch("Z").components["Wires"]
    assert bit.actions[0].energy == pytest.approx(310e-12 / 256)
    assert bit.hop_latency == 2e-9  # a bit takes as long as a row


def test_actions_that_move_values_cost_a_whole_action():
    extra = {"tech_node": 32, "width": 16}
    toll = {"type": "Toll", "name": "Adder", "component_class": "ShiftAdd", "direction": "up"}
    given = spec(extra_attributes_for_component_model={"tech_node": "45nm", "width": 64})
    nodes = given.get("arch.nodes")
    nodes.insert(2, {**toll, "values_per_action": {"All": 1}, "extra_attributes_for_component_model": extra})
    assert given.set("arch.nodes", nodes).arch("Z").components["Adder"].actions[0].energy == pytest.approx(0.021e-12)


def test_what_is_installed_prices_no_class_that_einmap_has(monkeypatch):
    class SRAM(Latches):
        pass

    class Other(Latches):
        component_name = "other_latches"

    finder = SimpleNamespace(installed_models=lambda: [SRAM, Other])
    monkeypatch.setattr(hwcomponents, "require", lambda module, extra: finder)
    monkeypatch.setattr(hwcomponents, "has_packages", lambda: True)
    hwcomponents.installed_registry.cache_clear()
    extra = {"width": 64, "tech_node": 45}

    def area(name, installed=True):
        given = spec(component_class=name, extra_attributes_for_component_model=extra)
        given = given.set("config", {"use_installed_component_models": installed})
        return given.arch("Z").components["Buffer"].area, given.runs_code

    built_in, theirs = buffer()[0].area, 2**18 * 1e-12
    try:
        assert area("SRAM") == area("SRAM", False) == (pytest.approx(built_in), False)
        assert area("SRAM", "first") == area("hwcomponents.SRAM") == area("OtherLatches") == (theirs, True)
        with pytest.raises(einmap.SpecError, match="use_installed_component_models is false"):
            area("hwcomponents.SRAM", False)
        with pytest.raises(einmap.SpecError, match="'OtherLatches' of 'Buffer' is not a known model"):
            area("OtherLatches", False)
        with pytest.raises(einmap.SpecError, match="use_installed_component_models"):
            area("SRAM", "last")
    finally:
        hwcomponents.installed_registry.cache_clear()


def test_a_class_of_a_package_that_is_not_installed_names_the_package(monkeypatch):
    monkeypatch.setattr(hwcomponents, "has_packages", lambda: False)
    with pytest.raises(einmap.SpecError, match=r"hwcomponents-neurosim(.|\n)*pip install 'einmap\[components\]'"):
        spec(component_class="ArrayRowDrivers").arch("Z")


def test_a_width_that_is_not_written_is_told_once_with_the_component():
    text = """
    arch:
      extra_attributes_for_all_component_models: {tech_node: 45nm}
      nodes:
      - !Memory {name: Main, size: inf, component_class: DDR4, bits_per_action: 64}
      - !Memory {name: Buffer, size: 2**18, component_class: SRAM, bits_per_action: 128}
      - !Compute {name: MAC, component_class: intmac}
    workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Y[m] = A[m]", "Z[m] = Y[m] * A[m]"]}
    """
    given = einmap.loads(text)
    notes = [note.text for einsum in ("Y", "Z") for note in given.bound[einsum].notes]
    assert {text for text in notes if "not given" in text} == {
        "MAC: width is not given, priced for 32 bits (the default of AladdinIntMAC); "
        "set width in extra_attributes_for_component_model"
    }
    buffer = next(model for model in used_models(given) if model.component_class == "SRAM")
    assert buffer.priced_for == ("width 128 bits, 45 nm, size 32 KiB",)


@pytest.mark.parametrize(
    ("files", "define"),
    [("eyeriss_components", {}), ("nvdla_components", {}), ("simba_components", {"CHIPLETS": 4})],
)
def test_shipped_architectures_write_their_sizes(files, define):
    given = einmap.load(files, "conv", define=define)
    assert not [note for name in given.bound for note in given.bound[name].notes if "not given" in note.text]


@pytest.mark.parametrize(
    ("extra", "action", "slips"),
    [
        ({"width": 64, "n_bnaks": 4}, {}, {"n_bnaks": "n_banks"}),
        ({"widht": 64, "Voltge": 0.8}, {}, {"widht": "width", "Voltge": "voltage"}),
        ({"width": 64}, {"voltge": 0.7}, {"voltge": "voltage"}),
        ({"width": "2 * widths", "widths": 32}, {}, {}),  # an expression uses it
        ({"width": 64, "colour": 3, "N-Banks": 2}, {}, {}),
        ({"n_banks": 2, "width": 64, "n_bank": 4}, {}, {}),  # the attribute itself is written
    ],
)
def test_an_extra_attribute_that_is_nearly_one_of_the_model_is_noted(extra, action, slips):
    extra = {"tech_node": "45nm", **extra}
    actions = [{"name": "read", "extra_attributes_for_component_model": action}]
    given = spec(extra_attributes_for_component_model=extra, actions=actions)
    notes = [note for note in given.bound["Z"].notes if "did you mean" in note.text]
    assert [note.text for note in notes] == [
        f"Buffer: extra attribute {name!r} is not read by the model; did you mean {meant!r}?"
        for name, meant in slips.items()
    ]
    assert all(str(note.at).endswith(name) for note, name in zip(notes, slips, strict=True))
