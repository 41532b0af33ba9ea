"""Recurrences over a rank: values step by step, counts by hand and on random mappings, what breaks the order of time."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.random_specs.recurrences import architecture, loop, storage, valid_recurrence

import einmap
from einmap import MappingError, Spec, SpecError
from einmap.einsum.numeric import random_inputs, run
from einmap.einsum.rewrites.steps import parse_step
from einmap.errors import NotSupportedError
from einmap.model.fusion import fusion_of
from einmap.report.text.loop_tree import loop_tree_lines

RNN = ["R[t, n] = H[S: t, M: m] * U[m, n]", "H[S: t + 1, M: n] = P[t, n] + R[t, n]"]


def workload(einsums=RNN, **fields):
    return {"rank_sizes": {"T": 5, "M": 3, "N": 3}, "bits_per_value": {"All": 1}, "einsums": einsums, **fields}


def rnn(*nodes, below=(), time=1, **fields):
    """`nodes`, the loop over time, `below` it, and the branches of R and H."""
    branches = [
        [loop("n", 1), loop("m", 1), {"type": "Compute", "einsum": "R", "component": "MAC"}],
        [loop("n", 1), {"type": "Compute", "einsum": "H", "component": "MAC"}],
    ]
    split = {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": nodes} for nodes in branches]}
    tree = [*nodes, loop("t", time), *below, split]
    return Spec.from_dict({"arch": architecture(), "workload": workload(**fields), "mapping": {"nodes": tree}})


def moved(spec):
    """Values by memory, tensor and action, as the model counts them; the simulator counts the same."""
    cost = einmap.evaluate(spec)
    assert differences(spec, cost) == []
    counts = {}
    for row in cost.actions:
        if row.tensor is not None and row.action != "leak":
            key = row.component, row.tensor, row.action
            counts[key] = counts.get(key, 0) + row.count
    usage = next(row.usage for row in cost.memory_usage if row.component == "Buffer")
    return counts, round(usage * 10_000)


def test_a_recurrence_is_evaluated_step_by_step():
    spec = Spec.from_dict({"workload": workload()})
    inputs = random_inputs(spec.workload, 0)
    state = np.zeros((6, 3))
    for t in range(5):
        state[t + 1] = inputs["P"][t] + state[t] @ inputs["U"]
    np.testing.assert_array_equal(run(spec.workload, inputs)["H"], state)


def test_more_steps_than_can_be_evaluated_are_refused():
    spec = Spec.from_dict({"workload": {**workload(), "rank_sizes": {"T": 10**7, "M": 1, "N": 1}}})
    with pytest.raises(SpecError, match="10,000,000 steps"):
        run(spec.workload, {})


def test_samples_may_stand_outside_of_time_and_beside_each_other():
    einsums = ["R[t, b, n] = H[S: t, b, M: m] * U[m, n]", "H[S: t + 1, b, M: n] = P[t, b, n] + R[t, b, n]"]
    sizes = {"T": 4, "M": 2, "N": 2, "B": 4}
    row = {"type": "Spatial", "component": "Row", "name": "X", "rank_variable": "b", "tile_shape": 1}
    nodes = [storage("Main", ["U", "P", "R"]), loop("b", 2), row, loop("t", 1), storage("Register", ["H"])]
    spec = rnn(*nodes[:3], below=nodes[4:], einsums=einsums, rank_sizes=sizes)
    cost = einmap.evaluate(spec)
    assert differences(spec, cost) == []
    assert not any(row.component == "Main" and row.tensor == "H" for row in cost.actions)


def test_the_weight_is_fetched_once_where_it_is_kept_across_steps():
    main = storage("Main", ["U", "P", "H", "R"])
    kept, room = moved(rnn(main, storage("Buffer", ["U"])))
    again, less_room = moved(rnn(main, below=[storage("Buffer", ["U"])]))
    assert (kept["Main", "U", "read"], again["Main", "U", "read"]) == (9, 5 * 9)
    assert (room, less_room) == (9, 9)


def test_a_state_below_the_loop_is_handed_from_step_to_step():
    counts, room = moved(rnn(storage("Main", ["U", "P"]), below=[storage("Buffer", ["H", "R"])]))
    assert not any(key[:2] == ("Main", "H") for key in counts)
    assert counts["Buffer", "H", "read"] == 5 * 9
    assert counts["Buffer", "H", "write"] == 5 * 3
    assert room == 2 * 3 + 3  # the steps before and now of H, and R


@pytest.mark.parametrize(
    ("above", "inside", "state"),
    [
        pytest.param([storage("Buffer", ["H"])], [], 2 * 4 * 3, id="all samples at once"),
        pytest.param([loop("b", 2), storage("Buffer", ["H"])], [], 2 * 2 * 3, id="some samples after others"),
        pytest.param([storage("Buffer", ["H"])], [loop("b", 2)], 2 * 4 * 3, id="some after others, for all at once"),
    ],
)
def test_of_a_state_whose_last_step_alone_is_read_no_more_than_two_steps_are_kept(above, inside, state):
    einsums = ["R[t, b, n] = H[S: t, b, M: m] * U[m, n]", "H[S: t + 1, b, M: n] = P[t, b, n] + R[t, b, n]"]
    einsums += ["Y[b, n] = H[S: 5, b, M: n] * V[n]"]
    ends = [{"type": "Compute", "einsum": name, "component": "MAC"} for name in "RHY"]
    steps = [[loop("b", 1), loop("n", 1), *([loop("m", 1)] * (e is ends[0])), e] for e in ends]
    *steps, behind = [{"type": "Nested", "nodes": nodes} for nodes in steps]
    below = [*inside, loop("t", 1), {"type": "Sequential", "nodes": steps}]
    main = storage("Main", ["U", "P", "R", "Y", "V"])
    split = {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": below}, behind]}
    fields = workload(einsums, rank_sizes={"T": 5, "M": 3, "N": 3, "B": 4})
    spec = {"arch": architecture(), "workload": fields, "mapping": {"nodes": [main, *above, split]}}
    counts, room = moved(Spec.from_dict(spec))
    assert room == state
    assert not any(key[:2] == ("Main", "H") for key in counts)
    (kept,) = (
        tensor
        for tensor in fusion_of(Spec.from_dict(spec).mapping, Spec.from_dict(spec)).tensors
        if tensor.tensor == "H"
    )
    assert kept.bits == state


def test_a_state_that_is_read_three_steps_later_has_four_steps_in_its_buffer():
    einsums = [RNN[0], RNN[1].replace("t + 1", "t + 3")]
    spec = rnn(storage("Main", ["U", "P", "R"]), below=[storage("Buffer", ["H"])], einsums=einsums)
    assert moved(spec)[1] == 4 * 3
    (kept,) = (tensor for tensor in fusion_of(spec.mapping, spec).tensors if tensor.tensor == "H")
    assert (kept.shape, kept.bits) == ((4, 3), 12)
    assert any("H 4x3" in line for line in loop_tree_lines(spec.mapping, spec))


def disagreements(seeds, networks=False, ending=False):
    drawn = ((seed, valid_recurrence(random.Random(seed), networks, ending)) for seed in seeds)
    return [(seed, found[0]) for seed, case in drawn if (found := differences(*case))]


@few_and_many("seeds", (range(10),), (range(10, 25),), part="simulator")
def test_random_mappings_of_recurrences_cost_what_they_do(seeds):
    assert disagreements(seeds) == []


@few_and_many("seeds", (range(10),), (range(10, 25),), part="simulator")
def test_random_mappings_of_recurrences_whose_last_step_is_read_cost_what_they_do(seeds):
    assert disagreements(seeds, ending=True) == []


@pytest.mark.slow
@pytest.mark.simulator
def test_400_more_of_them_cost_what_they_do():
    assert disagreements(range(4000, 4400), ending=True) == []


@few_and_many("seeds", (range(6),), (range(6, 15),), part="simulator")
def test_what_crosses_networks_in_random_recurrences_is_counted(seeds):
    assert disagreements(seeds, networks=True) == []


@pytest.mark.slow
@pytest.mark.simulator
def test_what_crosses_networks_in_150_more_recurrences_is_counted():
    assert disagreements(range(1000, 1150), networks=True) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(4))
def test_2000_random_mappings_of_recurrences_cost_what_they_do(part):
    assert disagreements(range(1_000 + 500 * part, 1_000 + 500 * part + 500)) == []


@pytest.mark.parametrize(
    ("einsums", "text"),
    [
        pytest.param([RNN[0], RNN[1].replace("S: t + 1", "S: t")], "cycle: R -> H -> R", id="no order"),
        pytest.param([RNN[0].replace("S: t", "S: t + 2"), RNN[1]], "1 further along rank S", id="the next step"),
        pytest.param([RNN[0], "Q[n] = R[t, n] * V[n]", RNN[1] + " * Q[n]"], "no rank of 'Q' has the index", id="a sum"),
        pytest.param(
            [RNN[0], "Q[t, n] = R[T: t + 1, n]", RNN[1] + " * Q[t, n]"], "reads 'R' at T: t \\+ 1", id="ahead"
        ),
        pytest.param(
            ["R[t, n] = H[S: t, n] * G[T: t, S: n]", "G[T: t, S: n + 1] = K[n, t]", "H[S: t + 1, n] = R[t, n]"],
            "reads 'G' before",
            id="no cycle",
        ),
        pytest.param(["H[S: t + 1, n] = H[S: t, n] + P[t, n]"], "both input and output", id="one Einsum"),
        pytest.param([RNN[0], {"einsum": RNN[1], "n_instances": 2}], "n_instances of 1 in 'R' but 2", id="instances"),
    ],
)
def test_what_is_not_a_recurrence_is_told(einsums, text):
    with pytest.raises(SpecError, match=text) as error:
        Spec.from_dict({"workload": workload(einsums)}).workload  # noqa: B018
    assert "workload.einsums" in str(error.value.at)


MAIN = storage("Main", ["U", "P", "H", "R"])
PART = storage("Main", ["U", "P", "R"])


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            lambda: rnn(MAIN, time=2, below=[loop("t", 1)]), "runs one step at a time", id="two steps at a time"
        ),
        pytest.param(
            lambda: rnn(MAIN, {**loop("t", 2), "type": "Spatial", "component": "Row", "name": "X"}),
            "do not run side by side",
            id="lanes",
        ),
        pytest.param(
            lambda: rnn(MAIN, loop("n", 1)), "stands outside of the loop over 't'", id="features outside of time"
        ),
        pytest.param(
            lambda: rnn(PART, below=[loop("n", 1), storage("Buffer", ["H"])]), "stands between the loop", id="between"
        ),
        pytest.param(lambda: rnn(MAIN, below=[storage("Buffer", ["H"])]), "is held once more", id="a second copy"),
        pytest.param(lambda: rnn(MAIN, storage("Buffer", ["H"])), "is held once more", id="a second copy outside"),
    ],
)
def test_what_breaks_the_order_of_time_is_told_with_its_place(spec, text):
    spec = spec()
    for use in (einmap.evaluate, einmap.execute, einmap.emit):
        with pytest.raises(MappingError, match=text) as error:
            use(spec)
        assert "mapping.nodes" in str(error.value)


def test_each_einsum_with_a_loop_over_time_of_its_own_is_told():
    spec = rnn(MAIN)
    (*above, split) = spec.to_dict()["mapping"]["nodes"]
    for branch in split["nodes"]:
        branch["nodes"].insert(0, above[-1])
    with pytest.raises(MappingError, match="each step is that of all of them"):
        einmap.evaluate(spec.set("mapping", {"nodes": [*above[:-1], split]}))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        pytest.param(lambda s: einmap.evaluate(s, semantics="accelforge"), "the preset 'accelforge'", id="preset"),
        pytest.param(lambda s: einmap.evaluate(s.set("model.overlap_einsums", True)), "overlap_einsums", id="overlap"),
        pytest.param(lambda s: einmap.distribute_workload(s.workload, {"x": 1}), "distribution", id="distribute"),
        pytest.param(
            lambda s: einmap.partition(s.workload, [parse_step("split", "N=2")]), "partitioning", id="partition"
        ),
    ],
)
def test_what_does_not_know_recurrences_says_so(use, text):
    with pytest.raises(NotSupportedError, match=f"{text} does not know recurrences yet: the Einsums R, H run once"):
        use(rnn(MAIN))
