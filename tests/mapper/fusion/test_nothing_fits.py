"""Cascades whose Einsums may have mappings by themselves, but none together."""

import pytest
from tests.machines import machine, workload

import einmap
from einmap.mapper.compose.nothing_fits.whether import Whether
from einmap.mapper.exhaustive import brute_force
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapper.fusion.refinement.relaxation import Relaxation

ARCH = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, leak_power: 0, area: 0, tensors: {{keep: ~Intermediates, may_keep: ~Intermediates}},
             actions: [{{name: read, energy: 10, throughput: 1}}, {{name: write, energy: 10, throughput: 1}}]}}
  - !Memory {{name: Buffer, size: {size}, leak_power: 0, area: 0, tensors: {{keep: Intermediates, may_keep: All}},
             actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  rank_sizes: {{M: {m}, B: 2}}
  bits_per_value: {{All: 8}}
  einsums: {einsums}
"""
NORMALISED = '["X[b, m] = A[b, m] * C[b, m]", "S[b] = X[b, m]", "Z[b, m] = X[b, m] * S[b]"]'
WAITING = '["X[m] = A[m]", "Y[m] = D[m]", "W[m] = E[m] * Y[m]", "Z[m] = X[m] * W[m]"]'


def spec(size: int, einsums: str = NORMALISED, m: int = 6) -> einmap.Spec:
    return einmap.loads(ARCH.format(size=size, einsums=einsums, m=m))


def refusal(given: einmap.Spec) -> einmap.NoMappingError:
    with pytest.raises(einmap.NoMappingError) as caught:
        einmap.map_workload(given, metrics="energy")
    return caught.value


def test_the_least_size_with_which_a_cascade_fits_is_told():
    # for each b all 6 values of X wait for their sum S: 7 values of 8 bits
    error = refusal(spec(48))
    assert error.remedies[0].settings == (("arch.nodes[1].size", 56),)
    assert '"Buffer".size: 56 bits instead of 48 bits' in str(error)
    # what X and S need whole, in mappings that fuse nothing, is 112 bits
    assert not any("112" in remedy.text for remedy in error.remedies)
    assert einmap.map_workload(spec(56), metrics="energy").optimal


def test_einsums_that_fit_alone_but_not_together_are_told_from_those_that_do_not():
    # X waits while Y and W are in use: 3 values of 8 bits
    error = refusal(spec(16, WAITING))
    assert "each Einsum has mappings, but none of them fit together" in str(error)
    assert error.remedies[0].settings == (("arch.nodes[1].size", 24),)
    assert einmap.map_workload(spec(24, WAITING), metrics="energy").optimal


@pytest.mark.parametrize(
    ("goal", "limit"),
    [("energy", 5), pytest.param("energy_delay_product", 60, marks=[pytest.mark.slow, pytest.mark.fusion])],
)
def test_that_nothing_fits_is_said_within_a_limit_of_time_as_without_one(goal, limit):
    for given in spec(48), spec(16, WAITING), einmap.loads(LEVELS):
        with pytest.raises(einmap.NoMappingError) as caught:
            einmap.map_workload(given, metrics=goal, time_limit_s=limit)
        assert caught.value.remedies and "in time" not in str(caught.value)


def test_what_one_einsum_needs_is_looked_at_before_sizes_of_other_memories(monkeypatch):
    # A needs 8 bits in Register; with these the cascade fits. Other memories are only looked at afterwards
    asked = []
    least = Whether.least
    monkeypatch.setattr(Whether, "least", lambda self, spec, memory: asked.append(memory) or least(self, spec, memory))
    register = """  - !Memory {{name: Register, size: 4, leak_power: 0, area: 0, tensors: {{keep: Inputs, may_keep: Nothing}},
             actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Compute"""
    text = ARCH.replace("  - !Compute", register).format(size=999, einsums='["X[m] = A[m]", "Z[m] = X[m]"]', m=6)
    error = refusal(einmap.loads(text))
    assert error.remedies[0].settings == (("arch.nodes[2].size", 8),)
    assert "Register" not in asked


def test_changes_other_than_sizes_are_told_too():
    assert any("may_keep" in remedy.text for remedy in refusal(spec(32)).remedies)


@pytest.fixture
def bounds(monkeypatch):
    """The number of weights each time that a fused search bounds the whole."""
    found = []
    bound = LazyRefinement.bound

    def counted(self: LazyRefinement) -> Relaxation | None:
        relaxed = bound(self)
        found.append(len(self.cascade.weights))
        return relaxed

    monkeypatch.setattr(LazyRefinement, "bound", counted)
    return found


@pytest.mark.parametrize("goal", ["energy", "energy_delay_product"])
def test_that_nothing_fits_together_is_found_in_few_steps(goal, bounds):
    # each Einsum has a few chains that fit, and however much is spent there are no others
    with pytest.raises(einmap.NoMappingError):
        einmap.map_workload(spec(16, WAITING), metrics=goal, share_inputs=False)
    assert 0 < len(bounds) < 200
    assert max(bounds) < 150


LEVELS = workload(
    "M: 4, N0: 4, N1: 4, N2: 4, N3: 4, N4: 4",
    "T1[m, n1] = T0[m, n0] * W0[n0, n1]",
    "T2[m, n2] = T1[m, n1] * W1[n1, n2]",
    "T3[m, n3] = T2[m, n2] * W2[n2, n3]",
    "T4[m, n4] = T3[m, n3] * W3[n3, n4]",
    bits="T3: 16, Other: 8",
) + machine("""
    Main inf 100/100 @1 {tensors: {keep: ~Intermediates, may_keep: All}} / L2 4096 10/10 @2 {tensors: {keep: All}}
    L1 8 2/2 @4 {tensors: {keep: All}} / MAC 1 @1
""")


@pytest.mark.parametrize("fuse", [True, False])
def test_that_an_einsum_does_not_fit_by_itself_is_found_without_a_search_of_the_cascade(fuse, bounds):
    given = einmap.loads(LEVELS)
    with pytest.raises(einmap.NoMappingError, match="no mapping of Einsum 'T1': T0 8 bits") as caught:
        einmap.map_workload(given, fuse=fuse)
    assert bounds == []
    # T1 needs 24 bits, the last two need 32; what would help T1 alone is not told
    (remedy,) = [one for one in caught.value.remedies if one.settings[0][0].endswith("size")]
    assert remedy.settings == (("arch.nodes[2].size", 32),)
    for one in caught.value.remedies:
        changed = given
        for path, value in one.settings:
            changed = changed.set(path, value)
        assert einmap.map_workload(changed, metrics="energy", fuse=False, max_evaluations=10).cost.energy > 0


@pytest.mark.parametrize("fuse", [True, False])
def test_the_least_size_of_many_einsums_takes_one_look_at_the_whole_workload(fuse, monkeypatch):
    looks = []
    mapping = Whether.mapping
    monkeypatch.setattr(Whether, "mapping", lambda whether, given: looks.append(given) or mapping(whether, given))
    sizes = {"N_TOKENS": 8, "D_MODEL": 8, "HEADS": 2, "D_HEAD": 4, "D_FF": 16}
    given = einmap.load("simple", "gpt3_6.7b", define=sizes).set("arch.nodes.GlobalBuffer.size", 8)
    with pytest.raises(einmap.NoMappingError) as caught:
        einmap.map_workload(given, fuse=fuse)
    # the most that one of the Einsums needs by itself
    assert caught.value.remedies[0].settings == (("arch.nodes[1].size", 24),)
    assert [
        one.get("arch.nodes.GlobalBuffer.size") for one in looks if one.get("arch.nodes.GlobalBuffer.size") != 8
    ] == [24]
    assert caught.value.complete


@pytest.mark.parametrize("fuse", [True, False])
def test_brute_force_does_not_enumerate_where_nothing_fits(fuse, monkeypatch):
    enumerated = []
    monkeypatch.setattr(brute_force.Search, "run", lambda search: enumerated.append(search.space.size))
    with pytest.raises(einmap.NoMappingError, match="no mapping of Einsum 'T1': T0 8 bits"):
        einmap.map_workload(einmap.loads(LEVELS), metrics="energy", fuse=fuse, brute_force=True)
    assert enumerated == []
