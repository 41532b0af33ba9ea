"""All problems of one stage are reported together, each once."""

import pytest
from tests.catalogue.cases import BASE, changed, problems_of
from tests.catalogue.meshes import PLANNED

import einmap
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.read import plan_of
from einmap.errors import EinmapError

EINSUM = '    einsum: "C[m,n] = A[m,k] * B[k,n]"\n'
SIZES = "    M: 4\n    K: 4\n    N: 4\n"


def places(*changes, base=BASE, use=einmap.evaluate):
    """The lines that the problems name, as they stand in the text, in its order."""
    text = changed(changes, base)
    with pytest.raises(EinmapError) as caught:
        use(einmap.loads(text))
    numbers = sorted(problem.at.line for problem in problems_of(caught.value))
    return [text.splitlines()[number - 1].strip(" -") for number in numbers]


def test_keys():
    assert places(("renames:\n", "rename:\n"), ("mapping:", "maping:")) == ["rename:", "maping:"]


def test_variables():
    assert places(("  width: 8\n", "  width: 8\n  a: hello\n  b: 1/0\n")) == ["a: hello", "b: 1/0"]


def test_einsums():
    bad = ['"C[m]"', '"D[M]=A[m]"', '"E[m,m]=A[m]"']
    assert places(("  - name: C\n" + EINSUM, "".join(f"  - {text}\n" for text in bad))) == bad


def test_accesses_of_an_einsum():
    bad = ["{name: A, projection: [M]}", "{name: B b, projection: [k]}", "{name: C, projection: {m: m}, output: true}"]
    written = "    tensor_accesses:\n" + "".join(f"    - {text}\n" for text in bad)
    assert places((EINSUM, written)) == bad


def test_sizes_bounds_and_bits():
    changes = (SIZES, "    M: 0\n    K: -4\n    N: 4.5\n"), ("    All: 8\n", "    All: 0\n")
    assert places(*changes) == ["M: 0", "K: -4", "N: 4.5", "All: 0"]


def test_fields_of_components():
    found = places(
        ("      fanout: 2\n", "      fanout: 0\n    - {name: Y, fanout: 2, min_usage: 7}\n"),
        ("    size: width*depth\n", "    size: -1\n    area: -1\n    leak_power: foo\n    enabled: 3\n"),
        ("      keep: Nothing\n", "      tile_shape: [{expression: m, operator: '!', value: 1}]\n"),
        ("    name: MAC\n", "    name: MAC\n    energy_scale: foo\n"),
    )
    assert found == [
        "fanout: 0", "{name: Y, fanout: 2, min_usage: 7}", "size: -1", "area: -1", "leak_power: foo", "enabled: 3",
        "tile_shape: [{expression: m, operator: '!', value: 1}]", "energy_scale: foo",
    ]  # fmt: skip


def test_names_of_components_and_dimensions():
    found = places(
        ("name: Array\n", "name: an array\n"), ("- name: X\n", "- name: a-b\n"), ("name: MAC\n", "name: Main\n")
    )
    assert found == ["name: an array", "name: a-b", "!Compute"]


def test_nodes_of_a_mapping():
    changes = (
        ("variable: n, tile_shape: 1", "variable: n, tile_shape: 0"),
        ("variable: k, tile_shape", "variable: k, tile_shap"),
    )
    assert places(*changes) == [
        "!Temporal {rank_variable: n, tile_shape: 0}",
        "!Temporal {rank_variable: k, tile_shap: 1}",
    ]


def test_what_does_not_fit_the_workload():
    found = places(
        ("rank_variable: n, tile_shape: 1", "rank_variable: N, tile_shape: 1"),
        ("component: Buffer, tensors: [A]", "component: Buffer, tensors: [AA]"),
        ("component: Array, name: X", "component: Array, name: Y"),
    )
    assert len(found) == 3


def test_a_problem_that_every_einsum_has_is_reported_once():
    assert places((EINSUM, EINSUM + '  - "D[m] = C[m,n]"\n'), ("    M: 4\n", "    M: 0\n")) == ["M: 0"]


def test_fields_and_values_of_a_cluster():
    lines = [
        "    memory: 0\n",
        "    memory_bandwith: 1\n",
        "      latency: -1\n",
        "      topology: rign\n",
        "        1024: 7\n",
        "        2**20: [1]\n",
        "      bandwidth: nan\n",
    ]
    written = [
        "    memory: 80 * 2**30\n",
        "    memory_bandwidth: inf\n",
        "      latency: 3e-6\n",
        "      topology: switch\n",
        "        1024: 0.1\n",
        "        2**20: 0.6\n",
        "      bandwidth: 25e9\n",
    ]
    found = places(*zip(written, lines, strict=True), base=PLANNED, use=cluster_of)
    assert found == [line.strip() for line in lines]


def test_the_mesh_and_what_is_laid_on_it():
    lines = ["    x: 0\n", "    A: {M: x, KK: y}\n", "    Z: {m: x, kk: y}\n", "  overlap: [Y]\n", "  dtyp: float32\n"]
    written = ["    x: 2\n", "    A: {M: x, K: y}\n", "    Z: {m: x, k: y}\n", "  overlap: [Z]\n", "  dtype: float32\n"]
    found = places(*zip(written, lines, strict=True), base=PLANNED, use=plan_of)
    assert found == [line.strip() for line in lines]
