"""What expressions of a specification may speak of, and what they may not."""

from dataclasses import replace

import pytest

import einmap
from einmap import SpecError, evaluate, load
from einmap.arch.constraint import DeferredSet
from einmap.spec.binding.component.bind_component import unknown_holding

MATMUL = load("simple", "matmul", "simple_matmul")
BUFFER = "arch.nodes.GlobalBuffer"


def refused(spec):
    with pytest.raises(SpecError) as caught:
        evaluate(spec)
    return str(caught.value)


def kept(text, above=("A", "B"), **sections):
    """What `keep: text` of GlobalBuffer selects when MainMemory holds `above`."""
    spec = MATMUL
    for path, value in sections.items():
        spec = spec.set(path, value)
    placement = spec.set(f"{BUFFER}.tensors", {"keep": text}).arch().leaves["GlobalBuffer"].placement
    return set(placement.keep.given({"MainMemory": frozenset(above)}))


@pytest.mark.parametrize(
    ("text", "tensors"),
    [
        ("~MainMemory", {"Z"}),
        ("A if MainMemory.size > 3 else B", {"A"}),
        ("MainMemory if MainMemory.size < 3 else ~MainMemory.tensors", {"Z"}),
        ("Above & B if MainMemory.get_fanout() == 1 else All", {"B"}),
        ("Inputs if MainMemory == Above and wide else Nothing", {"A", "B"}),
        ("A if len(MainMemory) == 2 and A in MainMemory else B", {"A"}),
        ("B if size < MainMemory.size and name == 'GlobalBuffer' else Nothing", {"B"}),
        ("(Inputs | A) & MainMemory if MainMemory.actions['read'].energy >= 0 else Nothing", {"A", "B"}),
    ],
)
def test_sets_of_a_memory_mix_what_is_held_above_with_fields_and_variables(text, tensors):
    assert kept(text, variables={"wide": True}) == tensors


@pytest.mark.parametrize(
    ("text", "looked_at"),
    [
        ("A | B", 1),
        ("~MainMemory", 4),
        ("𝐌ainMemory", 4),
        ("Above & A", 6),
        (["A", "Cache"], 2),
        ("Cache if len(MainMemory) > 1 else MainMemory", 8),
    ],
)
def test_sets_are_remembered_by_what_those_components_hold_that_they_speak_of(monkeypatch, text, looked_at):
    spec = MATMUL.set(f"{BUFFER}.tensors", {"keep": text}).set(f"{BUFFER}.enabled", True)
    keep = spec.arch().leaves["GlobalBuffer"].placement.keep
    keep = replace(keep, scope=keep.scope.layer({"Cache": keep.scope.get("MainMemory")}))
    looked = []
    evaluated = DeferredSet._evaluate
    monkeypatch.setattr(DeferredSet, "_evaluate", lambda self, held: looked.append(held) or evaluated(self, held))
    main = [frozenset(names) for names in ("", "A", "AB", "ABZ")]
    every = [{"MainMemory": one, "Cache": other} for one in main for other in (frozenset(), frozenset("Z"))]
    for held in every * 2:
        assert keep.given(held) == evaluated(keep, held)
    assert len(looked) == looked_at


def test_an_unknown_field_of_a_memory_above_comes_with_a_suggestion():
    with pytest.raises(SpecError, match=r"MainMemory has no attribute 'sizzle'\n.*did you mean 'size'"):
        kept("A if MainMemory.sizzle else B")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{BUFFER}.enabled", "A in MainMemory"),
        (f"{BUFFER}.bits_per_value", {"MainMemory": 4}),
        (f"{BUFFER}.area_scale", "1 if MainMemory.tensors else 2"),
        (f"{BUFFER}.spatial", [{"name": "X", "fanout": 2, "may_reuse": "~MainMemory"}]),
        (f"{BUFFER}.spatial", [{"name": "X", "fanout": 2, "reuse": "MainMemory"}]),
        (
            f"{BUFFER}.tensors",
            {"tile_shape": [{"expression": "MainMemory.tensors.rank_variables", "operator": "<=", "value": 2}]},
        ),
    ],
)
def test_what_a_memory_holds_is_not_taken_for_nothing_where_it_is_not_known(path, value):
    assert unknown_holding("MainMemory") in refused(MATMUL.set(path, value))


def test_above_is_known_in_the_sets_of_tensors_only():
    assert unknown_holding("`Above`") in refused(MATMUL.set(f"{BUFFER}.bits_per_value", {"Above": 4}))


