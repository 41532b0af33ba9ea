"""A component whose `bits_per_value` of a tensor is 0 holds it and moves it at no cost: model, simulator and mapper."""

from tests.model.worked import ARCH_A

from einmap import evaluate, execute, loads, map_workload

SPEC = f"""{ARCH_A.replace("size: 4096,", "size: 64, bits_per_value: {A: 0}, tensors: {keep: All},")}
workload:
  rank_sizes: {{M: 4, N: 4, K: 4}}
  bits_per_value: {{All: 8}}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


def test_zero_bits_take_no_room_and_no_actions():
    spec = loads(SPEC)
    found, brute = (map_workload(spec, metrics="energy", brute_force=by_hand) for by_hand in (False, True))
    assert found.optimal
    assert found.cost.energy == brute.cost.energy
    mapped = spec.with_mapping(found.mapping)
    cost, run = evaluate(mapped), execute(mapped)
    counts = cost.count_by("component", "tensor", "action")
    assert {counts.get(("GLB", "A", action), 0) for action in ("read", "write")} == {0}
    assert counts["DRAM", "A", "read"] == 8 * 16
    assert {k: n for k, n in counts.items() if n} == {
        (r.component, r.tensor, r.action): r.count for r in run.actions if r.count
    }
