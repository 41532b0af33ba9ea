"""Graph inputs with several users: one fill serves all of them where that is better, and nothing changes elsewhere."""

import random

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.mapper.specs import compute, memory, spec

import einmap
from einmap.errors import MappingError, SpecError
from einmap.frontends.yaml.spec import dump, dump_mapping, loads
from einmap.mapper.compose.ways import with_shared_inputs
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.spec.shared_inputs import shareable

MAIN = memory("Main", "inf", 10, {"keep": "~Intermediates", "may_keep": "All"})
TWO = ["A[m, n] = X[m, k] * V[k, n]", "B[m, n] = X[m, k] * W[k, n]"]
SIZES = {"M": 4, "K": 4, "N": 4}
GATED = [
    "A[m, n] = X[m, k] * V[k, n]", "B[m, n] = X[m, k] * W[k, n]", "H[m, n] = A[m, n] * B[m, n]",
    "D[m, p] = H[m, n] * U[n, p]",
]  # fmt: skip


def two(size=1000, main=MAIN, **workload):
    return spec([main, memory("Buf", size, 1), compute()], TWO, SIZES, **workload)


def fills(result, tensor):
    rows = result.cost.to_dict()["actions"]
    return sum(r["count"] for r in rows if (r["component"], r["tensor"], r["action"]) == ("Main", tensor, "read"))


def test_one_fill_serves_two_users():
    result = einmap.map_workload(two(), metrics="energy")
    assert result.optimal
    assert result.shared_inputs == ("X",)
    assert result.front[0].copies == {"X": "X_shared"}
    assert fills(result, "X") == 16 * 8
    apart = einmap.map_workload(two(), metrics="energy", share_inputs=False)
    assert fills(apart, "X") == 2 * 16 * 8
    # a fill is 16 values of 8 bits, read at 10 J and written at 1.5 J
    assert apart.cost.energy - result.cost.energy == pytest.approx(16 * 8 * 11.5, rel=0.02)


def test_a_copy_that_fits_nowhere_is_left_out():
    # the copy of X would have to be in the buffer, as a whole where no loop is fused
    main = memory("Main", "inf", 10, {"keep": "~Intermediates", "may_keep": "~Intermediates"})
    found = [
        einmap.map_workload(two(size, main), metrics=metrics, max_fused_loops=0, share_inputs=share)
        for size in (8, 100)
        for metrics in ("energy", "energy_delay_product")
        for share in (True, False)
    ]
    assert all(result.optimal and result.shared_inputs == () for result in found)
    for shared, apart in zip(found[::2], found[1::2], strict=True):
        assert (shared.cost.energy, shared.cost.latency) == (apart.cost.energy, apart.cost.latency)


def test_the_result_belongs_to_its_own_specification():
    result = einmap.map_workload(two(), metrics="energy")
    assert [e.name for e in result.spec.workload.einsums] == ["X_shared", "A", "B"]
    assert result.spec.workload.by_name["X_shared"].is_copy
    assert einmap.evaluate(result.spec, result.mapping).energy == result.cost.energy
    assert differences(result.spec.with_mapping(result.mapping)) == []


def test_a_specification_gets_the_copies_of_a_mapping_that_is_put_into_it():
    result = einmap.map_workload(two(), metrics="energy")
    assert einmap.evaluate(two(), result.mapping).energy == result.cost.energy
    given = two().with_mapping(result.mapping)
    assert given.to_dict() == result.spec.with_mapping(result.mapping).to_dict()
    assert einmap.explain(given).cost.energy == result.cost.energy
    assert differences(given) == []
    assert einmap.emit(given) == einmap.emit(result.spec.with_mapping(result.mapping))


def test_a_mapping_of_an_einsum_that_is_not_such_a_copy_is_refused():
    result = einmap.map_workload(two(), metrics="energy")
    other = spec([MAIN, memory("Buf", 1000, 1), compute()], TWO[:1], SIZES)
    with pytest.raises(MappingError, match="no Einsum 'X_shared'"):
        einmap.evaluate(other, result.mapping)


