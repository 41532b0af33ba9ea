"""Counts that are published: of Eyeriss v2's processing element, of Sparseloop's product of matrices and its exercises."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest

import einmap
from einmap.execute.execute import execute

CHANNELS = json.loads((Path(__file__).parent / "eyeriss_v2_channels.json").read_text())
"""Layers of MobileNet 0.5, with nonzero inputs and weights of each channel (Sparseloop's artifact, MICRO 2022)."""
PE = (
    "DRAM inf 1/1 @inf / ISpad inf 1/1 @8 / WSpad inf 1/1 @8 / PSpad inf 1/1 @8 {ports: {read: 1, write: 1}} / MAC 1 @1"
)


def with_counts(rng, counts, others):
    """A mask with a given number of nonzeros in each channel, wherever they are."""
    mask = np.zeros((len(counts), others), dtype=bool)
    for channel, n in zip(mask, counts, strict=True):
        channel[rng.permutation(others)[:n]] = True
    return mask


def processing_element(layer, folder):
    """One layer on the processing element, with masks of the given counts in two files."""
    of, rng = CHANNELS[layer], np.random.default_rng(1)
    np.save(
        folder / "i.npy",
        with_counts(rng, of["inputs_nonzero_per_channel"], of["E"] * of["F"]).reshape(of["C"], of["E"], of["F"]),
    )
    np.save(folder / "w.npy", with_counts(rng, of["weights_nonzero_per_channel"], of["M"]))
    sizes = ", ".join(f"{rank}: {of[rank]}" for rank in "CMEF")
    (folder / "pe.yaml").write_text(
        machine(PE)
        + workload(sizes, "O[m, e, f] = I[c, e, f] * W[c, m]", bits="All: 1")
        + nest(f"DRAM: I W O / m {of['M'] // 8} / ISpad: I / WSpad: W / PSpad: O / c 1 / e 1 / f 1 / m 1 / O @ MAC")
        + """
sparsity:
  densities: {I: {file: i.npy}, W: {file: w.npy}}
  formats: {DRAM: {I: csf, W: csf}, ISpad: {I: csf}, WSpad: {W: csf}}
  savings:
  - {at: WSpad, do: skip, tensors: W, on: I}
  - {at: PSpad, do: skip, tensors: O, on: I | W}
  - {at: MAC, do: skip, on: I | W}
"""
    )
    return einmap.load(folder / "pe.yaml")


def rows_of(cost):
    return {(r.component, r.tensor, r.action): r.count for r in cost.actions if r.count}


@pytest.mark.parametrize(
    "layer", ["L25", *(pytest.param(n, marks=[pytest.mark.slow, pytest.mark.simulator]) for n in ("L07", "L13", "L21"))]
)
def test_eyeriss_v2_takes_a_cycle_for_each_product_of_nonzeros(layer, tmp_path):
    of = CHANNELS[layer]
    cost = einmap.evaluate(processing_element(layer, tmp_path))
    assert {r.component: r.latency for r in cost.latencies}["MAC"] == of["simulator_cycles"]
    rows = rows_of(cost)
    assert rows["WSpad", "W", "read"] == of["effectual"]
    assert rows["WSpad", "W", "skipped_read"] == of["nnz_weights"] * of["E"] * of["F"] - of["effectual"]
    assert rows["PSpad", "O", "write"] == of["effectual"]


@pytest.mark.parametrize(
    "layer", ["L25", *(pytest.param(n, marks=[pytest.mark.slow, pytest.mark.simulator]) for n in ("L07", "L13", "L21"))]
)
def test_eyeriss_v2_simulated_on_masks(layer, tmp_path):
    of, spec = CHANNELS[layer], processing_element(layer, tmp_path)
    execution = execute(spec)
    assert execution.steps == {"O": of["simulator_cycles"]}
    counted = {(r.component, r.tensor, r.action): r.count for r in execution.actions}
    assert counted == pytest.approx(rows_of(einmap.evaluate(spec)))


# the product of 128 x 128 x 128 values, 8 bits each; coordinates take 14 bits

SIZE = 128
PRODUCT = (
    "DRAM inf 1/1 @2 {bits_per_action: 8, ports: {read: 1, write: 1}}"
    " / Buffer inf 1/1 @2 {bits_per_action: 8, ports: {read: 1, write: 1}}"
    " / Reg inf 1/1 @1 {bits_per_action: 8, ports: {read: 1, write: 1}}"
    " / MAC 1 @1 {skip_initial_output_write: false}"
)
CYCLES = {
    0.01171875: 34056,
    0.02: 58124,
    0.04: 116247,
    0.08: 232490,
    0.1015625: 295152,
    0.19921875: 578952,
    0.3984375: 1157904,
    0.80078125: 3698200,
}


def product_of(density, fmt, do):
    text = (
        machine(PRODUCT)
        + workload(f"M: {SIZE}, N: {SIZE}, K: {SIZE}", "Z[m, n] = A[m, k] * B[n, k]")
        + nest("DRAM: A B Z / n 1 / Buffer: B / m 1 / Buffer: A / Reg: Z / k 1 / Z @ MAC")
        + f"""
sparsity:
  densities: {{A | B: {density}}}
  formats: {{DRAM: {{A | B: {fmt}}}, Buffer: {{A | B: {fmt}}}}}
  savings:
  - {{at: Buffer, do: {do}, tensors: A, on: B}}
  - {{at: Buffer, do: {do}, tensors: B, on: A}}
  - {{at: Reg, do: {do}, tensors: Z, on: A | B}}
  - {{at: MAC, do: {do}, on: A | B}}
"""
    )
    return einmap.loads(text)


@pytest.mark.parametrize(
    "density",
    [
        d if d in (0.02, 0.80078125) else pytest.param(d, marks=[pytest.mark.slow, pytest.mark.simulator])
        for d in CYCLES
    ],
)
def test_sparseloops_product_of_matrices(density):
    effectual = SIZE**3 * (round(density * SIZE**2) / SIZE**2) ** 2
    cost = einmap.evaluate(product_of(density, "bitmask", "gate"))
    assert cost.latency == SIZE**3 + SIZE**2
    assert rows_of(cost)["MAC", None, "compute"] == pytest.approx(effectual)
    cost = einmap.evaluate(product_of(density, "coo", "skip"))
    rounded = density * SIZE**2 != round(density * SIZE**2)
    # Sparseloop rounds up the values of each tensor where the density is not a whole number of them
    assert cost.latency == pytest.approx(CYCLES[density], rel=1e-3 if rounded else 1e-12)


# Sparseloop's exercises (Timeloop exercises, folder sparseloop): the numbers of exercise_counts.csv


def dot_product(sparsity):
    text = (
        machine("Buffer inf 1/1 @inf / MAC 1 @1")
        + workload("M: 1, K: 16", "Z[m] = A[k] * B[k]")
        + nest("Buffer: A B Z / k 1 / Z @ MAC")
        + sparsity
    )
    return einmap.evaluate(einmap.loads(text))


def test_exercise_gating_a_dot_product():
    cost = dot_product("""
sparsity:
  densities: {A: {structured: [4, 16]}}
  savings: [{at: Buffer, do: gate, tensors: B | Z, on: A}]
""")
    bits = 8
    rows = {key: count / (bits if key[1] else 1) for key, count in rows_of(cost).items()}
    assert rows == pytest.approx({
        ("Buffer", "A", "read"): 16,
        ("Buffer", "B", "read"): 4, ("Buffer", "B", "gated_read"): 12,
        ("Buffer", "Z", "read"): 3.75, ("Buffer", "Z", "gated_read"): 11.25,  # 3 and 12 where rounded
        ("Buffer", "Z", "write"): 4, ("Buffer", "Z", "gated_write"): 12,
        ("MAC", None, "compute"): 4, ("MAC", None, "gated_compute"): 12,
    })  # fmt: skip
    assert cost.latency == 16


def test_exercise_skipping_in_a_dot_product():
    cost = dot_product("""
sparsity:
  densities: {A: {structured: [4, 16]}}
  formats: {Buffer: {A: coo}}
  savings: [{at: Buffer, do: skip, tensors: B | Z, on: A}]
""")
    assert cost.latency == 4
    rows = rows_of(cost)
    assert (rows["Buffer", "A", "read"], rows["Buffer", "B", "read"], rows["Buffer", "B", "skipped_read"]) == (
        32,
        32,
        96,
    )
    assert rows["Buffer", "A", "metadata_read"] == 4 * 4  # coordinates of 4 bits


def test_exercise_product_of_two_sparse_matrices():
    text = (
        machine("BackingStorage inf 1/1 @inf / Buffer inf 1/1 @inf / MAC 1 @1")
        + workload("M: 8, N: 8, K: 8", "Z[m, n] = A[m, k] * B[n, k]")
        + nest("BackingStorage: A B Z / Buffer: B Z / m 1 / k 1 / n 1 / Z @ MAC")
        + """
sparsity:
  densities: {A: {structured: [2, 8]}, B: {structured: [4, 8]}}
  formats: {BackingStorage: {A | B: csr}, Buffer: {B: csr}}
  savings:
  - {at: BackingStorage, do: skip, tensors: A, on: B}
  - {at: Buffer, do: skip, tensors: B, on: A}
  - {at: Buffer, do: skip, tensors: Z, on: A | B}
"""
    )
    cost = einmap.evaluate(einmap.loads(text))
    values = {key: count / (8 if key[1] else 1) for key, count in rows_of(cost).items()}
    assert {key: values[key] for key in values if key[2].endswith("read") and "metadata" not in key[2] and key[1] != "Z"} == {
        ("BackingStorage", "A", "read"): 64, ("BackingStorage", "A", "skipped_read"): 64,
        ("BackingStorage", "B", "read"): 32,
        ("Buffer", "B", "read"): 64, ("Buffer", "B", "skipped_read"): 192,
    }  # fmt: skip
    assert values["Buffer", "B", "write"] == 32
    assert (values["Buffer", "Z", "write"], values["Buffer", "Z", "skipped_write"]) == (64, 448)
    assert values["MAC", None, "skipped_compute"] == 448
    assert cost.latency == 64
