"""Attributes that many models share, with the spellings of Accelergy, Timeloop and hwcomponents files."""

from __future__ import annotations

from dataclasses import replace

from einmap.components.base import Attribute, Values
from einmap.errors import SpecError


def tech_node(default: float | None = None) -> Attribute:
    """The technology node in m; "45nm" and 45 are read as 45e-9."""
    aliases = ("technology", "node", "technology_node", "tech")
    return Attribute("tech_node", "m", "technology node", default, 7e-9, 130e-9, aliases)


VOLTAGE = Attribute(
    "voltage", "V", "supply voltage; without it, that of the source", None, 0.5, 1.3, ("vdd",), optional=True
)
CYCLE = Attribute(
    "cycle_period",
    "s",
    "time of one action",
    1e-9,
    1e-10,
    1e-6,
    ("global_cycle_seconds", "cycle_seconds", "cycle_time", "clock_period"),
)
BITS_PER_ACTION = Attribute(
    "bits_per_action", "bits", "bits that one action moves; without it, the width", optional=True
)
SIZE = Attribute(
    "size", "bits", "capacity; or give depth and width", aliases=("capacity",), optional=True, is_size=True
)
DEPTH = Attribute(
    "depth", "", "words of `width` bits; or give size", aliases=("memory_depth",), optional=True, is_size=True
)


def width(default: float | None, least: float, most: float, meaning: str = "bits of an operand") -> Attribute:
    """Bits of a word or an operand."""
    # Timeloop's memories have a row (memory_width) and, beside it, a datum (datawidth, word_bits): the row comes first.
    aliases = ("memory_width", "width_bits", "datawidth", "data_width", "bitwidth", "n_bits", "word_bits")
    return Attribute("width", "bits", meaning, default, least, most, aliases, is_size=True)


def row(default: float, least: float, most: float, meaning: str) -> Attribute:
    """Bits of a memory's row: without a value, what one action moves, if the source's range has it."""
    return replace(width(default, least, most, meaning), same_as=BITS_PER_ACTION.name)


def capacity(values: Values, model: str) -> float:
    """Bits of a memory, from size, or depth and width. Raises SpecError."""
    size, depth = values.get("size"), values.get("depth")
    if size is None and depth is None:
        raise SpecError(f"{model} needs size, or depth and width", hint="set size (bits)")
    return size if size is not None else (depth or 0) * values.number("width")


def moved_bits(values: Values) -> float:
    """Bits that one action moves."""
    return values.get("bits_per_action") or values.number("width")
