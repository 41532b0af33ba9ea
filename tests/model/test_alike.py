"""Einsums that see the same of a mapping but for names are looked at once; the cost is as if each was by itself."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from functools import cache

import pytest

import einmap
from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import example_paths
from einmap.model.evaluate import evaluate, workings_of
from einmap.model.isomorphism import alike
from einmap.spec.spec import Spec

ARCH = """
arch:
  nodes:
  - !Memory
    {name: DRAM, size: inf, leak_power: 1e-3, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
     actions: [{name: read, energy: 7, throughput: 1e9}, {name: write, energy: 9, throughput: 1e9}]}
  - !Memory
    {name: GLB, size: 4096, leak_power: 2e-3, area: 0, tensors: {keep: ~DRAM, may_keep: All},
     actions: [{name: read, energy: 1.1, throughput: 3e9}, {name: write, energy: 1.3, throughput: 3e9}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0.3, throughput: 1e9}]}
"""
PAIRS = 6
"""Products in pairs; each pair is fused, and passes its result on through DRAM."""


def products(pairs: int = PAIRS) -> str:
    lines = ["workload:", "  bits_per_value: {All: 8}", "  rank_sizes: {M: 16, K: 8, N: 8}", "  einsums:"]
    for i in range(pairs):
        lines += [
            f'  - "Y{i}[m, n] = X{i}[m, k] * A{i}[k, n]"',
            f'  - "X{i + 1}[m, k] = Y{i}[m, n] * B{i}[n, k]"',
        ]
    return "\n".join(lines) + "\n"


def fused(pairs: int = PAIRS, step: int = 4, *, persistent: bool = False, late: int | None = None) -> str:
    """Pairs of products fused over m; `late`: the pair in which the buffer of X stands below the loop over n."""
    outside = [t for i in range(pairs) for t in (f"X{i}", f"A{i}", f"B{i}")] + [f"X{pairs}"]
    lines = ["mapping:", "  nodes:", f"  - !Storage {{component: DRAM, tensors: [{', '.join(outside)}]}}"]
    if persistent:
        weights = ", ".join(f"A{i}" for i in range(pairs))
        lines.append(f"  - !Storage {{component: GLB, tensors: [{weights}], persistent: true}}")
    lines += ["  - !Sequential", "    nodes:"]
    for i in range(pairs):
        early = f"          - !Storage {{component: GLB, tensors: [X{i}]}}"
        loop = "          - !Temporal {rank_variable: n, tile_shape: 1}"
        lines += [
            "    - !Nested",
            "      nodes:",
            f"      - !Temporal {{rank_variable: m, tile_shape: {step}}}",
            f"      - !Storage {{component: GLB, tensors: [Y{i}]}}",
            "      - !Sequential",
            "        nodes:",
            "        - !Nested",
            "          nodes:",
            *((loop, early) if late == i else (early, loop)),
            "          - !Temporal {rank_variable: k, tile_shape: 1}",
            "          - !Temporal {rank_variable: m, tile_shape: 1}",
            f"          - !Compute {{einsum: Y{i}, component: MAC}}",
            "        - !Nested",
            "          nodes:",
            f"          - !Storage {{component: GLB, tensors: [B{i}]}}",
            "          - !Temporal {rank_variable: k, tile_shape: 1}",
            "          - !Temporal {rank_variable: n, tile_shape: 1}",
            "          - !Temporal {rank_variable: m, tile_shape: 1}",
            f"          - !Compute {{einsum: X{i + 1}, component: MAC}}",
        ]
    return "\n".join(lines) + "\n"


def firsts(spec: Spec) -> list[str]:
    """The Einsums that are looked at."""
    assert spec.mapping is not None
    bound = {name: one.like for name, one in spec.bound.items()}
    return [*dict.fromkeys(alike(spec.mapping, spec.workload, bound, tuple(spec.mapping.path_of)).values())]


def outcome(spec: Spec, *, apart: bool) -> object:
    try:
        return workings_of(spec).cost if apart else evaluate(spec, semantics="exact")
    except EinmapError as problem:
        return type(problem), str(problem)


@pytest.mark.parametrize("persistent", [False, True])
def test_fused_pairs_cost_what_they_cost_one_by_one(persistent: bool) -> None:
    spec = einmap.loads(ARCH + products() + fused(persistent=persistent))
    # X0 is an input of the workload, X6 its result: what reads or writes them differs, and so do neighbours of that
    assert firsts(spec) == ["Y0", "X1", "Y1", "X2", "Y5", "X6"]
    found = outcome(spec, apart=False)
    assert found == outcome(spec, apart=True)
    assert len({row.einsum for row in found.actions}) == 2 * PAIRS


def test_a_pair_that_is_mapped_otherwise_is_looked_at_too() -> None:
    spec = einmap.loads(ARCH + products() + fused(late=3))
    assert {"Y3", "X4"} <= {*firsts(spec)}
    assert outcome(spec, apart=False) == outcome(spec, apart=True)


def test_a_neighbour_decides_too() -> None:
    # what writes X3 is as elsewhere, but its reader is not
    assert "X3" in firsts(einmap.loads(ARCH + products() + fused(late=3)))


def test_notes_are_on_every_einsum_that_they_concern() -> None:
    text = ARCH.replace("keep: ~DRAM, may_keep: All", "keep: All")
    spec = einmap.loads(text + products() + fused())
    assert len(firsts(spec)) < 2 * PAIRS
    found = outcome(spec, apart=False)
    assert found == outcome(spec, apart=True)
    assert [note.text for note in found.notes if "must keep 'A" in note.text] == [
        f"Einsum 'Y{i}': GLB must keep 'A{i}'" for i in range(PAIRS)
    ]


@pytest.mark.parametrize(("old", "new"), [("size: 4096", "size: 100"), ("tile_shape: 4", "tile_shape: 32")])
def test_problems_are_told_as_one_by_one(old: str, new: str) -> None:
    spec = einmap.loads((ARCH + products() + fused()).replace(old, new))
    found = outcome(spec, apart=False)
    assert isinstance(found, tuple)
    assert found == outcome(spec, apart=True)


def test_a_mapping_that_is_given_has_the_places_of_one_that_is_written() -> None:
    spec = einmap.loads((ARCH + products()).replace("size: 4096", "size: 100"))
    mapping = einmap.loads(fused()).mapping
    with pytest.raises(EinmapError) as given:
        evaluate(spec, mapping)
    with pytest.raises(EinmapError) as written:
        evaluate(spec.with_mapping(mapping))
    assert str(given.value) == str(written.value)


@cache
def einsums_of_workloads() -> dict[str, Set[str]]:
    """Names of the Einsums of each shipped workload that is whole by itself."""
    found = {}
    for workload in example_paths(["workloads"]):
        with suppress(EinmapError):
            found[workload] = einmap.load(workload).workload.by_name.keys()
    return found


@pytest.mark.parametrize("name", example_paths(["mappings"]))
def test_shipped_mappings_cost_what_they_cost_one_by_one(name: str) -> None:
    arch = next(arch for arch in example_paths(["arches"]) if name.startswith(f"{arch}_"))
    fitting = 0
    given = einmap.load(name).mapping
    assert given is not None
    for workload, einsums in einsums_of_workloads().items():
        if given.path_of.keys() == einsums:
            spec = einmap.load(arch, workload, name)
            assert outcome(spec, apart=False) == outcome(spec, apart=True)
            fitting += 1
    assert fitting
