"""Integer arithmetic and small logic at 40 nm.

Source: Y. S. Shao et al., "Aladdin", ISCA 2014 (power and area of functional units, 40 nm, 1 ns).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel, Origin, Values
from einmap.components.models.inputs import CYCLE, VOLTAGE, row, tech_node, width
from einmap.components.models.technology import (
    area_factor,
    area_steps,
    energy_factor,
    energy_steps,
    leak_factor,
    leak_steps,
    voltage_energy,
    voltage_leak,
)

SOURCE = "Shao et al., Aladdin, ISCA 2014, 40 nm, 1 ns"
NODE = 40e-9
_LEAK_DENSITY = 2.40e-6 / 278e-12
"""W/m^2 of the adder, taken for units whose leakage the source does not give here."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A functional unit at the node of its source: energy of one operation (J), area (m^2), leakage (W), cycle (s)."""

    energy: float
    area: float
    leak: float
    cycle: float = 1e-9

    def times(self, energy: float, area: float | None = None) -> Unit:
        """A unit `energy` times as costly; its area and leakage grow by `area`, or as the energy."""
        larger = energy if area is None else area
        return Unit(self.energy * energy, self.area * larger, self.leak * larger, self.cycle)

    def plus(self, other: Unit) -> Unit:
        """Two units side by side that work at a time."""
        return Unit(
            self.energy + other.energy, self.area + other.area, self.leak + other.leak, max(self.cycle, other.cycle)
        )


def estimate_unit(unit: Unit, values: Values, actions: tuple[str, ...], source: str, node: float) -> Estimate:
    """Costs of a unit at the node and voltage of `values`."""
    target, voltage = values.number("tech_node"), values.get("voltage")
    cycle = values.get("cycle_period") or unit.cycle
    steps = energy_steps(node, target, voltage)
    cost = ActionCost(unit.energy * energy_factor(node, target) * voltage_energy(voltage), 1 / cycle, source, steps)
    leak = unit.leak * leak_factor(node, target) * voltage_leak(voltage)
    return Estimate(
        unit.area * area_factor(node, target),
        leak,
        dict.fromkeys(actions, cost),
        source,
        steps,
        log=steps,
        area_from=Origin(SOURCE, area_steps(node, target)),
        leak_from=Origin(SOURCE, leak_steps(node, target, voltage)),
    )


def unit(energy: float, area: float, leak: float | None = None, cycle: float = 1e-9) -> Unit:
    """A unit from figures in pJ, um^2, and W."""
    return Unit(energy * 1e-12, area * 1e-12, area * 1e-12 * _LEAK_DENSITY if leak is None else leak, cycle)


ADDER = unit(0.21, 278, 2.40e-6)
MULTIPLIER = unit(12.68, 6350, 80e-6)
REGISTER_BIT = unit(0.009, 5.98)
COMPARATOR = unit(0.02947, 71)
COUNTER = unit(0.25074, 495.5)
SHIFTER = unit(0.417, 250)
BITWISE = unit(0.0181, 50.4)
CROSSBAR_PORT = unit(0.6804, 569.5, cycle=2e-9)
FLOATING_ADDERS = (unit(16.679, 4360), unit(43.754, 9880))
FLOATING_MULTIPLIERS = (unit(35.3, 4360), unit(113.763, 8970))
"""32 and 64 bits."""


def adder(bits: float) -> Unit:
    """A ripple of bits: linear in the width."""
    return ADDER.times(bits / 32)


def multiplier(bits_a: float, bits_b: float) -> Unit:
    """An array of partial products: linear in both widths."""
    return MULTIPLIER.times(bits_a * bits_b / 32**2)


def _linear(per_word: Unit) -> Callable[[Values], Unit]:
    """A unit of 32 bits, linear in the width."""
    return lambda values: per_word.times(values.number("width") / 32)


def _multiplier(values: Values) -> Unit:
    width_a = values.get("width_a") or values.get("width") or 32
    return multiplier(width_a, values.get("width_b") or values.get("width") or width_a)


def _mac(values: Values) -> Unit:
    bits = values.get("multiplier_width") or values.get("width") or 32
    return multiplier(bits, bits).plus(adder(values.get("adder_width") or 2 * bits))


def _register(values: Values) -> Unit:
    size = values.get("size") or values.number("width")
    return REGISTER_BIT.times(values.number("width"), size)


def _crossbar(values: Values) -> Unit:
    """Linear in width and outputs for each input."""
    per_input = CROSSBAR_PORT.times(values.number("width") / 32 * values.number("n_outputs") / 4)
    return per_input.times(1, values.number("n_inputs"))


