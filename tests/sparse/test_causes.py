"""Where savings of zeros come from: hand-made numbers, and sums of causes on random specifications."""

import random

import pytest
from tests.machines import machine, workload
from tests.nests import nest
from tests.sparse.problems import draw_sparse

import einmap
from einmap.model.explanation.energy_terms import explain_energy
from einmap.model.explanation.filters import only
from einmap.model.fusion import outside_bits
from einmap.report.costs.cost_report import to_text
from einmap.report.explanations.explanation import explanation_report
from einmap.report.explanations.explanation_summary import explanation_summary
from einmap.report.html.pages.cost_page import explanation_page

BASE = (
    machine("Main inf 2/3 @8 / Buffer 4096 1/1 @16 / MAC 1 @2")
    + workload("M: 4, N: 4, K: 8", "Z[m, n] = A[m, k] * B[n, k]")
    + nest("Main: A B Z / m 1 / Buffer: A / n 1 / k 1 / Z @ MAC")
)


def explained(text, base=BASE):
    return einmap.explain(einmap.loads(f"{base}\nsparsity:\n{text}"), changes=False)


def causes(explanation, component, tensor, action):
    rows = [r for r in explanation.savings if (r.component, r.tensor, r.action) == (component, tensor, action)]
    return {(r.state, r.at, r.leader): (r.count, r.energy) for r in rows}


def test_products_are_saved_by_the_compute_and_by_the_memory_that_looks_first():
    # 128 products; A has 8 of 32 nonzeros, B 16 of 32: 3/4 are skipped for A, of the other 32 half are gated for B
    found = explained(
        "  densities: {A: 0.25, B: 0.5}\n  savings: [{at: MAC, do: skip, on: A}, {at: MAC, do: gate, on: B}]\n"
        "  energies: {MAC: {gated_compute: 0.25, skipped_compute: 0.125}}"
    )
    assert causes(found, "MAC", None, "compute") == {
        ("dense", "", None): (128, 128), ("skipped", "MAC", "A"): (96, 96 * 0.875),
        ("gated", "MAC", "B"): (16, 16 * 0.75), ("done", "", None): (16, 16),
    }  # fmt: skip
    # a read that Main skips saves the product behind it, and what is left for the compute to gate is less
    found = explained(
        "  densities: {A: 0.25, B: 0.5}\n"
        "  savings: [{at: Main, do: skip, tensors: B, on: A}, {at: MAC, do: gate, on: A | B}]"
    )
    assert {k: n for k, (n, _) in causes(found, "MAC", None, "compute").items()} == {
        ("dense", "", None): 128, ("skipped", "Main", "A"): 96, ("gated", "MAC", "B"): 16, ("done", "", None): 16,
    }  # fmt: skip
    # 8 bits of each value of B pass Main once for each m, at 2 J; 3 of 4 are left out
    assert causes(found, "Main", "B", "read") == {
        ("dense", "", None): (1024, 2048), ("skipped", "Main", "A"): (768, 1536), ("done", "", None): (256, 512),
    }  # fmt: skip


def test_formats_leave_out_zeros_and_add_metadata():
    # A is 4 x 8 with 8 nonzeros: 24 zeros of 8 bits are not read from Main; a nonzero has 5 bits of coordinates
    found = explained("  densities: {A: 0.25}\n  formats: {Main: {A: coo}}")
    assert causes(found, "Main", "A", "read") == {
        ("dense", "", None): (256, 512), ("not stored", "Main", "A"): (192, 384), ("done", "", None): (64, 128),
        ("metadata", "Main", "A"): (40, 80),
    }  # fmt: skip
    # what Buffer stores is dense, and B has no zeros
    assert causes(found, "Buffer", "A", "write") == {("dense", "", None): (256, 256), ("done", "", None): (256, 256)}
    assert [d.component for d in found.derivations] == []


def test_of_tensors_without_zeros_each_count_is_made_of_pieces():
    dense, density = einmap.explain(einmap.loads(BASE), changes=False), explained("  densities: {A: 0.25}")
    assert dense.savings == density.savings == ()
    assert dense.derivations == density.derivations != ()
    assert "savings" not in dense.to_dict()


