"""Numbers that are written with a unit: what to write in an expression instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_QUANTITY = re.compile(
    r"([0-9][0-9_]*+(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-zµ]+)(\^2|\*\*2|2|²)?(/s)?"
)
_EXPONENTS = {"": 0, "f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12}
_BINARY = {"ki": 1, "mi": 2, "gi": 3, "ti": 4}
_BYTES = ("B", "bytes", "byte", "Byte", "Bytes")
_BITS = ("b", "bits", "bit", "Bit", "Bits")
_BASES = {
    "J": "energies are J",
    "s": "times are s",
    "Hz": "rates are 1/s",
    "W": "powers are W",
    "V": "voltages are V",
    "m": "lengths are m",
}


def unit_hint(text: str) -> str | None:
    """Advice for a number with a unit: what to write in its place; None where `text` is something else.

    >>> unit_hint("128KiB")
    'numbers have no units here; sizes are bits: 128 * 1024 * 8'
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    number, unit, square, rate = match[1], match[2], match[3], match[4]
    instead = None if square else _size(number, unit)
    if rate:
        is_size = instead is not None
        return f"numbers have no units here; rates are actions/s: {instead} / bits_per_action" if is_size else None
    if instead is not None:
        return f"numbers have no units here; sizes are bits: {instead}"
    for base, words in _BASES.items():
        exponent = _EXPONENTS.get(unit.removesuffix(base)) if unit.endswith(base) else None
        if exponent is not None and not square:
            return f"numbers have no units here; {words}: {_times_ten(number, exponent)}"
        if exponent is not None and base == "m":
            return f"numbers have no units here; areas are m^2: {_times_ten(number, 2 * exponent)}"
    return None


def _size(number: str, unit: str) -> str | None:
    """An amount of data in bits, as an expression; None for other units. A kilobyte has 1024 bytes."""
    for base in (*_BYTES, *_BITS):
        prefix = unit.removesuffix(base)
        if not unit.endswith(base):
            continue
        power = _power(prefix, _BINARY)
        if power is not None:
            factors = ["1024" if power == 1 else f"1024**{power}"] if power else []
            return " * ".join((number, *factors, *(["8"] if base in _BYTES else [])))
    return None


def _power(prefix: str, binary: Mapping[str, int]) -> int | None:
    """The power of 1024 that a prefix stands for."""
    small = prefix.lower()
    return 0 if not small else binary.get(small, binary.get(f"{small}i"))


def _times_ten(number: str, exponent: int) -> str:
    if not exponent:
        return number
    return f"{number} * 1e{exponent}" if "e" in number.lower() else f"{number}e{exponent}"
