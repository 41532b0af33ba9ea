"""The field `compute` of an Einsum: the unit that does it, named directly."""

import pytest

from einmap import NoMappingError, Spec, SpecError, evaluate, loads, map_workload
from einmap.spec.forms.write_workload import write_workload

SPEC = loads("""
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, tensors: {keep: All}, actions: [
      {name: read, energy: 0, latency: 0}, {name: write, energy: 0, latency: 0}]}
  - !Compute {name: Fast, leak_power: 0, area: 0, actions: [{name: compute, energy: 5, latency: 1}]}
  - !Compute {name: Off, enabled: false, leak_power: 0, area: 0, actions: [{name: compute, energy: 0.5, latency: 1}]}
  - !Compute {name: Slow, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, latency: 2}]}
workload:
  rank_sizes: {M: 4, K: 2}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Y[m] = A[m, k]"}
  - {einsum: "Z[m] = Y[m]"}
""")


def with_compute(compute, einsum=0):
    return SPEC.set(f"workload.einsums[{einsum}].compute", compute)


def energy(spec, **options):
    return map_workload(spec, metrics="energy", **options).cost.energy


@pytest.mark.parametrize("fuse", [True, False])
def test_without_a_name_all_enabled_computes_are_tried_and_with_one_no_other(fuse):
    assert energy(SPEC, fuse=fuse) == 8 * 1 + 4 * 1
    assert energy(with_compute("Fast"), fuse=fuse) == 8 * 5 + 4 * 1
    assert energy(with_compute(["Fast", "Slow"]), fuse=fuse) == 8 * 1 + 4 * 1


def test_a_compute_that_is_named_needs_no_enabled():
    assert energy(with_compute("Off", einsum=1)) == 8 * 1 + 4 * 0.5


def test_a_mapping_on_another_compute_has_a_note():
    mapping = map_workload(SPEC, metrics="energy").mapping
    notes = [note.text for note in evaluate(with_compute("Fast"), mapping).notes]
    assert any("Slow is not enabled for this Einsum" in text for text in notes)


def test_equal_einsums_on_different_computes_are_searched_apart():
    twice = SPEC.set("workload.einsums[1]", {"einsum": "Z[m] = B[m, k]", "compute": "Fast"})
    assert energy(twice, fuse=False) == 8 * 1 + 8 * 5


def test_an_unknown_compute_is_told_with_its_place():
    with pytest.raises(SpecError) as caught:
        map_workload(with_compute("Fats"))
    assert "names the compute 'Fats', which the architecture does not have" in str(caught.value)
    assert "Fast" in str(caught.value)
    with pytest.raises(SpecError, match="'Main'"):
        map_workload(with_compute("Main"))


def test_a_workload_with_computes_is_written_and_read_back():
    written = write_workload(with_compute(["Fast", "Off"]).workload)
    assert Spec.from_dict({"arch": SPEC.get("arch"), "workload": written}).workload == (
        with_compute(["Fast", "Off"]).workload
    )


def test_where_nothing_fits_no_other_compute_is_proposed():
    spec = with_compute("Fast").set("arch.nodes[0].size", 8)
    with pytest.raises(NoMappingError) as caught:
        map_workload(spec)
    assert "enabled" not in str(caught.value)
