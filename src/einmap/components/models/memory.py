"""On-chip memories: SRAM in banks, buffers with address generators, register files.

Energy of SRAM: cache points of Horowitz, ISSCC 2014 and Jouppi et al., ISCA 2021 (`measured_nodes`), linear in the bits
of an access. Area: published 6T cells and an array efficiency. Register files: 12, 24, 224 words of 16 bits at 65 nm.
"""

from __future__ import annotations

import math
from dataclasses import replace

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel, Origin, Values
from einmap.components.models.cells import ARRAY_EFFICIENCY, CELL_SOURCE, sram_area
from einmap.components.models.inputs import (
    BITS_PER_ACTION,
    CYCLE,
    DEPTH,
    SIZE,
    VOLTAGE,
    capacity,
    moved_bits,
    row,
    tech_node,
)
from einmap.components.models.logic import NODE as LOGIC_NODE
from einmap.components.models.logic import REGISTER_BIT, adder, estimate_unit
from einmap.components.models.measured_nodes import SOURCE as CACHE_SOURCE
from einmap.components.models.measured_nodes import cache_energy, node_steps
from einmap.components.models.network import wire_energy
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

LEAK_SOURCE = "Wang et al., JSSC 43(1), 2008: 12 uA a Mbit, 65 nm, ultra-low-power process"
_LEAK_PER_BIT = 12e-6 * 1.2 / 2**20
"""W at 65 nm and 1.2 V."""

FILE_SOURCE = "Timeloop's and Accelergy's tables of an Eyeriss-like design, 65 nm, 16 bits"
_REGISTER_BITS = "register bits of Shao et al., Aladdin, ISCA 2014"
_FILE_NODE = 65e-9
_FILE_DEPTHS = (12.0, 24.0, 224.0)
_FILE_READS = (0.202442e-12, 0.2513e-12, 1.976602e-12)
_FILE_WRITES = (0.176713e-12, 0.2191e-12, 1.881657e-12)
"""J of a 16-bit word, for each of `_FILE_DEPTHS`."""

BANKS = Attribute("n_banks", "", "banks, one of which works in an action", 1, 1, 256, ("banks", "num_banks"))
PORTS = Attribute("n_rw_ports", "", "accesses in one cycle", 1, 1, 4, ("n_ports", "ports"))


def sram_energy(size: float, banks: float, node: float) -> float:
    """J of one bit read or written: a bank's share, and the way from the middle of the memory to the bank."""
    side, bank_side = math.sqrt(sram_area(size, node)), math.sqrt(sram_area(size / banks, node))
    return cache_energy(size / banks, node) / 64 + wire_energy((side - bank_side) / 2, node)


def _sram(values: Values) -> Estimate:
    size, node, voltage = capacity(values, "SRAM"), values.number("tech_node"), values.get("voltage")
    banks, ports = values.number("n_banks"), values.number("n_rw_ports")
    bits = moved_bits(values)
    spent = bits * sram_energy(size, banks, node) * voltage_energy(voltage)
    rate = ports * values.number("width") / bits / values.number("cycle_period")
    steps = node_steps(node, voltage)
    cost = ActionCost(spent, rate, CACHE_SOURCE, steps)
    leak = size * _LEAK_PER_BIT * leak_factor(65e-9, node) * voltage_leak(voltage) / voltage_leak(1.2)
    cells = f"{CELL_SOURCE}, {ARRAY_EFFICIENCY:.0%} of it cells"
    log = (*steps, f"area: {cells}", f"leakage: {LEAK_SOURCE}")
    # A further port adds a word line and a pair of bit lines: both sides of a cell grow by about half.
    area = sram_area(size, node) * (1 + 0.5 * (ports - 1)) ** 2
    return Estimate(
        area,
        leak,
        {"read": cost, "write": cost},
        CACHE_SOURCE,
        steps,
        log=log,
        area_from=Origin(cells),
        leak_from=Origin(LEAK_SOURCE, leak_steps(65e-9, node, voltage, at=1.2)),
    )


def file_energies(depth: float, node: float) -> tuple[float, float]:
    """J of one bit read, and written, in a register file of `depth` words: linear pieces through the points."""
    k = 1 if depth <= _FILE_DEPTHS[1] else 2
    share = (depth - _FILE_DEPTHS[k - 1]) / (_FILE_DEPTHS[k] - _FILE_DEPTHS[k - 1])
    read, write = (at[k - 1] + share * (at[k] - at[k - 1]) for at in (_FILE_READS, _FILE_WRITES))
    return read / 16 * energy_factor(_FILE_NODE, node), write / 16 * energy_factor(_FILE_NODE, node)


