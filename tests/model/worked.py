"""Worked examples as tables: what the tests of hand-computed numbers share."""

import pytest
from tests.machines import machine

from einmap import Cost, evaluate, loads

ARCH_A = machine("""
    DRAM inf 10/12 @8 {leak_power: 0.5} / GLB 4096 2/3 @16 {leak_power: 0.25, area: 3}
    MAC 1 @1 {leak_power: 0.125, area: 1}
""")
"""The architecture of most worked examples; one action moves one bit."""


def accelforge(text: str) -> Cost:
    """The cost of a specification by the counting rules of that preset."""
    return evaluate(loads(text), semantics="accelforge")


def counts(cost: Cost) -> dict:
    """Charged actions by (Einsum, tensor, component, action); leakage and zeros left out."""
    found = cost.count_by("einsum", "tensor", "component", "action")
    return {key: value for key, value in found.items() if value}


def energies(cost: Cost) -> dict:
    found = cost.energy_by("einsum", "tensor", "component", "action")
    return {key: value for key, value in found.items() if value and key[3] != "leak"}


def leaks(cost: Cost, einsum: str | None = None) -> dict[str, float]:
    """Leakage by component, of one Einsum or of all together."""
    found: dict[str, float] = {}
    for row in cost.actions:
        if row.action == "leak" and einsum in (None, row.einsum):
            found[row.component] = found.get(row.component, 0) + row.energy
    return found


def latencies(cost: Cost, einsum: str) -> dict[str, float]:
    return {row.component: row.latency for row in cost.latencies if row.einsum == einsum}


def tensor_usages(cost: Cost) -> dict:
    return {(r.einsum, r.tensor, r.component): r.usage for r in cost.memory_usage_by_tensor if r.usage}


def usages(cost: Cost) -> dict[str, float]:
    return {row.component: row.usage for row in cost.memory_usage if row.usage}


def spatial_usages(cost: Cost) -> dict[str, float]:
    return {f"{row.component}.{row.dimension}": row.usage for row in cost.spatial_usage}


def check_table(cost: Cost, table: str, computes: dict[str, int], sizes: dict[str, int]) -> None:
    """Compare all counts, energies and tile sizes with rows of

        einsum tensor component read write E-read E-write bits

    `computes`: operations on MAC by Einsum, each at energy 1. `sizes`: bits of the memories that are not infinite.
    """
    want_counts: dict = {}
    want_energies: dict = {}
    want_usages: dict = {}
    for line in table.strip().splitlines():
        einsum, tensor, component, read, write, energy_read, energy_write, bits = line.split()
        for action, count, energy in (("read", read, energy_read), ("write", write, energy_write)):
            if float(count):
                want_counts[einsum, tensor, component, action] = float(count)
                want_energies[einsum, tensor, component, action] = float(energy)
        if component in sizes and float(bits):
            want_usages[einsum, tensor, component] = float(bits) / sizes[component]
    for einsum, operations in computes.items():
        want_counts[einsum, None, "MAC", "compute"] = operations
        want_energies[einsum, None, "MAC", "compute"] = operations
    assert counts(cost) == pytest.approx(want_counts)
    assert energies(cost) == pytest.approx(want_energies)
    assert tensor_usages(cost) == pytest.approx(want_usages)


def check_totals(cost: Cost, *, latency: float, dynamic: float, leak: float) -> None:
    assert cost.latency == pytest.approx(latency)
    assert cost.energy - cost.leak_energy == pytest.approx(dynamic)
    assert cost.leak_energy == pytest.approx(leak)
    assert cost.energy == pytest.approx(dynamic + leak)