def test_reports_say_which_memory_saves_what():
    found = explained("  densities: {A: 0.25}\n  formats: {Main: {A: coo}}\n  savings: [{at: MAC, do: gate, on: A}]")
    for report in (explanation_report, explanation_summary):
        text = to_text(report(found), 120)
        assert "  MAC compute: 32 of 128 done (25%)\n      96 gated by MAC since A is zero, 96 J saved\n" in text
        assert (
            "      192 not stored: zeros of A in Main, 384 J saved\n      40 more for metadata in Main, 80 J\n" in text
        )
    assert {row.component for row in only(found, components=["Main"]).savings} == {"Main"}
    (row,) = (r for r in found.to_dict()["savings"] if r["state"] == "not stored")
    assert row == {
        "einsum": "Z", "component": "Main", "tensor": "A", "action": "read", "state": "not stored", "at": "Main",
        "leader": "A", "count": 192, "energy": 384,
    }  # fmt: skip


def test_pages_count_bits_that_zeros_leave():
    text = (
        "  densities: {A: 0.25}\n  formats: {Main: {A: coo}, Buffer: {A: coo}}\n"
        "  savings: [{at: Main, do: skip, tensors: B, on: A}]\n  energies: {Buffer: {metadata_read: 0.5}}"
    )
    spec = einmap.loads(f"{BASE}\nsparsity:\n{text}")
    page = explanation_page(einmap.explain(spec, changes=False), spec, spec.mapping)
    assert "Explanation" in page.title
    # of A 8 values and 8 x 5 bits of metadata, of B 32 of 128 values, all 16 of Z: 8 bits each
    assert outside_bits(einmap.evaluate(spec), spec) == 64 + 40 + 256 + sum(
        r.count for r in einmap.evaluate(spec).actions if (r.component, r.tensor) == ("Main", "Z")
    )


def test_every_joule_of_zeros_has_a_source():
    text = (
        "  densities: {A: 0.25}\n  formats: {Main: {A: coo}, Buffer: {A: coo}}\n"
        "  savings: [{at: MAC, do: gate, on: A}, {at: Main, do: skip, tensors: B, on: A}]\n"
        "  energies: {MAC: {gated_compute: 0.25}, Buffer: {metadata_read: 0.5}}"
    )
    written = f"{BASE}\nsparsity:\n{text}"
    terms = explain_energy(einmap.loads(written))
    each = {(t.component, t.tensor, t.action): (t.each.value, t.each.source) for t in terms.terms}
    assert each["Buffer", "A", "metadata_read"] == (0.5, f"<text>:{len(written.splitlines())}")
    assert each["Main", "A", "metadata_read"] == each["Main", "A", "read"]
    assert each["MAC", None, "skipped_compute"] == (0, "0 since sparsity.energies does not give it")
    assert sum(t.energy for t in terms.terms) == pytest.approx(terms.energy)


MANY = [pytest.param(range(a, a + 20), marks=[pytest.mark.slow]) for a in range(4, 204, 20)]


@pytest.mark.parametrize("seeds", [range(4), *MANY])
def test_causes_add_up_to_dense_counts_and_to_the_cost(seeds):
    for seed in seeds:
        rng = random.Random(seed)
        spec, cost = draw_sparse(rng, known=seed % 2 == 0)
        dense = by_action(einmap.evaluate(spec.set("sparsity.savings", []).set("sparsity.formats", {})).actions)
        counted, told = by_action(cost.actions), einmap.explain(spec, changes=False).savings
        saving = {name for name, s in spec.sparsity.items() if s.saves}
        seen, energies = {}, {}
        for row in told:
            if row.state in ("dense", "not stored"):
                name = row.action if row.state == "dense" else f"not stored {row.action}"
            else:
                name = row.action if row.state == "done" else f"{row.state}_{row.action}"
            kind = seen.setdefault("dense" if row.state == "dense" else "counted", {})
            key = row.einsum, row.component, row.tensor, name
            kind[key] = kind.get(key, 0) + row.count
            sign = {"dense": 1, "done": 0, "metadata": 1}.get(row.state, -1)
            energies[row.einsum] = energies.get(row.einsum, 0) + sign * row.energy
        assert {row.einsum for row in told} == saving, seed
        same(seen.get("dense", {}), {k: n for k, n in dense.items() if k[0] in saving})
        stored = {k: n for k, n in seen.get("counted", {}).items() if not k[3].startswith("not stored")}
        same(stored, {k: n for k, n in counted.items() if k[0] in saving})
        for name in saving:
            actions = [r.energy for r in cost.actions if r.einsum == name and not r.is_constant]
            assert energies[name] == pytest.approx(sum(actions), rel=1e-9, abs=1e-12), seed


def by_action(rows):
    found = {}
    for row in rows:
        if not row.is_constant:
            key = row.einsum, row.component, row.tensor, row.action
            found[key] = found.get(key, 0) + row.count
    return found


def same(a, b):
    for key in {*a, *b}:
        assert a.get(key, 0) == pytest.approx(b.get(key, 0), rel=1e-9, abs=1e-9), key
