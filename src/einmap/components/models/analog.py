"""Converters, embedded DRAM and shift-and-add units of compute in memory at 32 nm.

Source: A. Shafiee et al., "ISAAC: a convolutional neural network accelerator with in-situ analog arithmetic in
crossbars", ISCA 2016, table I.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel, Origin, Values
from einmap.components.models.inputs import (
    BITS_PER_ACTION,
    CYCLE,
    DEPTH,
    SIZE,
    VOLTAGE,
    moved_bits,
    row,
    tech_node,
    width,
)
from einmap.components.models.technology import area_factor, area_steps, energy_factor, energy_steps, voltage_energy

SOURCE = "Shafiee et al., ISAAC, ISCA 2016, table I, 32 nm"
NODE = 32e-9


def _estimate(values: Values, spent: float, area: float, actions: tuple[str, ...]) -> Estimate:
    """Costs at 32 nm (J, m^2) taken to the node and voltage of `values`."""
    node, voltage = values.number("tech_node"), values.get("voltage")
    steps = energy_steps(NODE, node, voltage)
    scaled = spent * energy_factor(NODE, node) * voltage_energy(voltage)
    cost = ActionCost(scaled, 1 / values.number("cycle_period"), SOURCE, steps)
    leak = Origin("0: within the energy, the source gives power at work")
    return Estimate(
        area * area_factor(NODE, node),
        0.0,
        dict.fromkeys(actions, cost),
        SOURCE,
        steps,
        log=(*steps, f"leakage {leak.source}"),
        area_from=Origin(SOURCE, area_steps(NODE, node)),
        leak_from=leak,
    )


def _adc(values: Values) -> Estimate:
    """Energy and area double with each bit (figure of merit of Walden). Converters work side by side."""
    steps, count = 2 ** (values.number("resolution") - 8), values.number("n_adcs")
    estimate = _estimate(values, 1.6667e-12 * steps, 0.0012e-6 * steps * count, ("convert",))
    cost = estimate.actions["convert"]
    rate = values.get("throughput") or cost.throughput * count
    return replace(estimate, actions={"convert": replace(cost, throughput=rate)})


def _dac(values: Values) -> Estimate:
    """One conversion of one row; each further bit doubles it. Rows work side by side: more area, higher throughput."""
    rows, doubled = values.number("rows"), 2 ** (values.number("resolution") - 1)
    estimate = _estimate(values, 0.41667e-12 * doubled, 0.00017e-6 / 1024 * rows * doubled, ("convert",))
    cost = estimate.actions["convert"]
    return replace(estimate, actions={"convert": replace(cost, throughput=cost.throughput * rows)})


def _edram(values: Values) -> Estimate:
    size = values.get("size") or (values.get("depth") or 2048) * values.number("width")
    return _estimate(values, 20.45e-12 * moved_bits(values) / 256, 0.083e-6 * size / (64 * 8192), ("read", "write"))


def _bus(values: Values) -> Estimate:
    """384 wires past twelve crossbar units, of which a bit travels to one."""
    return _estimate(values, 0.054e-12 * moved_bits(values), 0.090e-6 * values.number("width") / 384, ("transfer",))


def _shift_add(values: Values) -> Estimate:
    share = values.number("width") / 16
    return _estimate(values, 0.021e-12 * share, 0.00006e-6 * share, ("shift_add",))


def _model(
    name: str,
    summary: str,
    actions: tuple[str, ...],
    price: Callable[[Values], Estimate],
    inputs: tuple[Attribute, ...],
    aliases: tuple[str, ...],
) -> FormulaModel:
    attributes = (*inputs, tech_node(), VOLTAGE, CYCLE)
    synonyms = {"fill": "write", "update": "write"}
    return FormulaModel(name, summary, SOURCE, attributes, actions, price, aliases, synonyms)


def _resolution(default: float, most: float) -> Attribute:
    meaning = "bits of a converted value"
    return Attribute("resolution", "bits", meaning, default, 1, most, ("n_bits", "bits"), is_size=True)


_ROWS = Attribute("rows", "", "rows that are driven at a time", 1, 1, 1024, ("n_rows",))
_ADCS = Attribute("n_adcs", "", "converters that work side by side", 1, 1, 1024)
_THROUGHPUT = Attribute(
    "throughput", "1/s", "conversions of all converters in a second; without it, one each in a cycle", optional=True
)
MODELS = (
    _model(
        "ADC",
        "analog-to-digital converters",
        ("convert",),
        _adc,
        (_resolution(8, 12), _ADCS, _THROUGHPUT),
        ("isaacadc", "sar_adc", "pim_adc", "cim_adc"),
    ),
    _model("DAC", "digital-to-analog converters", ("convert",), _dac, (_resolution(1, 4), _ROWS), ("isaacdac",)),
    _model(
        "EDRAM",
        "embedded DRAM",
        ("read", "write"),
        _edram,
        (row(256, 8, 1024, "bits of an access"), SIZE, DEPTH, BITS_PER_ACTION),
        ("isaacedram",),
    ),
    _model(
        "EDRAMBus",
        "bus between embedded DRAM and crossbars",
        ("transfer",),
        _bus,
        (width(1, 1, 1024, "wires"), BITS_PER_ACTION),
        ("isaacedrambus",),
    ),
    _model("ShiftAdd", "shift-and-add unit", ("shift_add",), _shift_add, (width(16, 4, 64),), ("isaacshiftadd",)),
)
"""Models of compute in memory."""
