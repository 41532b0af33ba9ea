"""What repeats in a cascade is made once: stages of the graph, traffic of Einsums, what expressions give."""

import math

import numpy as np
import pytest
from tests.mapper.fusion.prepared import prepared

import einmap
from einmap.mapper.compose.shared_inputs import sharing
from einmap.mapper.fusion.paths.lower_envelope import corners
from einmap.mapper.fusion.paths.options import SlotAssignment
from einmap.mapper.fusion.paths.state_graph import StateGraph
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapping import nodes as tree
from einmap.model import cost_rows

ARCH = {
    "nodes": [
        {
            "type": "Memory",
            "name": "DRAM",
            "size": "inf",
            "leak_power": 0,
            "area": 0,
            "tensors": {"keep": "~Intermediates", "may_keep": "All"},
            "actions": [
                {"name": "read", "energy": 64, "latency": 0.5},
                {"name": "write", "energy": 64, "latency": 0.5},
            ],
        },
        {
            "type": "Memory",
            "name": "GLB",
            "size": 8 * 1000,
            "leak_power": 0,
            "area": 0,
            "tensors": {"keep": "~DRAM", "may_keep": "All"},
            "actions": [
                {"name": "read", "energy": 1, "latency": 0},
                {"name": "write", "energy": 1, "latency": 0},
            ],
        },
        {
            "type": "Compute",
            "name": "MAC",
            "leak_power": 0,
            "area": 0,
            "actions": [{"name": "compute", "energy": 1, "latency": 1}],
        },
    ]
}


def layers(n: int) -> einmap.Spec:
    """Gated layers that are equal but for names: two products with the layer's input, multiplied."""
    einsums = []
    for i in range(n):
        einsums += [
            f"U{i}[m, f] = X{i}[m, d] * WU{i}[d, f]",
            f"V{i}[m, f] = X{i}[m, d] * WV{i}[d, f]",
            f"X{i + 1}[M: m, D: f] = U{i}[m, f] * V{i}[m, f]",
        ]
    sizes = {"M": 2, "D": 4, "F": 4}
    return einmap.Spec.from_dict(
        arch=ARCH, workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    )


def graph_of(n: int, metrics: str = "energy_delay_product") -> StateGraph:
    """The graph in which the best of some layers was found, one fused loop at most."""
    cascade = prepared(layers(n), metrics, most_fused=1)
    answer = LazyRefinement(cascade, lambda _step, _begin: None, lambda _answer: math.inf).within(math.inf)
    assert answer is not None
    return answer.graph


def test_stages_of_eight_layers_are_those_of_four():
    few, many = graph_of(4), graph_of(8)
    distinct = [set(graph.stages) for graph in (few, many)]
    assert len(few.stages) == 12
    assert len(many.stages) == 24
    assert len(distinct[0]) == len(distinct[1]) < 12
    assert len({stage.step for stage in many.stages}) < 12


def test_every_layer_in_the_middle_costs_the_same():
    costs = {
        n: einmap.map_workload(layers(n), metrics="energy", max_fused_loops=1, share_inputs=False).cost.energy
        for n in (2, 3, 4)
    }
    assert costs[4] - costs[3] == pytest.approx(costs[3] - costs[2])


def test_slots_repeat_and_are_unique_at_any_time():
    spec = layers(6)
    slots = SlotAssignment(spec.workload)
    assert max(slots.of.values()) < 5
    for k, einsum in enumerate(spec.workload.einsums):
        in_use = [t for t in slots.of if slots.first[t] <= k <= slots.last[t]]
        assert len({slots.of[t] for t in in_use}) == len(in_use)
        assert {slots.of[t] for t in in_use if slots.last[t] > k} == slots.behind[k]
        assert einsum.tensors & spec.workload.shared <= set(in_use)


def test_tensors_of_layers_with_three_products_have_three_slots():
    sizes = {"M": 8, "A": 4, "B": 6, "C": 9}
    einsums = []
    for i in range(6):
        einsums += [
            f"A{i}[m, a] = {f'C{i - 1}' if i else 'X'}[M: m, C: c] * WA{i}[c, a]",
            f"B{i}[m, b] = A{i}[m, a] * WB{i}[a, b]",
            f"C{i}[m, c] = B{i}[m, b] * WC{i}[b, c]",
        ]
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    slots = SlotAssignment(einmap.Spec.from_dict(arch=ARCH, workload=workload).workload)
    used = [{slots.of[f"{kind}{i}"] for i in range(5)} for kind in "ABC"]
    assert sorted(used, key=min) == [{0}, {1}, {2}]


def test_traffic_of_eight_layers_is_counted_as_often_as_that_of_four(monkeypatch):
    counted = []
    check = cost_rows.check_traffic
    monkeypatch.setattr(cost_rows, "check_traffic", lambda traffic: counted.append(traffic) or check(traffic))
    numbers = {}
    for n in (4, 8):
        mapping = einmap.map_workload(layers(n), metrics="energy", max_fused_loops=1, fuse=False).mapping
        counted.clear()
        cost = einmap.evaluate(layers(n), mapping)
        numbers[n] = len(counted)
        assert len(cost.latency_by_einsum) == 3 * n
    assert numbers[8] == numbers[4] < 12


def test_equal_einsums_have_equal_numbers_with_their_own_names():
    spec = layers(3)
    cost = einmap.evaluate(spec, einmap.map_workload(spec, fuse=False).mapping)
    for i in range(3):
        own = {(row.component, row.tensor, row.action): row.count for row in cost.actions if row.einsum == f"U{i}"}
        assert {tensor for _, tensor, _ in own if tensor} == {f"X{i}", f"WU{i}", f"U{i}"}
        first = {
            (row.component, row.tensor and row.tensor.replace("0", str(i)), row.action): row.count
            for row in cost.actions
            if row.einsum == "U0"
        }
        assert own == first


def test_what_copies_of_inputs_leave_alone_is_bound_once():
    spec = layers(3)
    shared = sharing(spec)
    assert shared is not None
    assert shared.copies == {"X0": "X0_shared"}
    again = {name for name in spec.bound if shared.spec.bound[name].arch is not spec.bound[name].arch}
    assert again == {"U0", "V0"}


def test_a_mapping_changes_nothing_that_is_bound():
    spec = layers(2)
    mapping = einmap.map_workload(spec, fuse=False).mapping
    bound = spec.bound
    with_mapping = spec.with_mapping(mapping)
    assert with_mapping.bound is bound
    assert with_mapping.mapping == mapping
    with pytest.raises(einmap.MappingError, match="U7"):
        mistaken = tree.Temporal(tree.PerEinsum("m"), tree.PerEinsum(None, (("U7", 1),)))
        assert spec.with_mapping(einmap.Mapping((mistaken, *mapping.nodes))).mapping


def test_corners_bound_the_products_of_all_points():
    rng = np.random.default_rng(0)
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.25], [1.0, 1.0], [1.0, 4.0]])
    points = rng.uniform(1, 10, (200, 30, 2))
    least = (points @ weights.T).min(axis=1)
    for own, found, row in zip(points, corners(weights, least), least, strict=True):
        # what lies above all lines is no better than some corner, whatever is added
        assert (own.prod(axis=1).min() + 1e-9) >= found.prod(axis=1).min()
        assert ((own + 3.0).prod(axis=1).min() + 1e-9) >= (found + 3.0).prod(axis=1).min()
        assert (np.diff(found[:, 0]) < 0).all()
        assert (np.diff(found[:, 1]) > 0).all()
        assert math.isclose(found[0, 1], row[1])
    assert len(corners(weights[:1, :1], np.array([[2.0], [3.0]]))) == 2