def test_a_component_with_the_name_of_a_set_gives_way_to_the_set_in_the_sets_of_tensors():
    spec = MATMUL.set("arch.nodes.MainMemory.name", "Inputs").set(f"{BUFFER}.tensors", {"keep": "Inputs"})
    assert spec.arch().leaves["GlobalBuffer"].placement.keep.given({"Inputs": frozenset("Z")}) == {"A", "B"}


def test_fields_of_a_dimension_see_each_other_and_the_component():
    limit = {"expression": "m", "operator": "<=", "value": "fanout // 2"}
    dimension = {"name": "X", "fanout": "4 if name == 'X' else 2", "min_usage": "1 / fanout", "loop_bounds": [limit]}
    spec = MATMUL.set(f"{BUFFER}.spatial", [dimension])
    (found,) = spec.arch().find("GlobalBuffer").spatial
    assert (found.fanout, found.min_usage, found.loop_bounds[0].value) == (4, 0.25, 2)


def test_limits_and_bits_see_the_fields_of_their_memory():
    limit = {"expression": "m", "operator": "<=", "value": "depth"}
    spec = MATMUL.set(f"{BUFFER}.extra_attributes_for_component_model", {"depth": 3})
    spec = spec.set(f"{BUFFER}.tensors", {"tile_shape": [limit]}).set(f"{BUFFER}.bits_per_value", {"All": "2 * depth"})
    buffer = spec.arch().find("GlobalBuffer")
    assert buffer.placement.tile_shape[0].value == 3
    assert set(buffer.bits.values()) == {6}


def test_components_below_see_name_and_actions_of_one_above():
    text = "len(MainMemory.name) + MainMemory.actions['write'].energy"
    above = MATMUL.arch().find("MainMemory").action("write").energy
    area = MATMUL.set(f"{BUFFER}.area", text).arch().find("GlobalBuffer").area
    assert area == pytest.approx(len("MainMemory") + above)


def test_the_architecture_sees_rank_sizes_and_variables_through_spec():
    spec = MATMUL.set("variables", {"word": 3}).set("workload.n_instances", 2)
    text = "spec.workload.rank_sizes['M'] + 1000 * spec.variables.word + 10000 * spec.workload.n_instances"
    size = spec.get("workload.rank_sizes.M")
    assert spec.set(f"{BUFFER}.area", text).arch().find("GlobalBuffer").area == size + 23000


def test_a_variable_hides_spec():
    spec = MATMUL.set("variables", {"spec": 3}).set(f"{BUFFER}.area", "spec")
    assert spec.arch().find("GlobalBuffer").area == 3


def test_total_latency_sees_the_variables_of_arch_as_a_dictionary():
    spec = MATMUL.set("arch.variables", {"a": 5, "b": "a + 1"})
    spec = spec.set(f"{BUFFER}.total_latency", "1e6 * (arch_variables['a'] + arch_variables.b + b)")
    assert evaluate(spec).latency == 17e6


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("arch.variables", {"global_x": 3}, "already set outside of arch"),
        ("arch.extra_attributes_for_all_component_models", {"global_x": 4}, "already set outside of arch"),
        (f"{BUFFER}.extra_attributes_for_component_model", {"global_x": 4}, "outside of 'GlobalBuffer'"),
        (f"{BUFFER}.actions[0].extra_attributes_for_component_model", {"global_x": 4}, "outside of 'GlobalBuffer'"),
    ],
)
def test_a_global_name_does_not_change_further_in(path, value, words):
    message = refused(MATMUL.set("variables", {"global_x": 3}).set(path, value))
    assert f"'global_x' is already set {words.removeprefix('already set ')}; a global_ name may not change" in message
    assert path.rpartition(".")[2] in message


def test_a_global_name_may_be_set_once_anywhere():
    spec = MATMUL.set(f"{BUFFER}.extra_attributes_for_component_model", {"global_x": 4})
    assert spec.set(f"{BUFFER}.area", "global_x").arch().find("GlobalBuffer").area == 4


@pytest.mark.parametrize("path", [f"{BUFFER}.energy_scale", f"{BUFFER}.actions[0].energy_scale"])
def test_a_scale_is_not_negative(path):
    assert "energy_scale must be >= 0, found -1" in refused(MATMUL.set(path, -1))


