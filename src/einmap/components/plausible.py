"""Ranges in which energy, area and leakage of a kind of component lie: values outside are likely slips of a unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from einmap.components.models.cells import sram_area
from einmap.units import format_bits, format_si


@dataclass(frozen=True, slots=True)
class Range:
    """A range of a quantity, its unit, and the publication that it is drawn around.

    `typical`: what a value is likely to be, if not the middle of the range.
    """

    least: float
    most: float
    unit: str
    source: str
    typical: float | None = None

    def distance(self, value: float) -> float:
        """Decades from what is typical."""
        return abs(math.log10(value / (self.typical or math.sqrt(self.least * self.most))))


_TPU = "Jouppi et al., ISCA 2021, table 2"
_HOROWITZ = "Horowitz, ISSCC 2014"
_KECKLER = "Keckler et al., IEEE Micro 2011"
# Peak rates: 1 action per millisecond to 10 THz times a million lanes.
_RATES = Range(1e3, 1e19, "/s", "clocks of published accelerators", 1e9)
_RANGES = {
    # From a bit of a flip-flop at 7 nm (about 1 fJ) with a margin of ten, to ten times a bit of a 1 MB cache at 45 nm.
    ("memory", "energy_per_bit"): Range(1e-16, 20e-12, "J", f"{_HOROWITZ}; {_TPU}"),
    # HBM4 3.2 pJ, DDR3 70 pJ.
    ("dram", "energy_per_bit"): Range(0.3e-12, 700e-12, "J", f"{_HOROWITZ}; Malladi et al., ISCA 2012"),
    # Add of 8 bits at 7 nm 7 fJ, of which a tenth for a few bits; multiply of 64 bits at 40 nm 114 pJ.
    ("compute", "energy"): Range(1e-16, 10e-9, "J", f"{_TPU}; Shao et al., Aladdin, ISCA 2014"),
    # A bit over 10 um of wire 1 fJ, between chips 10 pJ.
    ("network", "energy_per_bit"): Range(1e-17, 1e-10, "J", f"{_KECKLER}; Shafiee et al., ISAAC, ISCA 2016"),
    ("compute", "area"): Range(1e-13, 1e-5, "m^2", "Shao et al., Aladdin, ISCA 2014"),
    ("network", "area"): Range(1e-15, 1e-4, "m^2", "Shafiee et al., ISAAC, ISCA 2016, table I"),
    ("dram", "area"): Range(1e-8, 1e-1, "m^2", "dies and packages of JEDEC devices"),
    # A bit 1 pW to 10 uW.
    ("memory", "leak_power_per_bit"): Range(1e-15, 1e-6, "W", "Wang et al., JSSC 43(1), 2008; Aladdin, ISCA 2014"),
    ("compute", "leak_power"): Range(1e-12, 1e-1, "W", "Shao et al., Aladdin, ISCA 2014"),
    ("network", "leak_power"): Range(1e-12, 10.0, "W", "Shafiee et al., ISAAC, ISCA 2016, table I"),
    ("dram", "leak_power"): Range(1e-6, 1e3, "W", "data sheets of JEDEC devices"),
    ("compute", "throughput"): _RATES,
    ("memory", "throughput"): _RATES,
    ("network", "throughput"): _RATES,
    ("dram", "throughput"): _RATES,
}
KINDS = ("memory", "dram", "compute", "network")
"""Kinds that have ranges: on-chip memories, off-chip memories, arithmetic, networks and tolls."""
_POWERS = (3, 6, 9, 12, 15)
"""Powers of ten by which two prefixes differ: pJ for J is 12."""
_LARGEST_BIT = 500e-12
"""m^2 of a bit: 5.98 um^2 of a register of Aladdin at 40 nm, about 50 um^2 at 130 nm, and a margin of ten."""


def implausible(kind: str, quantity: str, value: float) -> str | None:
    """A sentence if `value` is outside what hardware of this kind has, else None.

    `kind` is one of `KINDS`; `quantity` one of energy (J an action), energy_per_bit (J), area (m^2), leak_power (W),
    leak_power_per_bit (W), throughput (actions/s). Zero and infinity are chosen on purpose and never implausible; nor
    are negative values, of which binding speaks, or a quantity without a range.
    """
    span = _RANGES.get((kind, quantity))
    if span is None or value <= 0 or not math.isfinite(value) or span.least <= value <= span.most:
        return None
    words = {"memory": "an on-chip memory", "dram": "an off-chip memory", "compute": "a compute unit"}
    what = quantity.replace("_", " ").replace("per bit", "of a bit")
    return _sentence(f"{what} in {words.get(kind, f'a {kind}')}", value, span)


def implausible_area(size: float, area: float) -> str | None:
    """A sentence if `area` (m^2) cannot hold a memory of `size` bits or is far too large for it, else None.

    The least is a tenth of the cells of SRAM at 7 nm; the most a hundred times register bits at 130 nm, above 1 um^2 in
    each case. An area of 10 mm^2 for 1 KB, meant as 10 um^2, is caught.
    """
    if area <= 0 or not math.isfinite(area) or not math.isfinite(size) or size <= 0:
        return None
    span = Range(sram_area(size, 7e-9) / 10, max(1e-12, size * _LARGEST_BIT), "m^2", "cells of IEDM 2000 to 2017")
    if span.least <= area <= span.most:
        return None
    return _sentence(f"area of {format_bits(size)}", area, span)


def _sentence(thing: str, value: float, span: Range) -> str:
    """The value out of range, the usual range, and the value that was meant if a prefix was forgotten or mistaken."""
    written = f"{value:g} m^2, that is {_shown(value, span)}," if span.unit == "m^2" else f"{_shown(value, span)},"
    usual = f"usual are {_shown(span.least, span)} to {_shown(span.most, span)} ({span.source})"
    meant = min(_candidates(value, span), key=span.distance, default=None)
    question = f"; was {_shown(meant, span)} meant?" if meant is not None else ""
    return f"{thing} is {written} {usual}{question}"


def _candidates(value: float, span: Range) -> Iterator[float]:
    """The value with other prefixes, where that is within the range or a decade of it: squared for areas."""
    for power in _POWERS:
        factor = 10.0 ** (2 * power if span.unit == "m^2" else power)
        near = value * factor if value < span.least else value / factor
        if span.least / 10 <= near <= span.most * 10:
            yield near


def _shown(value: float, span: Range) -> str:
    """A value with its unit; areas in mm^2 or um^2."""
    if span.unit != "m^2":
        return format_si(value, span.unit)
    number, unit = (value * 1e12, "um^2") if value < 1e-8 else (value * 1e6, "mm^2")
    return f"{number:,.0f} {unit}" if 100 <= number < 1e6 else f"{number:.3g} {unit}"
