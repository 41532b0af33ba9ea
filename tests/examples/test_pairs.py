"""Shipped architectures and workloads go together, and searches give sane mappings."""

import math

import pytest
from tests.examples.reduced import REDUCED

import einmap
from einmap.arch.component import Compute
from einmap.frontends.yaml.spec import example_paths

ARCHES = [name for name, path in example_paths().items() if path.parent.name == "arches"]
WITH_ALL = [
    "matmul", "two_matvecs", "conv", "mobilenet_pair", "feed_forward", "attention", "attention_core", "gpt3_175b",
    "llama3_8b",
]  # fmt: skip
ALIKE = [
    "matmul_chain", "matrix_vector", "elementwise", "resnet50_layer", "resnet50", "vgg16", "mobilenet_v1",
    "attention_single_head", "attention_causal", "mixture_of_experts",
    "mixture_of_experts_top_k", "lstm",
    "gpt3_6.7b", "gpt3_6.7b_decode", "gpt3_175b_decode", "llama3_8b_decode",
]  # fmt: skip
"""Einsums of the forms that the others have, in other sizes: tried with one architecture."""
PAIRS = [*((arch, name) for name in WITH_ALL for arch in ARCHES), *(("edge", name) for name in ALIKE)]
VALUES = {"feed_forward": {"GATED": 1}}


def test_every_workload_is_tried():
    assert sorted(WITH_ALL + ALIKE) == sorted(REDUCED)


@pytest.mark.parametrize(("arch", "name"), PAIRS)
def test_every_einsum_has_just_one_compute(arch, name):
    spec = einmap.load(arch, name, define=VALUES.get(name, {}))
    for einsum, bound in spec.bound.items():
        enabled = [unit.name for unit in bound.arch.computes if unit.enabled]
        assert len(enabled) == 1, (einsum, enabled)


def compulsory_energy(spec):
    """Joules of DRAM for every tensor that enters or leaves, once, and of the operations."""
    workload = spec.workload
    total = 0.0
    for einsum in workload.einsums:
        arch = spec.arch(einsum.name)
        (unit,) = (c for c in arch.computes if c.enabled)
        total += einsum.n_computes * unit.action("compute").energy
        for access in einsum.accesses:
            if access.tensor not in workload.intermediates:
                action = arch.components["DRAM"].action("write" if access.output else "read")
                total += access.footprint(einsum.extents) * access.bits_per_value * action.energy
    return total


@pytest.mark.parametrize("arch", ["simba", "edge"])
@pytest.mark.parametrize(("workload", "define", "most"), [("matmul", {}, 3), ("conv", {}, 10)])
def test_a_short_search_gives_a_sane_mapping(arch, workload, define, most):
    spec = einmap.load(arch, workload, define=define)
    found = einmap.map_workload(spec, max_evaluations=3000, workers=1)
    least = compulsory_energy(spec)
    assert least <= found.cost.energy <= most * least
    peak = {"simba": 1024e9, "edge": 64 * 500e6}[arch]
    busy = sum(e.n_computes for e in spec.workload.einsums if not_post_processed(spec, e)) / peak
    assert busy <= found.cost.latency < math.inf
    assert einmap.evaluate(spec.with_mapping(found.mapping), strict=True).energy == pytest.approx(found.cost.energy)


def not_post_processed(spec, einsum):
    return any(isinstance(c, Compute) and c.name == "MAC" and c.enabled for c in spec.arch(einsum.name).computes)


def test_elementwise_einsums_run_on_the_post_processor_of_simba():
    spec = einmap.load("simba", "attention_core")
    units = {e: [c.name for c in b.arch.computes if c.enabled] for e, b in spec.bound.items()}
    assert units == {"QK": ["MAC"], "AN": ["MAC"], **{e: ["PostProcessor"] for e in ("GM", "SN", "SD", "AV")}}


def test_a_package_of_chiplets_has_its_own_fanout_and_network():
    one, many = (einmap.load("simba", "matmul", define={"CHIPLETS": n}).arch() for n in (1, 36))
    assert (one.instances["MAC"], many.instances["MAC"]) == (1024, 36 * 1024)
    assert many.components.keys() - one.components.keys() == {"PackageNetwork"}
    with pytest.raises(einmap.SpecError, match="CHIPLETS must be 1 to 36"):
        einmap.load("simba", "matmul", define={"CHIPLETS": 37})
