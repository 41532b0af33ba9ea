"""The key `sparsity`: what it says, what is refused and where, and that nothing changes without it."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest

import einmap
from einmap.errors import EinmapError, NotSupportedError, SpecError
from einmap.execute.execute import execute
from einmap.frontends.scalesim import write as scalesim
from einmap.frontends.timeloop import write as timeloop
from einmap.report.costs.cost_report import cost_report, to_text
from einmap.report.executions.comparison import compare
from einmap.report.executions.simulation import simulation_report
from einmap.search.skislope import ski_slope
from einmap.sparse.densities import Structured, Uniform
from einmap.sparse.known import Known

BASE = (
    machine("Main inf 2/3 @8 / Buffer 4096 1/1 @16 / MAC 1 @2")
    + workload("M: 4, N: 4, K: 8", "Z[m, n] = A[m, k] * B[n, k]")
    + nest("Main: A B Z / m 1 / Buffer: A / n 1 / k 1 / Z @ MAC")
)


def spec_of(text, base=BASE):
    return einmap.loads(base + "\nsparsity:\n" + text)


def test_densities_formats_and_savings_are_bound(tmp_path):
    np.save(tmp_path / "mask.npy", np.eye(4, 8))
    (tmp_path / "spec.yaml").write_text(
        BASE + "\nsparsity:\n  densities: {A: {file: mask.npy}, B: {structured: [1, 4], along: K}, Z: 2 / 4}\n"
        "  formats: {Buffer: {A: csr}}\n  savings: [{at: MAC, do: gate, on: A | B}]\n"
        "  energies: {MAC: {gated_compute: 0.25}, Buffer: {metadata_read: 0.5}}\n"
    )
    bound = einmap.load(tmp_path / "spec.yaml").sparsity["Z"]
    assert bound.densities == {"A": Known(np.eye(4, 8) != 0), "B": Structured((4, 8), 1, 1, 4), "Z": Uniform((4, 4), 8)}
    assert bound.formats["Buffer", "A"].is_compressed
    assert bound.energies == {("MAC", "gated_compute"): 0.25, ("Buffer", "metadata_read"): 0.5}
    assert bound.own_metadata == {"Buffer"}


REFUSED = {
    "density": ("  densities: {A: 1.5}", "must be at most 1, found 1.5", "sparsity.densities.A"),
    "twice": ("  densities: {A: {uniform: 0.5, band: [1, 1]}}", "is given 2 times", "sparsity.densities.A"),
    "block": ("  densities: {A: {structured: [2, 3]}}", "blocks of 3 do not divide", "sparsity.densities.A"),
    "rank": ("  densities: {A: {structured: [2, 4], along: Q}}", "no rank 'Q'", "sparsity.densities.A"),
    "pair": ("  densities: {A: {structured: [2]}}", "two numbers", "sparsity.densities.A"),
    "path": ("  densities: {A: {file: ../../etc/x.npy}}", "leads out of the folder", "sparsity.densities.A"),
    "missing": ("  densities: {A: {file: nothing.npy}}", "no file", "sparsity.densities.A"),
    "seed": ("  densities: {A: {band: [1, 1], seed: 1}}", "none are drawn", "sparsity.densities.A"),
    "memory": ("  formats: {Bufer: {A: csr}}", "no component 'Bufer'", "sparsity.formats.Bufer"),
    "compute": ("  formats: {MAC: {A: csr}}", "'MAC' is not a memory", "sparsity.formats.MAC"),
    "format": ("  formats: {Buffer: {A: cssr}}", "unknown format 'cssr'", "sparsity.formats.Buffer.A"),
    "levels": (
        "  formats: {Buffer: {A: [{format: CP, ranks: [M]}]}}",
        "each of its ranks once",
        "sparsity.formats.Buffer.A",
    ),
    "last": (
        "  formats: {Buffer: {A: [{format: CP, ranks: [M]}, {format: UOP, ranks: [K]}]}}",
        "the last level of 'A'",
        "sparsity.formats.Buffer.A",
    ),
    "runs": (
        "  formats: {Buffer: {A: [{format: RLE, ranks: [M, K], bits: 2}]}}",
        "do not fit into 2 bits",
        "sparsity.formats.Buffer.A",
    ),
    "saving": (
        "  savings: [{at: Buffer, do: skp, tensors: A, on: B}]",
        "unknown saving 'skp'",
        "sparsity.savings[0].do",
    ),
    "output": ("  savings: [{at: MAC, do: skip, on: Z}]", "'Z' is written by", "sparsity.savings[0].on"),
    "itself": (
        "  savings: [{at: Buffer, do: skip, tensors: A, on: A}]",
        "looked at for itself",
        "sparsity.savings[0].on",
    ),
    "no tensors": ("  savings: [{at: Buffer, do: skip, on: A}]", "none is named", "sparsity.savings[0].at"),
    "tensors": ("  savings: [{at: MAC, do: skip, tensors: A, on: B}]", "no tensors", "sparsity.savings[0].tensors"),
    "nothing": ("  savings: [{at: MAC, do: skip, on: []}]", "on names no tensor", "sparsity.savings[0].on"),
    "no set": ("  savings: [{at: MAC, do: skip, on: A & B}]", "on names no tensor", "sparsity.savings[0].on"),
    "no targets": (
        "  savings: [{at: Buffer, do: skip, tensors: [], on: A}]",
        "tensors names no tensor",
        "sparsity.savings[0].tensors",
    ),
    "name of a file": (
        "  densities: {A: a.npy}",
        "must be a number, found 'a.npy'\n  hint: for the zeros of a file write {file: 'a.npy'}",
        "sparsity.densities.A",
    ),
    "gain": (
        "  energies: {MAC: {gated_compute: -1e-12}}",
        "gated_compute must be >= 0, found -1e-12",
        "sparsity.energies.MAC.gated_compute",
    ),
    "energy": ("  energies: {MAC: {gated_read: 1}}", "does not do gated_read", "sparsity.energies.MAC.gated_read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_at_its_place(name):
    text, message, path = REFUSED[name]
    with pytest.raises(SpecError) as caught:
        einmap.evaluate(spec_of(text))
    assert message in str(caught.value)
    assert path in str(caught.value.at)


def test_densities_without_formats_and_savings_change_nothing():
    dense = einmap.evaluate(einmap.loads(BASE))
    assert einmap.evaluate(spec_of("  densities: {A: 0.1, B: 1}")) == dense


def test_savings_without_zeros_save_nothing():
    dense = einmap.evaluate(einmap.loads(BASE))
    full = einmap.evaluate(
        spec_of("  densities: {A: 1}\n  savings: [{at: MAC, do: skip, on: A}, {at: Main, do: gate, tensors: Z, on: B}]")
    )
    assert {(r.component, r.tensor, r.action): r.count for r in full.actions} == {
        (r.component, r.tensor, r.action): r.count for r in dense.actions
    }
    assert (full.energy, full.latency) == (dense.energy, dense.latency)


def test_energy_and_time_by_hand():
    # 128 operations; A has 8 nonzeros of 32, so that 32 operations are left, and 96 are gated at 0.5 J
    text = "  densities: {A: {structured: [2, 8]}}\n  savings: [{at: MAC, do: gate, on: A}]\n  energies: {MAC: {gated_compute: 0.5}}"
    dense, gated = einmap.evaluate(einmap.loads(BASE)), einmap.evaluate(spec_of(text))
    assert gated.energy == dense.energy - 96 * 1 + 96 * 0.5
    assert gated.latency == dense.latency
    skipped = einmap.evaluate(spec_of(text.replace("gate,", "skip,")))
    assert {r.component: r.latency for r in skipped.latencies}["MAC"] == 32 / 2


def test_the_fullest_tile_has_to_fit():
    # a row of A: at most 8 of 9 nonzeros, each with a coordinate of 5 bits
    text = "  densities: {A: 9 / 32}\n  formats: {Buffer: {A: coo}}"
    (row,) = einmap.evaluate(spec_of(text)).tiles
    assert (row.dense, row.worst, row.expected) == (64, 8 * (8 + 5), 9 / 4 * (8 + 5))
    with pytest.raises(EinmapError, match="needs 104 bits"):
        einmap.evaluate(spec_of(text, BASE.replace("4096", "100")))


def test_model_and_execution_are_compared():
    saving = "  savings: [{at: MAC, do: skip, on: A}]"
    for density, is_same in (("{uniform: 0.5, seed: 3}", True), ("0.5", False)):
        spec = spec_of(
            f"  densities: {{A: {density}, B: 0.5}}\n{saving}"
            if not is_same
            else f"  densities: {{A: {density}}}\n{saving}"
        )
        compared = compare(spec, einmap.evaluate(spec), execute(spec))
        assert compared.agrees
        rows = {(row.component, row.action): row for row in compared.actions}
        assert rows["MAC", "skipped_compute"].model == 64


@pytest.mark.parametrize("use", [einmap.emit, partial(einmap.emit, fast=True), ski_slope])
def test_who_does_not_know_zeros_says_so(use):
    with pytest.raises(NotSupportedError, match="does not know zeros"):
        use(spec_of("  densities: {A: 0.5}"))


def test_expected_counts_are_means_of_runs():
    text = "  densities: {A: 0.4, B: {structured: [1, 4]}}\n  formats: {Main: {B: coo}}\n  savings:\n  - {at: Main, do: gate, tensors: Z, on: B}\n"
    spec = spec_of(text + "  - {at: Buffer, do: skip, tensors: A, on: B}\n  - {at: MAC, do: gate, on: A | B}")
    expected = {(r.component, r.tensor, r.action): r.count for r in einmap.evaluate(spec).actions}
    runs = [{(r.component, r.tensor, r.action): r.count for r in execute(spec, seed=n).actions} for n in range(60)]
    for key, count in expected.items():
        counts = np.array([run.get(key, 0) for run in runs])
        assert abs(counts.mean() - count) <= 3 * counts.std(ddof=1) / len(runs) ** 0.5 + 1e-9


def test_masks_are_not_spread_over_all_operations():
    base = BASE.replace("M: 4, N: 4, K: 8", "M: 64, N: 64, K: 64").replace("Buffer 4096", "Buffer 65536")
    masks = "{A: {uniform: 0.5, seed: 1}, B: {uniform: 0.5, seed: 2}}"
    spec = spec_of(f"  densities: {masks}\n  savings: [{{at: MAC, do: skip, on: A | B}}]", base)
    einmap.evaluate(spec)
    tracemalloc.start()
    einmap.evaluate(spec)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 64**3


def test_data_says_where_zeros_are():
    data = {"A": np.eye(4, 8), "B": np.ones((4, 8))}
    execution = execute(spec_of("  densities: {A: 0.5}\n  savings: [{at: MAC, do: skip, on: A}]"), data)
    assert execution.steps == {"Z": 16}
    assert (execution.tensors["Z"] == data["A"] @ data["B"].T).all()


def test_reports_show_what_is_saved():
    text = "  densities: {A: 0.5}\n  formats: {Buffer: {A: coo}}\n  savings: [{at: MAC, do: skip, on: A}]"
    spec = spec_of(text)
    cost = einmap.evaluate(spec)
    report = to_text(cost_report(cost, spec, spec.mapping), 120)
    assert "Zeros: what is done of all actions" in report
    (line,) = (line for line in report.splitlines() if "compute" in line and "MAC" in line and "50%" in line)
    assert line.split() == ["MAC", "-", "compute", "64", "-", "64", "-", "50%"]
    execution = execute(spec)
    assert "means over masks" in to_text(simulation_report(compare(spec, cost, execution), execution, spec))
    dense = einmap.loads(BASE)
    assert "Zeros" not in to_text(cost_report(einmap.evaluate(dense), dense, dense.mapping))


@pytest.mark.parametrize("write", [timeloop.write, scalesim.write])
def test_files_of_tools_that_are_written_dense_say_so(write):
    left = [entry.key for entry in write(spec_of("  densities: {A: 0.5}")).left_out]
    assert "sparsity" in left
    dense = einmap.load("simple", "matmul")
    assert "sparsity" not in [entry.key for entry in write(dense).left_out]


@pytest.mark.parametrize(
    ("density", "told"),
    [
        ("{band: 1}", "sparsity.densities.A.band: expected a list, found 1"),
        ("{structured: 2, along: K}", "sparsity.densities.A.structured: expected a list, found 2"),
        ("{file: 3}", "sparsity.densities.A.file: expected text, found 3"),
        ("{unifrom: 0.2}", "sparsity.densities.A.unifrom: unknown field 'unifrom' of Density"),
        ("[2, 4]", "sparsity.densities.A: expected true or false, a number or text, found a list"),
    ],
)
def test_of_a_density_only_what_is_wrong_with_its_own_form_is_told(density, told):
    with pytest.raises(EinmapError) as found:
        einmap.evaluate(spec_of(f"  densities: {{A: {density}}}"))
    text = str(found.value)
    assert told in text and "union" not in text and text.count("sparsity.densities") == 1


@pytest.mark.parametrize(
    ("formats", "place", "said"),
    [
        ("[{format: CP}]", "A[0]", "FormatLevel needs the field 'ranks'"),
        ("[csr, [{format: CP, ranks: [M, K], bit: 4}]]", "A[1][0].bit", "unknown field 'bit' of FormatLevel"),
        ("{format: CP, ranks: [M, K]}", "A", "levels of a format are a list, such as"),
        ("{nam: csr}", "A", "NamedFormat needs the field 'name'"),
        ("[{format: U, ranks: [M, K], bits: 3}]", "A", "a level of U has no metadata, found bits of it for 'A'"),
    ],
)
def test_what_is_wrong_in_a_format_is_said_of_the_form_that_is_written(formats, place, said):
    with pytest.raises(EinmapError) as error:
        _ = spec_of(f"  formats: {{Main: {{A: {formats}}}}}\n").sparsity
    assert f"sparsity.formats.Main.{place}: {said}" in str(error.value)


@pytest.mark.parametrize(
    ("density", "said"),
    [
        ("{uniform: 0.5, along: K}", "along is the rank of structured, and the density of 'A' is uniform"),
        ("{band: [1, 1], along: K}", "along is the rank of structured, and the density of 'A' is band"),
        ("25%", "density of 'A' must be a number from 0 to 1, found '25%'\n  hint: write 0.25"),
    ],
)
def test_a_density_is_refused_with_what_to_write(density, said):
    with pytest.raises(SpecError) as error:
        _ = spec_of(f"  densities: {{A: {density}}}\n").sparsity
    assert said in str(error.value)


def test_a_key_without_a_value_is_named_where_it_stands(tmp_path):
    (tmp_path / "spec.yaml").write_text(BASE + "\nsparsity:\n  densities:\n  formats: {}\n")
    line = 1 + BASE.count("\n") + 2
    with pytest.raises(SpecError, match=rf"spec\.yaml:{line}:3: sparsity\.densities: expected a dictionary"):
        _ = einmap.load(tmp_path / "spec.yaml").sparsity


def test_a_mask_of_another_shape_is_refused_with_the_ranks_in_their_order(tmp_path):
    np.save(tmp_path / "turned.npy", np.ones((8, 4)))
    (tmp_path / "spec.yaml").write_text(BASE + "\nsparsity: {densities: {A: {file: turned.npy}}}\n")
    with pytest.raises(SpecError, match=r"has shape \(8, 4\), the tensor has \(4, 8\)") as found:
        _ = einmap.load(tmp_path / "spec.yaml").sparsity
    assert found.value.hint == "the ranks of 'A' are {M: 4, K: 8}, in this order"


def test_a_saving_looks_at_what_each_einsum_reads():
    """T is written by one Einsum and read by the next: `A | T` names what either of them reads."""
    base = (
        machine("Main inf 2/3 @8 / MAC 1 @2")
        + workload("M: 4, N: 4, K: 4", "T[m, n] = A[m, k] * B[n, k]", "Z[m, n] = T[m, n] * C[n]")
        + nest("Main: A B T C Z / (m 1 / n 1 / k 1 / T @ MAC | m 1 / n 1 / Z @ MAC)")
    )
    bound = spec_of("  savings: [{at: MAC, do: skip, on: A | T}]\n", base).sparsity
    assert {name: saving.on for name, one in bound.items() for saving in one.savings} == {"T": ("A",), "Z": ("T",)}
    with pytest.raises(SpecError, match="'Z' is written by 'Z', and nothing waits for its zeros"):
        _ = spec_of("  savings: [{at: MAC, do: skip, on: A | Z}]\n", base).sparsity


def test_a_saved_action_that_costs_more_than_one_that_is_done_is_noted():
    text = "  savings: [{at: MAC, do: gate, on: A}]\n  energies: {MAC: {gated_compute: ENERGY}}\n"
    usual = spec_of(text.replace("ENERGY", "0")).arch().find("MAC").action("compute").energy
    notes = [
        [str(n.text) for n in einmap.evaluate(spec_of(text.replace("ENERGY", str(e)))).notes]
        for e in (usual, 1000 * usual)
    ]
    assert not any("gated_compute" in note for note in notes[0])
    assert any("MAC: gated_compute takes 1 kJ, more than compute, which takes 1 J" in note for note in notes[1])
