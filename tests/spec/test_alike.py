"""Einsums that are the same but for names share one binding of the architecture, and no others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import partial

import pytest

import einmap
from einmap.arch.constraint import DeferredSet, Latency
from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import example_paths
from einmap.spec.binding.bind_arch import bind_arch
from einmap.spec.raw import place
from einmap.spec.spec import Spec

CASCADE = """
workload:
  rank_sizes: {M: 4, K0: 8, K1: 8, K2: 8}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T1[m, k1] = T0[m, k0] * W0[k0, k1]", renames: {weight: W0}}
  - {einsum: "T2[m, k2] = T1[m, k1] * W1[k1, k2]", renames: {weight: W1}}
  - {einsum: "T3[m, k3] = T2[m, k2] * W2[k2, k3]", renames: {weight: W2}, rank_sizes: {K3: 8}}
  - {einsum: "T4[m, k4] = T3[m, k3] * W3[k3, k4]", renames: {weight: W3}, rank_sizes: {K3: 8, K4: 8}}
"""
ARCH = """
arch:
  nodes:
  - !Memory
    {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: ~Intermediates},
     actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Memory
    {name: GLB, size: inf, leak_power: 0, area: 0, tensors: {keep: weight, back: Nothing},
     actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def spec_of(keep: str = "weight", energy: str = "1", **options: object) -> Spec:
    spec = einmap.loads(ARCH + CASCADE, **options)
    return spec.set("arch.nodes.GLB.tensors.keep", keep).set("arch.nodes.GLB.actions.read.energy", energy)


def likes(spec: Spec) -> list[str]:
    return [bound.like for bound in spec.bound.values()]


def alone(spec: Spec, einsum: str) -> object:
    """The architecture as it is bound for one Einsum by itself."""
    table = spec.bound_workload.einsums[einsum].symbols
    variables, dialect = spec.bindings.arch_scope, spec.bindings.dialect_choice
    where, models = partial(place, spec.raw), spec.bindings.model_choice
    bound = spec.workload.by_name[einsum]
    return bind_arch(spec.arch_inputs, where, variables, table, bound, dialect, models)[0]


def described(value: object, held: list[dict[str, frozenset[str]]]) -> object:
    """A component with every set evaluated for what memories above may hold."""
    match value:
        case DeferredSet():
            return str(value.source), [given(value, one) for one in held], str(value.at)
        case Latency():
            return value.text, str(value.at)
        case tuple():
            return [described(one, held) for one in value]
        case _ if is_dataclass(value):
            return type(value).__name__, [described(getattr(value, f.name), held) for f in fields(value)]
        case _:
            return value


def given(deferred: DeferredSet, held: dict[str, frozenset[str]]) -> object:
    try:
        return deferred.given(held)
    except EinmapError as problem:
        return type(problem)


def same_as_alone(spec: Spec) -> bool:
    for name, bound in spec.bound.items():
        memories = [memory.name for memory in bound.arch.memories]
        tensors = sorted(bound.einsum.tensors)
        held = [{}, *({m: frozenset({t})} for m in memories for t in tensors)]
        if described(bound.arch, held) != described(alone(spec, name), held):
            return False
    return True


def test_repeated_layers_are_alike_up_to_names() -> None:
    # T0 is not an intermediate, and neither is T4
    assert likes(spec_of()) == ["T1", "T2", "T2", "T4"]


@pytest.mark.parametrize("keep", ["weight", "~weight", "Inputs & Intermediates", "Outputs - DRAM", "weight | GLB"])
def test_a_shared_binding_is_what_each_einsum_has_by_itself(keep: str) -> None:
    spec = spec_of(keep)
    assert len({*likes(spec)}) < 4
    assert same_as_alone(spec)


def test_sets_of_a_shared_binding_have_the_names_of_their_einsum() -> None:
    memory = spec_of().bound["T3"].arch.find("GLB")
    assert memory.placement.keep.given({}) == frozenset({"W2"})
    assert memory.placement.keep.scope.lookup("All").members == {"T2", "T3", "W2"}
    assert dict(memory.bits_per_value) == {"T2": 8, "T3": 8, "W2": 8}


def test_an_einsum_whose_tensor_is_named_is_like_no_other() -> None:
    assert likes(spec_of("W2")) == ["T1", "T2", "T3", "T4"]
    assert likes(spec_of("'W2' in Inputs and Inputs or Outputs")) == ["T1", "T2", "T3", "T4"]


@pytest.mark.parametrize(
    "energy",
    ["2 if 'W' + '2' in Inputs else 1", "len(str(Inputs))", "len([t for t in Inputs if t < 'T2'])", "len([*All])"],
)
def test_expressions_that_look_at_names_are_bound_for_each_einsum(energy: str) -> None:
    spec = spec_of(energy=energy)
    assert likes(spec) == ["T1", "T2", "T3", "T4"]
    assert same_as_alone(spec)


@pytest.mark.parametrize("energy", ["len(Ｗ2) + 1", "2 if '\\x572' in Inputs else 1"])
def test_a_name_may_be_written_in_other_letters(energy: str) -> None:
    spec = spec_of(energy=energy)
    assert likes(spec) == ["T1", "T2", "T3", "T4"]
    assert [bound.arch.find("GLB").action("read").energy for bound in spec.bound.values()] == [1, 1, 2, 1]


def test_a_name_may_be_put_together_and_looked_for_elsewhere() -> None:
    spec = spec_of(energy="2 if name_of_one in Inputs else 1").set("arch.variables", {"name_of_one": "'W' + '2'"})
    assert likes(spec) == ["T1", "T2", "T3", "T4"]
    assert [bound.arch.find("GLB").action("read").energy for bound in spec.bound.values()] == [1, 1, 2, 1]


def test_sets_that_are_looked_for_in_sets_are_no_names() -> None:
    assert likes(spec_of(energy="2 if weight in Inputs and 'read' in ('read', 'write') else 1")) == [
        "T1", "T2", "T2", "T4",
    ]  # fmt: skip


def test_functions_of_the_user_may_look_at_names() -> None:
    spec = spec_of(energy="first(Inputs)", functions={"first": lambda names: int(min(names)[1:]) + 1})
    assert [bound.arch.find("GLB").action("read").energy for bound in spec.bound.values()] == [1, 2, 3, 4]


def test_a_rename_may_mean_something_else_in_one_layer() -> None:
    text = CASCADE.replace("{weight: W2}", "{weight: T2}")
    spec = einmap.loads(ARCH + text)
    assert likes(spec) == ["T1", "T2", "T3", "T4"]
    assert spec.bound["T3"].arch.find("GLB").placement.keep.given({}) == frozenset({"T2"})


def test_other_sizes_are_not_alike() -> None:
    text = CASCADE.replace("K2: 8}", "K2: 16}")
    assert likes(einmap.loads(ARCH + text)) == ["T1", "T2", "T3", "T4"]


ARCHES, CASCADES = list(example_paths(["arches"])), list(example_paths(["workloads"]))


def bound_as_alone(arch: str, cascades: Sequence[str]) -> int:
    """How many of the cascades the architecture can be bound for; each is bound as its Einsums by themselves are."""
    checked = 0
    for workload in cascades:
        try:
            spec = einmap.load(arch, workload)
            assert spec.bound
        except EinmapError:  # made for another architecture: renames are missing, say
            continue
        checked += 1
        if len({*likes(spec)}) < len(likes(spec)):
            assert same_as_alone(spec)
    return checked


def test_shipped_examples_are_bound_as_if_each_einsum_were_alone() -> None:
    # each cascade with one architecture, each architecture with several cascades
    assert sum(bound_as_alone(arch, CASCADES[i :: len(ARCHES)]) for i, arch in enumerate(ARCHES)) > len(CASCADES) // 2


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("arch", ARCHES)
def test_all_pairs_of_shipped_examples_are_bound_as_if_each_einsum_were_alone(arch: str) -> None:
    assert bound_as_alone(arch, CASCADES)


def test_a_changed_architecture_has_the_workload_and_mapping_of_before_and_costs_as_a_fresh_one() -> None:
    spec = einmap.load("simple", "matmul", "simple_matmul", define={"M": 16, "K": 8, "N": 16})
    tree = spec.mapping
    changed = spec.set("arch.nodes.GlobalBuffer.size", 99999).set("arch.nodes.MAC.area", 1e-9)
    assert changed.workload is spec.workload
    assert changed.mapping is tree
    fresh = einmap.Spec.from_dict(changed.to_dict())
    assert einmap.evaluate(changed).actions == einmap.evaluate(fresh).actions
    assert changed.set("workload.rank_sizes.M", 32).bound_workload.rank_sizes["M"] == 32
    assert changed.set("mapping.nodes[1].tile_shape", 4).mapping != tree
