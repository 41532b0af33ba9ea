"""Gradients of random cascades and of the shipped ones, executed, against JAX's own."""

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.random_specs import recurrences
from tests.random_specs.gathers import GATHERS
from tests.random_specs.workloads import KINDS, WINDOWS, cut_space, draw_workload

import einmap
from einmap.einsum.gather import index_sizes
from einmap.einsum.gradients.gradient import gradient
from einmap.einsum.gradients.paths import leading_to
from einmap.einsum.numeric import graph_inputs, run, shapes
from einmap.einsum.spaces.recurrence import recurrences as found_recurrences

jax = pytest.importorskip("jax")


def drawn_inputs(workload, rng):
    """Numbers with ties here and there, and indices, -1 among them."""
    indices = index_sizes(workload.einsums)
    size = shapes(workload)
    inputs = {}
    for tensor in graph_inputs(workload):
        if tensor in indices:
            inputs[tensor] = rng.integers(-1, indices[tensor], size[tensor]).astype(float)
        elif rng.random() < 0.5:
            inputs[tensor] = rng.integers(1, 4, size[tensor]) / 2
        else:
            inputs[tensor] = rng.uniform(0.5, 1.5, size[tensor])
    return inputs


def reached(workload, of):
    """Graph inputs that a tensor depends on, with derivatives that are not 0 everywhere."""
    found = []
    for tensor in graph_inputs(workload):
        try:
            gradient(workload, of, [tensor])
        except einmap.SpecError:
            continue
        found.append(tensor)
    return found


def check(workload, of, seed, recompute=()):
    from tests.einsum.gradients.jax_values import gradients

    rng = np.random.default_rng(seed)
    workload = replace(workload, einsums=tuple(e for e in workload.einsums if e.name in leading_to(workload, of)))
    by = reached(workload, of)
    if not by:
        return False
    inputs = drawn_inputs(workload, rng)
    made = gradient(workload, of, by, recompute=recompute)
    own = {tensor: inputs[tensor] for tensor in graph_inputs(made.workload) if tensor in inputs}
    added = made.inputs()
    added[made.seed] = rng.uniform(-1, 1, added[made.seed].shape)
    found = run(made.workload, own | added)
    expected = gradients(workload, inputs, of, by, added[made.seed])
    assert not [str(e) for e in complaints(made.workload)]
    for tensor in by:
        np.testing.assert_allclose(found[made.gradients[tensor]], expected[tensor], rtol=1e-10, atol=1e-10)
    return True


def complaints(workload):
    """What is wrong with the order of a workload, recurrences known."""
    found = []
    listed = [(e.name, [(a.tensor, a.projection, a.output) for a in e.accesses]) for e in workload.einsums]
    found_recurrences(listed, lambda _, text, hint: found.append(f"{text} {hint}"))
    return found


def drawn(seed):
    rng = random.Random(seed)
    if seed % 8 == 7:
        einsums, _, _ = recurrences.cascade(rng)
        sizes = {"N": rng.randint(1, 4), "B": rng.randint(1, 3), "K": rng.randint(1, 3)}
        sizes |= {"M": sizes["N"]}
        text = " ".join(einsums)
        sizes = {rank: size for rank, size in sizes.items() if rank.lower() in text}
        given = {"rank_sizes": sizes, "iteration_space_shape": {"t": f"0 <= t < {rng.randint(1, 5)}"}}
        given |= {"einsums": einsums, "bits_per_value": {"All": 8}}
        return rng, einmap.Spec.from_dict(workload=given).workload
    kinds = GATHERS if seed % 8 == 6 else WINDOWS if seed % 8 == 5 else KINDS
    einsums, sizes = draw_workload(rng, kinds)
    bounds = cut_space(rng, einsums)
    given = {"rank_sizes": sizes, "iteration_space_shape": bounds, "bits_per_value": {"All": 8}}
    given["einsums"] = [e.written(rng) for e in einsums]
    return rng, einmap.Spec.from_dict(workload=given).workload


def check_drawn(seed):
    rng, workload = drawn(seed)
    of = rng.choice([*workload.producers])
    needed = leading_to(workload, of)
    inner = [t for t, name in workload.producers.items() if name in needed and not workload.recurrences]
    recompute = [t for t in inner if rng.random() < 0.3]
    return check(workload, of, seed, recompute)


@pytest.mark.parametrize("seed", range(16))
def test_gradients_of_random_cascades_are_those_of_jax(seed):
    check_drawn(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_gradients_of_200_random_cascades_are_those_of_jax(seed):
    check_drawn(seed)


SHIPPED = Path(einmap.__file__).parent / "examples" / "workloads"
SMALL = {"HEADS": 4, "KV_HEADS": 2, "IMAGE": 32, "SHRINK": 64, "CHOICES": 2, "STRIDE": 2, "N_EINSUMS": 3}
KEPT = ("LAYER", "BITS", "SOFTMAX", "BATCH", "DILATION", "GATED")


FAST = ("attention_core", "conv", "llama3_8b", "lstm", "mixture_of_experts_top_k")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in sorted(file.stem for file in SHIPPED.glob("*.yaml"))
    ],
)
def test_gradients_of_shipped_cascades_are_those_of_jax(name):
    file = SHIPPED / f"{name}.yaml"
    parameters = set(re.findall(r"(\w+) \| default", file.read_text())) - {*KEPT}
    spec = einmap.load(file, define={p: SMALL.get(p, 3) for p in parameters})
    for rank, size in spec.to_dict()["workload"].get("rank_sizes", {}).items():
        if isinstance(size, int) and size > 40:  # of a layer whose sizes are not parameters
            spec = spec.set(f"workload.rank_sizes.{rank}", 3)
    workload = spec.workload
    read = {tensor for einsum in workload.einsums for tensor in einsum.inputs}
    results = [t for t in workload.producers if t not in read]
    # those of networks are many that are alike
    for of in dict.fromkeys((results[0], results[len(results) // 2], results[-1])):
        assert check(workload, of, len(of))
