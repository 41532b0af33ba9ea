"""A tensor that one Einsum uses by different indices is read through copies that are put in."""

import random

import numpy as np
import pytest
from tests.emit.running import problems, problems_in_c
from tests.execute.agreement import differences

from einmap import EinmapError, dump, emit, evaluate, execute, load, loads, map_workload
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.derive import distribute_workload
from einmap.einsum.numeric import random_inputs, run
from einmap.einsum.rewrites.partition import split

GRAM = "Z[m, n] = A[m, k] * A[n, k]"
BY_HAND = """
mapping:
  nodes:
  - !Storage {component: MainMemory, tensors: [A, Z]}
  - !Storage {component: GlobalBuffer, tensors: [A, Z]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""


def text(*einsums, sizes="M: 4, K: 6", more=""):
    listed = "".join(f'  - "{einsum}"\n' for einsum in einsums)
    return f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 8}}\n{more}  einsums:\n{listed}"


@pytest.fixture
def on_simple(tmp_path):
    def spec(written):
        (tmp_path / "w.yaml").write_text(written)
        return load("simple", tmp_path / "w.yaml")

    return spec


def shown(workload):
    """The Einsums as `name: accesses = operation`, copies marked."""
    return [
        f"{'copy ' if e.is_copy else ''}"
        + " ".join(f"{a.tensor}[{', '.join(f'{r}: {i}' for r, i in a.projection)}]" for a in e.accesses)
        + f" = {e.operation}"
        for e in workload.einsums
    ]


@pytest.mark.parametrize(
    ("einsum", "sizes", "copy", "expected"),
    [
        (GRAM, "M: 4, K: 6", "A_2[N: n, K: k]", lambda a: a @ a.T),
        ("Z[m, n] = A[m, k] - A[M: n, k]", "M: 4, K: 6", "A_2[N: n, K: k]", lambda a: (a[:, None] - a).sum(-1)),
        ("Z[m, n] = A[m, k] * A[k, n]", "M: 4, K: 4", "A_2[K: k, N: n]", lambda a: a @ a),
        ("Z[m, n] = A[m, n] * A[M: n, N: m] - A[m, n]", "M: 4, N: 4", "A_2[N: n, M: m]", lambda a: a * a.T - a),
        ("Z[m] = A[m, k] * A[M: 2, k]", "M: 4, K: 6", "A_2[M: m_2, K: k]", lambda a: (a * a[2]).sum(-1)),
        ("Z[p] = A[H: p + 1] - A[H: p]", "H: 9, P: 8", "A_2[P: p]", np.diff),
        ("Z[m, n] = A[m, k] * A[M: n, K: 5 - k]", "M: 3, K: 6", "A_2[N: n, K: k_2]", lambda a: a @ a[:, ::-1].T),
    ],
)
def test_every_index_list_means_what_it_says(on_simple, einsum, sizes, copy, expected):
    spec = on_simple(text(einsum, sizes=sizes))
    *copies, _ = shown(spec.workload)
    assert [one.split(" = ")[0].rsplit(" A_2")[1] for one in copies] == [copy.removeprefix("A_2")]
    inputs = random_inputs(spec.workload, 1)
    assert np.array_equal(run(spec.workload, inputs)["Z"], expected(inputs["A"]))
    assert loads(dump(spec)) == spec
    assert "A_2" not in dump(spec)
    assert spec.with_workload(spec.workload).workload.einsum_names == spec.workload.einsum_names
    found = map_workload(spec, metrics="energy")
    assert differences(found.spec.with_mapping(found.mapping)) == []


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
def test_a_mapping_of_the_tensor_alone_costs_what_is_counted_by_hand(on_simple, semantics):
    spec = on_simple(text(GRAM) + BY_HAND).set("model.semantics", semantics)
    counts = evaluate(spec).count_by("einsum", "component", "tensor", "action")
    one = {  # bits; both names are 4 x 6 values, all in the buffer, each read 4 times, and A_2 costs nothing to make
        ("MainMemory", "read"): 4 * 6 * 8,
        ("GlobalBuffer", "write"): 4 * 6 * 8,
        ("GlobalBuffer", "read"): 4 * 4 * 6 * 8,
    }
    for name in ("A", "A_2"):
        assert {k[1::2]: n for k, n in counts.items() if k[2] == name and n} == one
    assert sum(n for k, n in counts.items() if k[0] == "A_2") == 0
    assert counts["Z", "MAC", None, "compute"] == 4 * 4 * 6
    (note,) = [str(n) for n in spec.notes if "different indices" in str(n)]
    assert "Einsum 'Z' uses tensor 'A'" in note
    assert "A_2[n, k]" in note


def draw(rng):
    """A random mapping of the Gram matrix that names only A and Z."""
    left = {"m": [4, 2, 1], "n": [4, 2, 1], "k": [6, 3, 1]}
    loops = []
    while left:
        variable = rng.choice([*left])
        shape = rng.choice(left[variable])
        loops.append(f"!Temporal {{rank_variable: {variable}, tile_shape: {shape}}}")
        left[variable] = [s for s in left[variable] if s < shape]
        if not left[variable]:
            del left[variable]
    for tensor in "AZ":
        loops.insert(rng.randrange(len(loops)), f"!Storage {{component: GlobalBuffer, tensors: [{tensor}]}}")
    nodes = ["!Storage {component: MainMemory, tensors: [A, Z]}", *loops, "!Compute {einsum: Z, component: MAC}"]
    return "mapping:\n  nodes:\n" + "".join(f"  - {node}\n" for node in nodes)


def test_random_mappings_cost_what_they_do_and_their_code_as_well(on_simple, tmp_path):
    for seed in range(40):
        spec = on_simple(text(GRAM) + draw(random.Random(seed)))
        done = execute(spec)
        assert differences(spec, execution=done) == [], seed
        assert np.array_equal(done.tensors["Z"], done.inputs["A"] @ done.inputs["A"].T)
        if seed < 6:
            assert problems(emit(spec, "python"), spec) == []
    assert problems_in_c(emit(spec, "c"), spec, tmp_path) == []


def test_a_mapping_without_a_place_for_the_copy_names_it_and_shows_the_lines(on_simple):
    moved = (
        BY_HAND.replace("MainMemory, tensors: [A, Z]", "MainMemory, tensors: [Z]")
        .replace(
            "  - !Temporal {rank_variable: k",
            "  - !Storage {component: MainMemory, tensors: [A]}\n  - !Temporal {rank_variable: k",
        )
        .replace("GlobalBuffer, tensors: [A, Z]", "GlobalBuffer, tensors: [Z]")
    )
    with pytest.raises(EinmapError, match="does not say where 'A_2' is") as caught:
        evaluate(on_simple(text(GRAM) + moved))
    lines = "!Temporal {rank_variable: n, tile_shape: 1}, !Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: A_2"
    assert lines in str(caught.value)


CHAIN = (
    "A[i, k] = X[i, j] * W[j, k]", "S[i, n] = A[i, k] * A[n, k] + X_2[i]", "Y[i, p] = A[i, k] - A[p, k]",
    "Z[i] = A[i, k] * 2",
)  # fmt: skip


def test_einsums_share_a_copy_and_names_are_free(on_simple):
    written = text(*CHAIN, sizes="I: 4, K: 3, J: 2").replace("S[i", "A_2[i")
    spec = on_simple(
        written + "renames: {einsums: [{name: A_2, tensor_accesses: [{name: a, source: A, expected_count: 1}]}]}"
    )
    assert spec.workload.einsum_names == ("A", "A_3", "A_2", "Y", "Z")
    assert "A_3[N: p, K: k]" in shown(spec.workload)[3]
    assert [e.inputs for e in spec.workload.einsums][1:] == [{"A"}, {"A", "A_3", "X_2"}, {"A", "A_3"}, {"A"}]
    inputs = random_inputs(spec.workload, 0)
    done = run(spec.workload, inputs)
    a = inputs["X"] @ inputs["W"]
    assert np.array_equal(done["A_2"], a @ a.T + a.shape[1] * inputs["X_2"][:, None])
    assert np.array_equal(done["Y"], (a[:, None] - a).sum(-1))
    found = map_workload(spec, metrics="energy")
    assert found.optimal
    assert differences(found.spec.with_mapping(found.mapping)) == []


def test_a_name_in_expressions_means_the_copies_too(on_simple):
    more = "  persistent_tensors: A\n"
    written = text(GRAM, more=more).replace("{All: 8}", "{A: 4, Other: 8}")
    spec = on_simple(written).set("arch.nodes.GlobalBuffer.tensors.keep", "A")
    einsum = spec.workload.by_name["Z"]
    assert [(a.tensor, a.bits_per_value, a.persistent) for a in einsum.accesses] == [
        ("A", 4, True), ("A_2", 4, False), ("Z", 8, False),
    ]  # fmt: skip
    found = map_workload(spec, metrics="energy")
    written = evaluate(found.spec.with_mapping(found.mapping)).count_by("component", "tensor", "action")
    assert {t for (c, t, _), n in written.items() if c == "GlobalBuffer" and n} >= {"A", "A_2"}


@pytest.mark.parametrize("place", ["at the Einsum", "above all"])
def test_a_copy_is_spoken_of_by_the_renames_of_the_einsum_that_reads_it(tmp_path, place):
    own = "renames: {input: A, weight: Nothing, output: Outputs}"
    if place == "at the Einsum":
        written = text("Z").replace('"Z"', f'{{einsum: "{GRAM}", {own}}}')
    else:
        accesses = own.replace("renames", "tensor_accesses")
        written = text(GRAM) + f"renames:\n  einsums:\n  - {{name: Z, {accesses}}}\n"
    (tmp_path / "w.yaml").write_text(written)
    found = map_workload(load("tpu_v4i", tmp_path / "w.yaml"), metrics="energy")
    assert found.optimal
    assert found.spec.workload.einsum_names == ("A_2", "Z")
    assert differences(found.spec.with_mapping(found.mapping)) == []
    (tmp_path / "w.yaml").write_text(written.replace("weight: Nothing", "weight: Noting"))
    with pytest.raises(EinmapError, match="weight: name 'Noting' is not defined") as caught:
        map_workload(load("tpu_v4i", tmp_path / "w.yaml"))
    assert str(caught.value).count("is not defined") == 1


def test_shared_inputs_partitions_and_meshes_go_with_copies(on_simple):
    spec = on_simple(
        text("Y[m, n] = A[m, k] * A[n, k] + B[m]", "X[m] = B[m] * 2", "Z[m] = Y[m, n] * X[m]", sizes="M: 4, K: 6, N: 4")
    )
    found = map_workload(spec, metrics="energy")
    assert differences(found.spec.with_mapping(found.mapping)) == []
    workload = on_simple(text(GRAM)).workload
    inputs = random_inputs(workload, 1)
    expected = inputs["A"] @ inputs["A"].T
    for rank, shape in (("M", (2, 2, 6)), ("K", (4, 3, 2)), ("N", (4, 6))):
        parted = run(split(workload, rank, 2), {"A": inputs["A"].reshape(shape)})["Z"]
        assert np.array_equal(parted.reshape(4, 4), expected)
    plan = distribute_workload(workload, {"x": 2}, {"A": {"K": "x"}, "Z": "replicated"})
    sample = sample_inputs(workload, 0)
    assert all(check.agrees for check in check_outputs(workload, sample, LocalEngine().run(plan, sample).outputs))


def test_what_looks_like_a_transpose_is_noted(on_simple):
    spec = on_simple(text("Z[m, k] = A[m, k] + A[k, m]", sizes="M: 4, K: 4"))
    (note,) = spec.notes
    assert "A[m, k] and A[k, m] in Einsum 'Z' are the same" in str(note)
    assert "write A[M: k, K: m]" in str(note)
