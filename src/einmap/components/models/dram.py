"""Off-chip memories: energy of a bit and peak bandwidth of a channel or stack, by kind.

Energies are averages of devices and interface under streams of accesses; rows opened for a few bits cost more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel, Origin, Values
from einmap.components.models.inputs import BITS_PER_ACTION, moved_bits, row

MALLADI = "Malladi et al., ISCA 2012 (energy a bit of LPDDR and DDR3 systems)"
HOROWITZ = "Horowitz, ISSCC 2014; Jouppi et al., ISCA 2021, table 2: 1300 pJ for 64 bits"
TIMELOOP = "Timeloop's and Accelergy's tables: 512 pJ for 64 bits"
JOUPPI = "Jouppi et al., ISCA 2021, table 2: 250 to 450 pJ for 64 bits"
MICRON = "Micron, ultra-bandwidth solutions, memory comparison (device power)"
HBM = "published figures of stacks, as in hwcomponents"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of DRAM: J a bit, bits per second at most, where the energy is from."""

    name: str
    energy: float
    bandwidth: float
    source: str


def _kind(name: str, picojoules: float, gigabytes: float, source: str) -> Kind:
    """A kind from pJ a bit and GB/s."""
    return Kind(name, picojoules * 1e-12, gigabytes * 8e9, source)


KINDS = (
    _kind("DDR3", 70, 12.8, MALLADI),
    _kind("DDR4", 1300 / 64, 25.6, HOROWITZ),
    _kind("LPDDR", 40, 3.2, MALLADI),
    _kind("LPDDR4", 8, 17.1, TIMELOOP),
    _kind("LPDDR5", 6.4, 25.6, f"LPDDR4 less 20 % (Micron, 2020); {TIMELOOP}"),
    _kind("GDDR6", 7.5, 64, MICRON),
    _kind("GDDR6X", 7.25, 84, MICRON),
    _kind("HBM2", 6.25, 256, f"{HBM}; {JOUPPI}"),
    _kind("HBM2E", 6.0, 461, MICRON),
    _kind("HBM3", 4.05, 819, HBM),
    _kind("HBM4", 3.2, 2048, HBM),
)
"""Kinds of DRAM."""
_BY_NAME = {kind.name: kind for kind in KINDS}

BANDWIDTH = Attribute(
    "bandwidth", "bits/s", "peak bandwidth; without it, that of a channel or stack of the kind", optional=True
)
"""Bits per second."""


def _estimate(kind: Kind, values: Values) -> Estimate:
    bits = moved_bits(values)
    rate = (values.get("bandwidth") or kind.bandwidth) / bits
    cost = ActionCost(kind.energy * bits, rate, kind.source)
    area, leak = (
        Origin("0: on other chips than the accelerator"),
        Origin("0: idle and refresh are within the energy a bit"),
    )
    log = (f"area {area.source}", f"leakage {leak.source}")
    both = {"read": cost, "write": cost}
    return Estimate(0.0, 0.0, both, kind.source, log=log, area_from=area, leak_from=leak)


def _of_kind(kind: Kind) -> FormulaModel:
    def price(values: Values) -> Estimate:
        return _estimate(kind, values)

    aliases = (f"dram_{kind.name}",)
    return FormulaModel(kind.name, f"{kind.name} DRAM", kind.source, _ATTRIBUTES, _ACTIONS, price, aliases, _SYNONYMS)


def _of_type(values: Values) -> Estimate:
    return _estimate(_BY_NAME[values.text("type")], values)


# energy is per bit and the bandwidth is given: the width decides nothing
_WIDTH = replace(row(64, 1, 8192, "bits of an access"), is_size=False)
_ATTRIBUTES = (_WIDTH, BANDWIDTH, BITS_PER_ACTION)
_ACTIONS = ("read", "write")
_SYNONYMS = {"fill": "write", "update": "write", "access": "read"}
_TYPE = Attribute(
    "type",
    "",
    "kind of DRAM",
    "LPDDR4",
    choices=tuple(_BY_NAME),
    aliases=("dram_type", "technology_type"),
    is_size=True,
)

MODELS = (
    *(_of_kind(kind) for kind in KINDS),
    FormulaModel(
        "DRAM",
        "DRAM of the kind in `type`",
        "the source of each kind",
        (_TYPE, *_ATTRIBUTES),
        _ACTIONS,
        _of_type,
        ("mainmemory",),
        _SYNONYMS,
    ),
)
"""One model for each kind, and `DRAM` with `type`."""