def test_the_mapping_file_brings_its_copies_along():
    result = einmap.map_workload(two(), metrics="energy")
    text = dump_mapping(result.mapping, result.front[0].copies)
    loaded = loads(dump(two()) + text)
    assert loaded.to_dict() == result.spec.with_mapping(result.mapping).to_dict()
    assert einmap.evaluate(loaded).energy == result.cost.energy
    assert loads(dump(loaded)) == loaded


def test_copies_that_gain_nothing_are_left_out():
    tiny = two(size=3 * 8)  # room for single values: nothing can be kept for a second user
    result = einmap.map_workload(tiny, metrics="energy")
    assert result.shared_inputs == ()
    assert result.spec is tiny
    assert result.cost.energy == einmap.map_workload(tiny, metrics="energy", share_inputs=False).cost.energy
    assert "X_shared" not in result.stats.by_einsum


def test_the_option_is_one_of_the_specification_too():
    assert einmap.map_workload(two().set("mapper", {"share_inputs": False}), metrics="energy").shared_inputs == ()


def test_a_copy_of_the_user_is_left_as_it_is():
    einsums = [
        {"einsum": "I[m, k] = X[m, k]", "is_copy_operation": True},
        "A[m, n] = I[m, k] * V[k, n]",
        "B[m, n] = I[m, k] * W[k, n]",
    ]
    given = spec([MAIN, memory("Buf", 1000, 1), compute()], einsums, SIZES)
    assert shareable(given.workload) == {}
    assert einmap.map_workload(given, metrics="energy").spec is given


@pytest.mark.parametrize(
    ("einsums", "more"),
    [
        (["A[m] = X[m] * V[m]", "B[p] = C[p] * X[M: 2*p]"], {}),  # strided
        (["A[p] = X[M: p + r] * V[r]", "B[p] = A[p] * X[M: p + r] * W[r]"], {}),  # windows
        (["A[m] = X[m] * V[m]", "B[m] = A[m] * X[m]"], {"persistent_tensors": "X | V"}),
        ([{"einsum": "A[m] = X[m] * V[m]", "n_instances": 2}, "B[m] = A[m] * X[m]"], {}),
    ],
)
def test_inputs_that_are_not_read_alike_are_left_alone(einsums, more):
    given = spec([MAIN, compute()], einsums, {"M": 8, "P": 4, "R": 2}, **more)
    assert "X" not in shareable(given.workload)


def test_expressions_that_name_the_input_go_on_to_mean_what_its_users_read():
    einsums = [
        {"einsum": TWO[0], "renames": {"activation": "X"}},
        {
            "name": "B",
            "tensor_accesses": [
                {"name": "X", "projection": ["m", "k"]},
                {"name": "W", "projection": ["k", "n"]},
                {"name": "B", "projection": ["m", "n"], "output": True},
            ],
            "operation": "X * W",
            "renames": [{"name": "activation", "source": "X", "expected_count": 1}],
        },
    ]
    nodes = [MAIN, memory("Buf", 1000, 1, {"keep": "X", "may_keep": "All"}, bits_per_value_scale={"X": 2}), compute()]
    given = spec(nodes, [einsums], SIZES, bits_per_value={"X": 16, "Other": 8})
    shared = given.with_shared_inputs({"X": "Y"})
    assert [e.name for e in shared.workload.einsums] == ["Y", "A", "B"]
    assert [e.inputs for e in shared.workload.einsums] == [{"X"}, {"Y", "V"}, {"Y", "W"}]
    for name in ("A", "B"):
        symbols = shared.bound_workload.symbols[name]
        assert symbols["X"].members == symbols["activation"].members == {"Y"}
        assert shared.workload.by_name[name].by_tensor["Y"].bits_per_value == 16
        assert shared.arch(name).find("Buf").bits["Y"] == given.arch(name).find("Buf").bits["X"]
    assert str(shared.workload.by_name["B"].operation) == str(given.workload.by_name["B"].operation).replace("X", "Y")