def test_a_persistent_tensor_whose_node_is_not_gets_a_note():
    spec = MATMUL.set("arch.nodes.MainMemory.size", 10**6).set("workload.persistent_tensors", "A")
    (note,) = [n for n in evaluate(spec).notes if "is persistent in the workload" in n.text]
    assert note.at.path == "mapping.nodes[0]"
    assert "space in MainMemory is counted as that of any tensor" in note.text
    lasting = evaluate(spec.set("mapping.nodes[0].persistent", True))
    assert not any("persistent" in n.text for n in lasting.notes)


def test_metrics_of_the_model_are_checked():
    for value in ("ENERGY", "energy | latency", ["ENERGY", "LATENCY"], 3):
        assert evaluate(MATMUL.set("model", {"metrics": value})).energy == evaluate(MATMUL).energy
    for value in ("FOO", 0, 256, [3.5]):
        assert "model.metrics: expected names of metrics (LATENCY, " in refused(MATMUL.set("model", {"metrics": value}))


def test_bits_of_a_memory_are_reported_with_their_value_and_place():
    message = refused(MATMUL.set("arch.nodes.GlobalBuffer.bits_per_value", {"A": 8, "B": -2}))
    assert message.endswith("bits_per_value.B: bits of 'B' in 'GlobalBuffer' must be >= 0, found -2")


def test_a_variable_with_the_name_of_a_rename_gets_a_note_since_the_rename_wins():
    spec = MATMUL.set("variables", {"weight": 3}).set(f"{BUFFER}.area", "len(weight)")
    assert spec.arch().find("GlobalBuffer").area == 1
    (note,) = [n for n in spec.notes if "'weight'" in n.text]
    assert "has the name of a rename, which wins in expressions" in note.text


def test_a_variable_of_arch_that_hides_a_tensor_gets_a_note():
    spec = MATMUL.set("arch.variables", {"B": 3}).set(f"{BUFFER}.area", "B")
    assert spec.arch().find("GlobalBuffer").area == 3
    (note,) = [n for n in spec.notes if "'B'" in n.text]
    assert note.at.path == "arch.variables.B"


MEMORY = {"type": "Memory", "name": "Main", "size": "inf", "component_class": "Dummy"}


@pytest.mark.parametrize(
    ("tensors", "hint"),
    [
        ({"keep": "weights"}, "tensors and renames: A, B, Z, factor; sets: All, Tensors, Inputs"),
        ({"no_refetch_from_above": "weights"}, "`renames: {weights: Inputs}` of an Einsum"),
        ({"keep": "All - output"}, "`renames: {output: Outputs}` of an Einsum"),
        ({"keep": "All - Input"}, "did you mean 'Inputs'? tensors and renames: A, B, Z, factor; sets: All,"),
        (
            {"tile_shape": [{"expression": "weights.rank_variables", "operator": "==", "value": 1}]},
            "tensors and renames: A, B, Z, factor; rank variables: k, m; sets:",
        ),
    ],
)
def test_an_unknown_name_in_a_set_lists_tensors_and_renames_first(tensors, hint):
    einsum = {"einsum": "Z[m] = A[m, k] * B[k]", "renames": {"factor": "B"}}
    main = {"type": "Memory", "name": "Main", "size": "inf", "component_class": "Dummy", "tensors": tensors}
    nodes = [main, {"type": "Compute", "name": "MAC", "component_class": "Dummy"}]
    workload = {"rank_sizes": {"M": 2, "K": 2}, "bits_per_value": {"All": 8}, "einsums": [einsum]}
    with pytest.raises(SpecError) as caught:
        einmap.map_workload(einmap.Spec.from_dict(arch={"nodes": nodes}, workload=workload))
    assert hint in caught.value.hint


def test_a_compute_enabled_by_a_name_that_no_tensor_has_is_told_how_to_give_it():
    nodes = [MEMORY, {"type": "Compute", "name": "MAC", "component_class": "Dummy", "enabled": "len(kernel) == 1"}]
    with pytest.raises(SpecError) as caught:
        einmap.map_workload(MATMUL.set("arch.nodes", nodes))
    assert "name 'kernel' is not defined" in str(caught.value)
    assert "tensors and renames: A, B, Z" in caught.value.hint
    assert "`renames: {kernel: Inputs}` of an Einsum" in caught.value.hint


def test_an_einsum_that_no_compute_is_enabled_for_is_told_with_its_tensors():
    nodes = [MEMORY, {"type": "Compute", "name": "MAC", "component_class": "Dummy", "enabled": "len(All) < 3"}]
    with pytest.raises(SpecError, match=r"has no path: .* \(MAC\); tensors of the Einsum: A, B, Z"):
        einmap.map_workload(MATMUL.set("arch.nodes", nodes))
