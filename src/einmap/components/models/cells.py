"""Area of SRAM from published 6T cells."""

from __future__ import annotations

from einmap.components.models.technology import power_law

CELL_SOURCE = "6T cells: IEDM 2000 (130 nm) to IEDM 2017 (10 nm), Intel; 7 nm TSMC, IEDM 2016"
_CELL_NODES = (7e-9, 10e-9, 14e-9, 22e-9, 32e-9, 45e-9, 65e-9, 90e-9, 130e-9)
_CELLS = (0.027e-12, 0.0312e-12, 0.0588e-12, 0.092e-12, 0.171e-12, 0.346e-12, 0.57e-12, 1.0e-12, 2.0e-12)
"""m^2 of one bit, for each of `_CELL_NODES`."""
ARRAY_EFFICIENCY = 0.6
"""Share of a memory's area that holds cells (assumed; the rest is decoders, sense amplifiers, wires)."""


def sram_area(size: float, node: float) -> float:
    """Area (m^2) of `size` bits at `node`."""
    return size * power_law(node, _CELL_NODES, _CELLS) / ARRAY_EFFICIENCY
