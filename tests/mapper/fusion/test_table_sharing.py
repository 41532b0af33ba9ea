"""Einsums that are alike but for what else uses their tensors have their tables in common."""

import pytest
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_repeated_structure import ARCH, layers

import einmap
from einmap.mapper.fusion import problem
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.problem import CascadeProblem


def lenders(cascade: CascadeProblem) -> dict[str, str]:
    """Which Einsum borrows from which."""
    names = {member.chains: member.einsum.name for member in cascade.distinct}
    own = {member.einsum.name: member.chains for member in cascade.distinct}
    return {
        n: names[c.table_owner] for n, c in own.items() if isinstance(c, EinsumFronts) and c.table_owner is not None
    }


def plans(chains: EinsumFronts) -> int:
    return sum(len(path.plans) for path in chains.paths)


def test_the_first_and_the_last_einsums_of_a_network_borrow_from_those_between():
    cascade = prepared(layers(2))
    assert lenders(cascade) == {"U0": "U1", "X2": "X1"}
    of = {member.einsum.name: member.chains for member in cascade.members}
    # the input of the network has to stay outside, that of a layer may be inside
    assert 0 < plans(of["U0"]) < plans(of["U1"])
    assert of["U0"].groups is of["U1"].groups
    # the output of the network is nobody's input
    assert of["X1"].request.shared == {"U0", "V0", "X1"}
    assert of["X2"].request.shared == {"U0", "V0"}


@pytest.mark.parametrize(("size", "found"), [(4, {"A": "B", "C": "B"}), (5, {"A": "B"})])
def test_einsums_of_other_sizes_borrow_nothing(size, found):
    einsums = ["A[m, n] = X[m, k] * W[k, n]", "B[m, p] = A[m, n] * V[n, p]", "C[m, q] = B[m, p] * U[p, q]"]
    sizes = {"M": 4, "K": 4, "N": 4, "P": 4, "Q": size}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    assert lenders(prepared(einmap.Spec.from_dict(arch=ARCH, workload=workload))) == found


def test_those_who_borrow_take_no_room_from_others():
    def rooms(n: int) -> set[float]:
        chains = [member.chains for member in prepared(layers(n)).distinct]
        return {own.groups.tables.room for own in chains if isinstance(own, EinsumFronts)}

    one, two = rooms(1), rooms(3)
    assert one == two
    assert len(one) == 1


@pytest.mark.parametrize("metrics", ["energy", "energy_delay_product", ["energy", "latency"]])
@pytest.mark.parametrize("max_fused_loops", [1, 2])
def test_the_best_is_the_same_as_with_tables_of_their_own(monkeypatch, metrics, max_fused_loops):
    def best() -> list[tuple[float, float]]:
        result = einmap.map_workload(layers(2), metrics=metrics, max_fused_loops=max_fused_loops)
        assert result.optimal
        return [(own.cost.energy, own.cost.latency) for own in result.front]

    borrowed = best()
    monkeypatch.setattr(problem, "table_owners", lambda _planned: {})
    alone = best()
    assert len(borrowed) == len(alone)
    assert all(one == pytest.approx(other) for one, other in zip(borrowed, alone, strict=True))


def test_borrowed_dataplacements_are_mapped_with_names_of_their_own():
    spec = layers(2)
    result = einmap.map_workload(spec, max_fused_loops=1)
    tensors = {t for placed in result.mapping.placed for t in getattr(placed.node, "tensors", ())}
    assert tensors == set(result.spec.workload.users)
    assert einmap.evaluate(result.spec, result.mapping).energy == result.cost.energy
