"""Wires by length, routers, and links between chips.

Wire: S. Keckler et al., "GPUs and the future of parallel computing", IEEE Micro 31(5), 2011: 256 bits over 10 mm take
310 pJ at 40 nm, 0.9 V. Router and links: A. Shafiee et al., "ISAAC", ISCA 2016, table I; Simba, MICRO 2019.
"""

from __future__ import annotations

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel, Origin, Values
from einmap.components.models.inputs import BITS_PER_ACTION, CYCLE, VOLTAGE, moved_bits, tech_node, width
from einmap.components.models.technology import (
    area_factor,
    area_steps,
    energy_factor,
    energy_steps,
    power_law,
    voltage_energy,
)

WIRE_SOURCE = "Keckler et al., IEEE Micro 31(5), 2011: 310 pJ for 256 bits over 10 mm at 40 nm; 200 pJ at 10 nm"
ROUTER_SOURCE = "Shafiee et al., ISAAC, ISCA 2016, table I, 32 nm"
LINK_SOURCE = "Shafiee et al., ISAAC, ISCA 2016, table I (HyperTransport links, 128 bits)"
SIMBA_SOURCE = "Shao et al., Simba, MICRO 2019: ground-referenced signalling, 16 nm"


def wire_energy(length: float, node: float) -> float:
    """J of one bit over `length` (m): capacitance of a length changes little, so a power law between the two nodes."""
    return length / 10e-3 / 256 * 1e-12 * power_law(node, (10e-9, 40e-9), (200.0, 310.0))


def _clocked(
    values: Values, spent: float, area: float, source: str, steps: tuple[str, ...], area_from: Origin | None = None
) -> Estimate:
    """An estimate of a unit that moves a width of bits in each cycle; a value passes it in one cycle."""
    cycle = values.number("cycle_period")
    cost = ActionCost(spent, values.number("width") / moved_bits(values) / cycle, source, steps, delay=cycle)
    leak = Origin("0: within the energy of a transfer")
    return Estimate(area, 0.0, {"transfer": cost}, source, steps, log=steps, area_from=area_from, leak_from=leak)


def _wire(values: Values) -> Estimate:
    node, voltage = values.number("tech_node"), values.get("voltage")
    spent = moved_bits(values) * wire_energy(values.number("length"), node) * voltage_energy(voltage)
    steps: tuple[str, ...] = ()
    if node != 40e-9:
        factor = wire_energy(1, node) / wire_energy(1, 40e-9)
        steps += (f"{node * 1e9:g} nm by a power law between 40 nm and 10 nm: x {factor:.4g}",)
    steps += energy_steps(node, node, voltage)
    return _clocked(values, spent, 0.0, WIRE_SOURCE, steps, Origin("0: not in the source"))


def _router(values: Values) -> Estimate:
    node, voltage = values.number("tech_node"), values.get("voltage")
    spent = 20.74e-12 * moved_bits(values) / 256 * energy_factor(32e-9, node) * voltage_energy(voltage)
    area = 0.151e-6 * values.number("width") / 256 * area_factor(32e-9, node)
    scaled = Origin(ROUTER_SOURCE, area_steps(32e-9, node))
    return _clocked(values, spent, area, ROUTER_SOURCE, energy_steps(32e-9, node, voltage), scaled)


def _link(values: Values) -> Estimate:
    """Links are bound by pins and boards, not by the node: energy and area as published."""
    area = 22.88e-6 * values.number("width") / 128
    return _clocked(values, 26e-12 * moved_bits(values) / 128, area, LINK_SOURCE, ())


def _package_link(values: Values) -> Estimate:
    """Links inside a package: 0.82 to 1.75 pJ a bit, of which the middle is taken."""
    steps = ("middle of 0.82 to 1.75 pJ a bit",)
    spent = 1.285e-12 * moved_bits(values)
    return _clocked(values, spent, 0.0, SIMBA_SOURCE, steps, Origin("0: not in the source"))


_LENGTH = Attribute("length", "m", "length of the wire", 1e-3, 1e-5, 30e-3, ("wire_length", "distance"), is_size=True)
_COMMON = (tech_node(), VOLTAGE, CYCLE, BITS_PER_ACTION)
_ACTION = ("transfer",)

MODELS = (
    FormulaModel(
        "Wire",
        "repeated wires of a length",
        WIRE_SOURCE,
        (width(1, 1, 4096, "wires"), _LENGTH, *_COMMON),
        _ACTION,
        _wire,
        ("wires", "interconnect"),
    ),
    FormulaModel(
        "Router",
        "router of a mesh",
        ROUTER_SOURCE,
        (width(256, 8, 1024, "bits of a flit"), *_COMMON),
        _ACTION,
        _router,
        ("isaacrouter", "noc_router"),
    ),
    FormulaModel(
        "ChipLink",
        "link between chips on a board",
        LINK_SOURCE,
        (width(128, 1, 1024, "bits"), CYCLE, BITS_PER_ACTION),
        _ACTION,
        _link,
        ("isaacchip2chiplink", "chip2chiplink"),
    ),
    FormulaModel(
        "PackageLink",
        "link between chips in one package",
        SIMBA_SOURCE,
        (width(128, 1, 1024, "bits"), CYCLE, BITS_PER_ACTION),
        _ACTION,
        _package_link,
        ("grs", "interposerlink"),
    ),
)
"""Models of networks."""