def _multiplexer(values: Values) -> Unit:
    """A tree of 2:1 selections, each a bitwise operation; one path of it works in an action."""
    inputs = values.number("n_inputs")
    per_level = BITWISE.times(values.number("width") / 32)
    return per_level.times(max(1.0, math.log2(inputs)), max(1.0, inputs - 1))


def _by_format(units: tuple[Unit, Unit]) -> Callable[[Values], Unit]:
    """Between 32 and 64 bits a power law of the width, extended on both sides."""

    def at_width(values: Values) -> Unit:
        doublings = _doublings(values.number("width"))
        narrow, wide = units
        energy = (wide.energy / narrow.energy) ** doublings
        return narrow.times(energy, (wide.area / narrow.area) ** doublings)

    return at_width


def _doublings(bits: float) -> float:
    """Doublings of the width from 32 bits on."""
    return math.log2(bits / 32)


def _model(
    name: str,
    summary: str,
    aliases: tuple[str, ...],
    action: str,
    at: Callable[[Values], Unit],
    inputs: tuple[Attribute, ...],
) -> FormulaModel:
    """A model of a unit of Aladdin."""
    attributes = (*inputs, tech_node(), VOLTAGE, CYCLE)

    def price(values: Values) -> Estimate:
        return estimate_unit(at(values), values, (action,), SOURCE, NODE)

    return FormulaModel(name, summary, SOURCE, attributes, (action,), price, aliases)


def _operands(least: float = 1, most: float = 64, *, unless: tuple[str, ...] = ()) -> tuple[Attribute, ...]:
    return (replace(width(32, least, most), unless=unless),)


def _optional(name: str, meaning: str) -> Attribute:
    return Attribute(name, "bits", meaning, None, 1, 64, optional=True, is_size=True)


_SPANS = (_optional("width_a", "bits of the first operand"), _optional("width_b", "bits of the second operand"))
_MAC_WIDTHS = (
    _optional("multiplier_width", "bits of the multiplier; without it, the width"),
    _optional("adder_width", "bits of the adder; without it, twice those of the multiplier"),
)
_INPUTS = Attribute("n_inputs", "", "inputs", 2, 2, 64, ("n_in",), is_size=True)
_OUTPUTS = Attribute("n_outputs", "", "outputs", 4, 1, 64, ("n_out",), is_size=True)
_REGISTER_SIZE = Attribute("size", "bits", "bits in all; without it, the width", optional=True, is_size=True)

MODELS = (
    _model("AladdinAdder", "integer adder", ("adder", "intadder"), "add", _linear(ADDER), _operands()),
    _model(
        "AladdinMultiplier",
        "integer multiplier",
        ("multiplier", "intmultiplier"),
        "multiply",
        _multiplier,
        (*_operands(unless=("width_a", "width_b")), *_SPANS),
    ),
    _model(
        "AladdinIntMAC",
        "integer multiplier and adder",
        ("intmac", "mac", "aladdinmac"),
        "mac",
        _mac,
        (*_operands(unless=("multiplier_width",)), *_MAC_WIDTHS),
    ),
    _model("AladdinComparator", "comparator", ("comparator",), "compare", _linear(COMPARATOR), _operands()),
    _model("AladdinCounter", "counter", ("counter", "intcounter"), "count", _linear(COUNTER), _operands()),
    _model("AladdinShifter", "barrel shifter", ("shifter",), "shift", _linear(SHIFTER), _operands()),
    _model("AladdinBitwise", "bitwise operation", ("bitwise", "gate"), "compute", _linear(BITWISE), _operands()),
    _model(
        "Multiplexer",
        "multiplexer of 2:1 selections, each priced as a bitwise operation",
        ("mux", "aladdinmux"),
        "select",
        _multiplexer,
        (*_operands(), _INPUTS),
    ),
    _model(
        "AladdinRegister",
        "register of flip-flops",
        ("register", "reg", "flipflop"),
        "read",
        _register,
        (row(1, 1, 4096, "bits that are read or written at a time"), _REGISTER_SIZE),
    ),
    _model(
        "AladdinCrossbar",
        "crossbar",
        ("crossbar", "xbar"),
        "transfer",
        _crossbar,
        (*_operands(1, 512), replace(_INPUTS, default=1, least=1), _OUTPUTS),
    ),
    _model(
        "AladdinFPAdder",
        "floating-point adder, synthesised",
        (),
        "add",
        _by_format(FLOATING_ADDERS),
        _operands(32, 64),
    ),
    _model(
        "AladdinFPMultiplier",
        "floating-point multiplier, synthesised",
        (),
        "multiply",
        _by_format(FLOATING_MULTIPLIERS),
        _operands(32, 64),
    ),
)
"""Models of functional units."""