def test_what_renames_expect_of_other_einsums_does_not_hold_for_copies():
    raw = two().to_dict()
    raw["renames"] = {
        "einsums": [
            {"name": "default", "tensor_accesses": [{"name": "two", "source": "Inputs", "expected_count": 2}]},
        ]
    }
    result = einmap.map_workload(einmap.Spec.from_dict(raw), metrics="energy")
    assert result.shared_inputs == ("X",)


RENAMED = [
    {"einsum": text, "renames": {"input": "X", "weight": weight, "output": result}}
    for text, weight, result in zip(TWO, "VW", "AB", strict=True)
]


def with_renames(where):
    """Two users of X below a buffer that names tensors by the renames of each Einsum."""
    buffer = memory("Buf", 1000, 1, {"keep": "input | weight | output"})
    given = spec([MAIN, buffer, compute()], RENAMED if where == "einsum" else TWO, SIZES).to_dict()
    if where == "top":
        listed = [{"name": result, "tensor_accesses": RENAMED[i]["renames"]} for i, result in enumerate("AB")]
        given["renames"] = {"einsums": listed}
    return einmap.Spec.from_dict(given)


@pytest.mark.parametrize("where", ["einsum", "top"])
def test_a_copy_is_spoken_of_by_the_renames_of_its_first_user(where):
    result = einmap.map_workload(with_renames(where), metrics="energy")
    assert result.optimal
    assert result.shared_inputs == ("X",)


@pytest.mark.parametrize("options", [{}, {"max_evaluations": 1}])
def test_where_no_copy_can_be_spoken_of_nothing_is_called_proven(monkeypatch, options):
    monkeypatch.setattr("einmap.mapper.compose.shared_inputs._is_sound", lambda spec: False)
    result = einmap.map_workload(two(), metrics="energy", **options)
    assert not result.optimal
    assert result.shared_inputs == ()
    assert options or "mappings that fill X once for all Einsums that read it" in result.reason


def test_where_the_architecture_holds_intermediates_both_ways_are_searched():
    # an intermediate must be kept in a small memory, which costs more than it gains
    buffers = memory("Buf", 1000, 20, {"keep": "Intermediates", "may_keep": "Nothing"})
    given = spec([memory("Main", "inf", 10, {"keep": "~Intermediates"}), buffers, compute()], TWO, SIZES)
    result = einmap.map_workload(given, metrics="energy")
    assert result.shared_inputs == ()
    assert result.cost.energy == einmap.map_workload(given, metrics="energy", share_inputs=False).cost.energy


def test_a_name_that_is_no_shared_input_is_refused_with_its_place():
    text = "mapping:\n  shared_inputs: {V: V_shared}\n  nodes: []\n"
    with pytest.raises(SpecError, match="'V' is not a graph input that several Einsums read") as error:
        loads(dump(two()) + text)
    assert error.value.at.path == "mapping.shared_inputs.V"
    with pytest.raises(SpecError, match="the name 'W' of the copy of 'X' is taken"):
        loads(dump(two()) + text.replace("V: V_shared", "X: W"))
    with pytest.raises(SpecError, match="expected names of copies by input"):
        loads(dump(two()) + text.replace("{V: V_shared}", "[X]"))


CASCADES = [
    TWO,
    GATED,
    ["A[m, n] = Y[m, k] * V[k, n]", "B[m, n] = A[m, n] * X[m, n]", "D[m, n] = B[m, n] * X[m, n]"],
    ["A[m, n] = X[m, n] * Y[m, n]", "B[m, n] = A[m, n] * X[m, n]", "D[m, n] = B[m, n] * Y[m, n]"],
]


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@few_and_many("seeds", (range(1),), (range(1, 20),), part="fusion")
def test_sharing_is_never_worse_and_its_mappings_run(seeds, semantics):
    for seed in seeds:
        shared_or_not(seed, semantics)