def _register_file(values: Values) -> Estimate:
    size, node, voltage = capacity(values, "RegisterFile"), values.number("tech_node"), values.get("voltage")
    depth, bits = size / values.number("width"), moved_bits(values)
    read, write = (bits * at * voltage_energy(voltage) for at in file_energies(depth, node))
    rate = values.number("n_rw_ports") * values.number("width") / bits / values.number("cycle_period")
    steps = energy_steps(_FILE_NODE, node, voltage)
    actions = {
        "read": ActionCost(read, rate, FILE_SOURCE, steps),
        "write": ActionCost(write, rate, FILE_SOURCE, steps),
    }
    cells = REGISTER_BIT.times(size)
    leak = cells.leak * leak_factor(LOGIC_NODE, node) * voltage_leak(voltage)
    log = (*steps, f"area and leakage: {_REGISTER_BITS}")
    warnings = () if depth <= 512 else (f"RegisterFile has {depth:g} words, its source at most 224: extrapolated",)
    area = cells.area * area_factor(LOGIC_NODE, node)
    return Estimate(
        area,
        leak,
        actions,
        FILE_SOURCE,
        steps,
        log=log,
        warnings=warnings,
        area_from=Origin(_REGISTER_BITS, area_steps(LOGIC_NODE, node)),
        leak_from=Origin(_REGISTER_BITS, leak_steps(LOGIC_NODE, node, voltage)),
    )


def _with_address_generators(memory: Estimate, values: Values) -> Estimate:
    """A memory and two counters of addresses, one for reading, one for writing, priced as adders of Aladdin."""
    depth = max(2.0, capacity(values, "a buffer") / values.number("width"))
    counter = estimate_unit(adder(math.log2(depth)), values, ("count",), "", LOGIC_NODE)
    share = moved_bits(values) / values.number("width")
    spent = counter.actions["count"].energy * share
    note = f"address generator: adder of {math.log2(depth):.3g} bits, Shao et al., Aladdin, ISCA 2014"
    actions = {
        name: replace(cost, energy=cost.energy + spent, scaling=(*cost.scaling, note))
        for name, cost in memory.actions.items()
    }
    both = f"2 address generators: adders of {math.log2(depth):.3g} bits, Shao et al., Aladdin, ISCA 2014"
    area, leak = memory.origin("area"), memory.origin("leak_power")
    return replace(
        memory,
        actions=actions,
        area=memory.area + 2 * counter.area,
        leak_power=memory.leak_power + 2 * counter.leak_power,
        log=(*memory.log, note),
        area_from=replace(area, scaling=(*area.scaling, both)),
        leak_from=replace(leak, scaling=(*leak.scaling, both)),
    )


_WORD = row(64, 1, 4096, "bits of a row, read or written at a time")
_COMMON = (tech_node(), VOLTAGE, CYCLE, SIZE, DEPTH, BITS_PER_ACTION, PORTS)
_SRAM = (replace(_WORD, least=8), *_COMMON, BANKS)
_FILE = (replace(_WORD, default=16, most=256), *_COMMON)
_ACTIONS = ("read", "write")
_SYNONYMS = {"fill": "write", "update": "write", "access": "read", "compute": "read"}

MODELS = (
    FormulaModel(
        "SRAM",
        "SRAM in banks",
        CACHE_SOURCE,
        _SRAM,
        _ACTIONS,
        _sram,
        ("sramblock", "scratchpad", "spad", "cache"),
        _SYNONYMS,
    ),
    FormulaModel(
        "SmartBufferSRAM",
        "SRAM with an address generator for reads and one for writes",
        CACHE_SOURCE,
        _SRAM,
        _ACTIONS,
        lambda values: _with_address_generators(_sram(values), values),
        ("smartbuffer_sram", "smartbuffer"),
        _SYNONYMS,
    ),
    FormulaModel(
        "RegisterFile",
        "register file",
        FILE_SOURCE,
        _FILE,
        _ACTIONS,
        _register_file,
        ("regfile", "rf"),
        _SYNONYMS,
    ),
    FormulaModel(
        "SmartBufferRF",
        "register file with an address generator for reads and one for writes",
        FILE_SOURCE,
        _FILE,
        _ACTIONS,
        lambda values: _with_address_generators(_register_file(values), values),
        ("smartbuffer_rf", "smartbuffer_regfile", "smartbuffer_registerfile"),
        _SYNONYMS,
    ),
)
"""Models of on-chip memories."""
