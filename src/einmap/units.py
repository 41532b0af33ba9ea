"""Quantities as people write them: 1.2e-9 J as "1.2 nJ", 1048576 bits as "128 KiB"; printed, and read."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_PREFIXES = (*"qryzafpnµm", "", *"kMGTPEZYRQ")
_SMALLEST = -10
"""Power of 1000 that the first prefix stands for."""
DATA_TYPE_BITS = {
    "fp4": 4, "int4": 4, "fp6": 6, "fp8": 8, "int8": 8, "fp16": 16, "bf16": 16, "int16": 16,
    "tf32": 32, "fp32": 32, "int32": 32, "fp64": 64, "int64": 64,
}  # fmt: skip
"""Bits that a value of each data type takes."""
_BYTES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_si(value: float, unit: str) -> str:
    """Three digits with an engineering prefix.

    >>> format_si(1.2e-9, "J")
    '1.2 nJ'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".replace("-0 ", "0 ").rstrip()
    digits, exponent = f"{value:.2e}".split("e")  # rounded before the prefix is chosen: 999.9 is 1 k
    power = int(exponent) // 3
    if not 0 <= power - _SMALLEST < len(_PREFIXES):
        return f"{value:.3g} {unit}".rstrip()
    scaled = float(digits) * 10 ** (int(exponent) - 3 * power)
    return f"{scaled:.3g} {_PREFIXES[power - _SMALLEST]}{unit}".rstrip()


def counted(n: int, noun: str) -> str:
    """`1 PE`, `4,096 PEs`, `2 batches`."""
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith('ch') else 's'}"


def format_count(n: float) -> str:
    """A number without unit: exact below a million, three digits above.

    >>> format_count(65536), format_count(1234567890), format_count(2.5)
    ('65,536', '1.23e9', '2.5')
    """
    if not math.isfinite(n):
        return f"{n:g}"
    if n == int(n) and abs(n) < 1_000_000:
        return f"{int(n):,}"
    if 0.01 <= abs(n) < 1_000_000:
        return f"{n:,.2f}".rstrip("0").rstrip(".")
    digits, exponent = f"{n:.2e}".split("e")
    return f"{float(digits):g}e{int(exponent)}"


def powers_of_ten(n: float) -> str:
    """A number that may be huge: exact below a thousand, else as a power of ten.

    >>> powers_of_ten(96), powers_of_ten(2e17)
    ('96', '10^17.3')
    """
    return format_count(n) if not math.isfinite(n) or n < 1000 else f"10^{math.log10(n):.1f}"


def format_bytes(n: float) -> str:
    """An amount of data in bytes, by powers of 1024.

    >>> format_bytes(128 * 1024), format_bytes(192), format_bytes(1)
    ('128 KiB', '192 bytes', '1 byte')
    """
    if not math.isfinite(n) or abs(n) < 1024:
        return f"{format_count(n)} {'byte' if n == 1 else 'bytes'}"
    return format_bits(8 * n)


def format_bits(n: float) -> str:
    """An amount of data: bits when few, else bytes by powers of 1024.

    >>> format_bits(128 * 1024 * 8), format_bits(96)
    ('128 KiB', '96 bits')
    """
    size = n / 8 / 1024
    if not math.isfinite(n) or abs(size) < 1:
        return f"{format_count(n)} {'bit' if n == 1 else 'bits'}"
    power = 0
    while abs(float(f"{size:.4g}")) >= 1024 and power < len(_BYTES) - 1:
        size /= 1024
        power += 1
    return f"{size:.4g} {_BYTES[power]}"


_NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d{1,3})?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-zµμ/][A-Za-zµμ/²^0-9]*)?")
_NAMES = {
    "bits": {"bit": 1, "bits": 1, "b": 1, "B": 8, "byte": 8, "bytes": 8},
    "J": {"J": 1}, "W": {"W": 1}, "s": {"s": 1}, "m^2": {"m^2": 1, "m²": 1},
    "1/s": {"/s": 1, "1/s": 1, "Hz": 1}, "": {},
}  # fmt: skip
"""Names of each unit, and how many of it each is."""
EXAMPLES = {"bits": "128 KiB", "J": "1.5 pJ", "W": "2 mW", "s": "3 ns", "m^2": "0.1 mm^2", "1/s": "64 G/s", "": "16"}
"""How a quantity of each unit is written."""


def read_quantity(text: str, unit: str) -> float | int | None:
    """A quantity in `unit` (a key of `EXAMPLES`), which may be left out; None for what is not a number with a word.

    A whole number is an int. Raises ValueError for a word that is not this unit.

    >>> read_quantity("128 KiB", "bits"), read_quantity("1.5 pJ", "J"), read_quantity("2*n", "bits")
    (1048576, 1.5e-12, None)
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or not any(c.isdigit() for c in match[1]):
        return None
    if abs(float(match[1].replace(",", ""))) > _LARGEST or len(match[1]) > _LONGEST:
        raise ValueError("is too large a number")
    factor = _factor(match[2], unit) if match[2] else Fraction(1)
    if factor is None:
        kind = f"is not in {unit}" if unit else "has a unit, but is a plain number"
        raise ValueError(f"{kind}: write for example {EXAMPLES[unit]}")
    value = Fraction(match[1].replace(",", "")) * factor
    return int(value) if value.denominator == 1 and "e" not in match[1].lower() else float(value)


_LARGEST = 1e300
_LONGEST = 400
"""Characters of a number."""


def _factor(word: str, unit: str) -> Fraction | None:
    """Factor of a word such as `KiB`; None where it is not of this unit."""
    for name, count in _NAMES[unit].items():
        prefix = word.removesuffix(name)
        if prefix == word or (name == "b" and prefix):  # Kb: bits to some, bytes to others
            continue
        if not prefix:
            return Fraction(count)
        if unit == "bits" and prefix in _BINARY:
            return Fraction(count * 1024 ** _BINARY[prefix])
        prefix = prefix.replace("μ", "µ").replace("u", "µ")
        if prefix in _PREFIXES:
            thousands = Fraction(1000) ** (_PREFIXES.index(prefix) + _SMALLEST)
            return count * (thousands**2 if unit == "m^2" else thousands)
    return None


_BINARY = {name[:2]: power for power, name in enumerate(_BYTES, start=1)}
"""Powers of 1024 by prefix: Ki is the first."""
