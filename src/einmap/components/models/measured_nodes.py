"""Figures that are published for 45 nm and for 7 nm: arithmetic and caches.

Sources: M. Horowitz, "Computing's energy problem", ISSCC 2014, fig. 1.1.9 (45 nm, 0.9 V); N. Jouppi et al., "Ten
lessons from three generations shaped Google's TPUv4i", ISCA 2021, table 2 (7 nm). Between the nodes a power law of the
feature size goes through both; outside, energies scale by Stillmaker and Baas. Wires and arrays shrink less than logic,
so two published nodes are better than one that is scaled.
"""

from __future__ import annotations

import math
from dataclasses import replace

from einmap.components.base import Estimate, FormulaModel, Values
from einmap.components.models.inputs import CYCLE, VOLTAGE, tech_node, width
from einmap.components.models.logic import Unit, adder, estimate_unit, multiplier
from einmap.components.models.technology import (
    NOMINAL_VOLTAGE,
    STILLMAKER,
    energy_factor,
    power_law,
    voltage_energy,
)

SOURCE = "Horowitz, ISSCC 2014, fig. 1.1.9 (45 nm); Jouppi et al., ISCA 2021, table 2 (7 nm)"
OLD, NEW = 45e-9, 7e-9
_LOGIC_NODE = 40e-9

type Points = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Widths in bits, pJ at 45 nm, pJ at 7 nm."""
INTEGER_ADD: Points = ((8, 32), (0.03, 0.1), (0.007, 0.03))
INTEGER_MULTIPLY: Points = ((8, 32), (0.2, 3.1), (0.07, 1.48))
FLOATING_ADD: Points = ((16, 32), (0.4, 0.9), (0.16, 0.38))
FLOATING_MULTIPLY: Points = ((16, 32), (1.1, 3.7), (0.34, 1.31))


def at_node(old: float, new: float, node: float) -> float:
    """An energy at `node` (m) from the ones at 45 nm and 7 nm."""
    if node > OLD:
        return old * energy_factor(OLD, node)
    return power_law(node, (NEW, OLD), (new, old)) if node > NEW else new * energy_factor(NEW, node)


def node_steps(node: float, voltage: float | None) -> tuple[str, ...]:
    """Phrases for the provenance of an energy at `node` and `voltage`."""
    steps: tuple[str, ...] = ()
    if node > OLD:
        steps += (f"scaled 45 nm -> {node * 1e9:g} nm by {STILLMAKER}: x {energy_factor(OLD, node):.4g}",)
    elif NEW < node < OLD:
        steps += (f"{node * 1e9:g} nm by a power law between 45 nm and 7 nm",)
    elif node < NEW:
        steps += (f"scaled 7 nm -> {node * 1e9:g} nm in proportion",)
    if voltage is not None and voltage != NOMINAL_VOLTAGE:
        steps += (f"scaled {NOMINAL_VOLTAGE} V -> {voltage:g} V by V^2: x {voltage_energy(voltage):.4g}",)
    return steps


def energy(points: Points, bits: float, node: float) -> float:
    """J of an operation of `bits` at `node`: power laws of the width through the points."""
    widths, old, new = points
    return 1e-12 * at_node(power_law(bits, widths, old), power_law(bits, widths, new), node)


def _estimate(values: Values, spent: float, logic: Unit, action: str) -> Estimate:
    """An estimate of energy `spent` (J), with area and leakage of a unit of logic at 40 nm."""
    node, voltage = values.number("tech_node"), values.get("voltage")
    plain = estimate_unit(logic, values, (action,), SOURCE, _LOGIC_NODE)
    cost = plain.actions[action]
    steps = node_steps(node, voltage)
    priced = type(cost)(spent * voltage_energy(voltage), cost.throughput, SOURCE, steps)
    note = "area and leakage: integer units of Shao et al., Aladdin, ISCA 2014, by width"
    return replace(plain, actions={action: priced}, source=SOURCE, scaling=steps, log=(*steps, note))


def _model(name: str, aliases: tuple[str, ...], action: str, parts: tuple[Points, ...]) -> FormulaModel:
    """An adder, a multiplier, or both for a multiply-accumulate."""

    def price(values: Values) -> Estimate:
        bits, node = values.number("width"), values.number("tech_node")
        logic = Unit(0, 0, 0)
        if INTEGER_MULTIPLY in parts or FLOATING_MULTIPLY in parts:
            logic = logic.plus(multiplier(bits, bits))
        if INTEGER_ADD in parts or FLOATING_ADD in parts:
            logic = logic.plus(adder(bits))
        return _estimate(values, sum(energy(points, bits, node) for points in parts), logic, action)

    floating = parts[0] in (FLOATING_ADD, FLOATING_MULTIPLY)
    kind = "floating-point" if floating else "integer"
    least, most = (16, 32) if floating else (8, 32)
    what = {"add": "adder", "multiply": "multiplier", "mac": "multiplier and adder"}[action]
    attributes = (width(16 if floating else 8, least, most), tech_node(), VOLTAGE, CYCLE)
    return FormulaModel(name, f"{kind} {what}", SOURCE, attributes, (action,), price, aliases)


def cache_energy(size: float, node: float) -> float:
    """J of a 64-bit access to a cache of `size` bits at `node`; below 8 KB with the square root of the size."""
    kilobytes = size / 8 / 1024
    sizes, old, new = (8.0, 32.0, 1024.0), (10.0, 20.0, 100.0), (7.5, 8.5, 14.0)
    inside = max(kilobytes, sizes[0])
    small = math.sqrt(min(1.0, kilobytes / sizes[0]))
    return 1e-12 * small * at_node(power_law(inside, sizes, old), power_law(inside, sizes, new), node)


MODELS = (
    _model("HorowitzAdder", (), "add", (INTEGER_ADD,)),
    _model("HorowitzMultiplier", (), "multiply", (INTEGER_MULTIPLY,)),
    _model("HorowitzIntMAC", (), "mac", (INTEGER_MULTIPLY, INTEGER_ADD)),
    _model("FPAdder", ("floatadder", "horowitzfpadder"), "add", (FLOATING_ADD,)),
    _model("FPMultiplier", ("floatmultiplier", "horowitzfpmultiplier"), "multiply", (FLOATING_MULTIPLY,)),
    _model("FPMAC", ("floatmac", "horowitzfpmac"), "mac", (FLOATING_MULTIPLY, FLOATING_ADD)),
)
"""Models of arithmetic."""
