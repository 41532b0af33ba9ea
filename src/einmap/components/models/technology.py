"""Scaling of energy, area and leakage between technology nodes and voltages.

Source: A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction of CMOS device performance from 180 nm
to 7 nm", Integration 58, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

NODES = (7e-9, 10e-9, 14e-9, 16e-9, 20e-9, 32e-9, 45e-9, 65e-9, 90e-9, 130e-9)
"""Technology nodes of the source, in m."""
_ENERGY = (
    (0.1776, -0.09097, 0.02447),
    (0.2068, -0.09311, 0.02375),
    (0.2363, -0.09675, 0.02239),
    (0.2958, -0.1241, 0.03024),
    (0.373, -0.1582, 0.04104),
    (0.9559, -0.7823, 0.471),
    (1.103, -0.362, 0.2767),
    (3.755, -4.398, 1.975),
    (4.762, -4.781, 2.092),
    (7.171, -6.709, 2.904),
)
"""Energy factors a, b, c of `a V^2 + b V + c`, for each of `NODES`."""
_AREA = (0.059, 0.1, 0.17, 0.19, 0.21, 0.46, 1.0, 1.5, 2.8, 6.4)
"""Area relative to 45 nm, for each of `NODES`."""
REFERENCE_VOLTAGE = 0.8
"""Volts at which energy factors of two nodes are compared."""
NOMINAL_VOLTAGE = 0.9
"""Volts of the digital sources (Horowitz 45 nm, Aladdin 40 nm, Keckler et al. 40 nm)."""
_ENERGY_AT_REFERENCE = tuple(a * REFERENCE_VOLTAGE**2 + b * REFERENCE_VOLTAGE + c for a, b, c in _ENERGY)

STILLMAKER = "Stillmaker and Baas 2017"


def linear(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise linear through the points; outside proportional to x, so that it stays positive and monotone."""
    if x <= xs[0]:
        return ys[0] * x / xs[0]
    if x >= xs[-1]:
        return ys[-1] * x / xs[-1]
    k = next(k for k in range(1, len(xs)) if x <= xs[k])
    return ys[k - 1] + (ys[k] - ys[k - 1]) * (x - xs[k - 1]) / (xs[k] - xs[k - 1])


def power_law(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise power law through the points (straight lines in log-log), the outer pieces extended."""
    k = next((k for k in range(1, len(xs) - 1) if x <= xs[k]), len(xs) - 1)
    slope = math.log(ys[k] / ys[k - 1]) / math.log(xs[k] / xs[k - 1])
    exact = next((y for at, y in zip(xs, ys, strict=True) if at == x), None)
    return exact if exact is not None else ys[k - 1] * (x / xs[k - 1]) ** slope


def energy_factor(source: float, target: float) -> float:
    """Energy at node `target` over energy at node `source` (m), at 0.8 V."""
    return linear(target, NODES, _ENERGY_AT_REFERENCE) / linear(source, NODES, _ENERGY_AT_REFERENCE)


def area_factor(source: float, target: float) -> float:
    """Area at node `target` over area at node `source` (m)."""
    return linear(target, NODES, _AREA) / linear(source, NODES, _AREA)


def leak_factor(source: float, target: float) -> float:
    """Leakage at node `target` over leakage at `source` (m): as total transistor width, with the feature size."""
    return target / source


def area_steps(source: float, target: float) -> tuple[str, ...]:
    """Phrases for the provenance of an area that was scaled by node."""
    if source == target:
        return ()
    return (
        f"scaled {nanometres(source)} -> {nanometres(target)} by {STILLMAKER}: x {area_factor(source, target):.4g}",
    )


def leak_steps(source: float, target: float, voltage: float | None, at: float | None = None) -> tuple[str, ...]:
    """Phrases for the provenance of a leakage that was scaled by node and voltage; `at`: volts of the source."""
    steps: tuple[str, ...] = ()
    if source != target:
        factor = leak_factor(source, target)
        steps += (f"scaled {nanometres(source)} -> {nanometres(target)} by feature size: x {factor:.4g}",)
    before, after = at or NOMINAL_VOLTAGE, voltage or NOMINAL_VOLTAGE
    if before != after:
        steps += (f"scaled {before:g} V -> {after:g} V by V: x {after / before:.4g}",)
    return steps


def nanometres(node: float) -> str:
    """A technology node in words: `45 nm`."""
    return f"{node * 1e9:g} nm"


def voltage_energy(voltage: float | None) -> float:
    """Dynamic energy relative to the nominal voltage: V^2."""
    return 1.0 if voltage is None else (voltage / NOMINAL_VOLTAGE) ** 2


def voltage_leak(voltage: float | None) -> float:
    """Leakage power relative to the nominal voltage: V, at an unchanged current."""
    return 1.0 if voltage is None else voltage / NOMINAL_VOLTAGE


def energy_steps(source: float, target: float, voltage: float | None) -> tuple[str, ...]:
    """Phrases for the provenance of an energy that was scaled by node and voltage."""
    steps: tuple[str, ...] = ()
    if source != target:
        factor = energy_factor(source, target)
        steps += (f"scaled {source * 1e9:g} nm -> {target * 1e9:g} nm by {STILLMAKER}: x {factor:.4g}",)
    if voltage is not None and voltage != NOMINAL_VOLTAGE:
        steps += (f"scaled {NOMINAL_VOLTAGE} V -> {voltage:g} V by V^2: x {voltage_energy(voltage):.4g}",)
    return steps