def shared_or_not(seed, semantics):
    rng = random.Random(seed)
    sizes = {rank: rng.choice([2, 3, 4]) for rank in "MNKP"}
    keep = rng.choice(["~Main", "All", "Inputs", "Nothing", "Intermediates"])
    nodes = [
        memory("Main", "inf", 10, {"keep": "~Intermediates", "may_keep": "All"}),
        memory("Buf", rng.choice([100, 200, 400, 800]), rng.choice([1, 5]), {"keep": keep, "may_keep": "All"}),
        compute(),
    ]
    given = spec(nodes, rng.choice(CASCADES), sizes)
    metric = rng.choice(["energy", "latency", "energy_delay_product", "energy|latency"])
    options = {"metrics": metric, "semantics": semantics}
    try:
        apart = einmap.map_workload(given, share_inputs=False, **options)
    except einmap.NoMappingError:
        return
    result = einmap.map_workload(given, **options)
    assert result.optimal
    for other in apart.front:
        values = other.cost.energy, other.cost.latency, other.cost.edp
        columns = {"energy": [0], "latency": [1], "energy_delay_product": [2], "energy|latency": [0, 1]}[metric]
        limits = [values[c] * (1 + 1e-9) for c in columns]
        assert any(
            all(
                (f.cost.energy, f.cost.latency, f.cost.edp)[c] <= limit
                for c, limit in zip(columns, limits, strict=True)
            )
            for f in result.front
        )
    for found in result.front:
        cost = einmap.evaluate(found.spec, found.mapping, semantics, strict=True)
        assert cost.energy == found.cost.energy
        assert differences(found.spec.with_mapping(found.mapping)) == []


def test_users_hold_an_input_in_one_node_above_their_loops_where_each_pays_for_its_own():
    # Buf has room for X and D, and a slice of A, B and H: X stays there while all slices are made
    given = spec([MAIN, memory("Buf", 512, 1, {"keep": "All"}), compute()], GATED, {"M": 4, "K": 4, "N": 8, "P": 4})
    result = einmap.map_workload(given, metrics="energy", semantics="accelforge", share_inputs=False, max_fused_loops=1)
    assert result.optimal
    assert fills(result, "X") == 2 * 16 * 8  # once for each user
    apart = einmap.map_workload(given, metrics="energy", semantics="exact", share_inputs=False, max_fused_loops=1)
    assert fills(apart, "X") == 2 * 2 * 16 * 8  # again for each of two slices


LINES = {"line": 32, "order": {"A": ["M", "K"]}}


@pytest.mark.parametrize("layout", [LINES, {**LINES, "order": {"A": "best"}}, {**LINES, "order": {"B": ["K", "N"]}}])
@pytest.mark.parametrize("at", [0, 1])
def test_a_layout_of_an_input_that_several_einsums_read_is_that_of_the_input(at, layout):
    nodes = [memory("L0", "inf", 10, {"keep": "~Intermediates", "may_keep": "All"}), memory("L1", 400, 1), compute()]
    nodes[at]["layout"] = layout
    einsums = ["X[m,n] = A[m,k] * B[k,n]", "Y[m,p] = A[m,k] * D[k,p]"]
    read_twice = spec(nodes, einsums, {"M": 4, "K": 4, "N": 2, "P": 2})
    result = einmap.map_workload(read_twice, metrics="energy")
    alone = einmap.map_workload(read_twice, metrics="energy", share_inputs=False)
    assert alone.optimal
    assert result.lower_bound <= result.cost.energy <= alone.cost.energy
    assert "A_shared" not in result.reason
    if "A" in layout["order"]:
        assert f"a copy that moves lines of 'A' in 'L{at}' is not supported yet" in result.reason
    else:
        assert result.optimal


def test_copies_with_more_loops_than_are_looked_at_stand_aside():
    sharing = with_shared_inputs(Problem(two(), read_options(two(), metrics="energy"))).ways[0]
    cascade = sharing.search(read_options(two(), metrics="energy"))
    cascade.begin(einmap.Progress())
    (copy,) = [member.chains for member in cascade.members if member.einsum.is_copy]
    all_of_them = set(copy.signatures)
    back = copy.put_aside()
    copy.begin_again(1)
    assert set(copy.signatures) == {signature for signature in all_of_them if len(signature.loops) <= 1}
    assert 0 < len(copy.signatures) < len(all_of_them)
    copy.begin_again(2, 4)
    assert {count for signature in copy.signatures for _, count in signature.loops} == {4}
    back()
    assert set(copy.signatures) == all_of_them
