"""Known errors of installed component models, by factors; they are shown beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.components.base import ActionCost, AttributeValue
from einmap.units import format_si

_CACTI = "hwcomponents_cacti"
_SCALED = (1, 0, 40)
"""The last version of hwcomponents_cacti whose scaling of nodes was looked at."""
_LARGEST_NODE = 90e-9
"""Above this CACTI itself has no figures."""
_PINS: Mapping[str, tuple[float, float, str]] = {
    "LPDDR": (200e6, 533e6, "JESD209"),
    "LPDDR4": (1.6e9, 4.267e9, "JESD209-4"),
    "DDR3": (0.8e9, 2.133e9, "JESD79-3"),
    "HBM2": (1e9, 2.4e9, "JESD235"),
    "HBM3": (4.8e9, 6.4e9, "JESD238"),
    "HBM4": (6.4e9, 8e9, "JESD270-4"),
}
"""Bits a second of one data pin: the least and the most of the standard that is named."""
_FACTOR = 2.0
"""Rates beyond the standard by more than this are said."""


def caveats(
    package: str, version: str, name: str, values: Mapping[str, AttributeValue], costs: Mapping[str, ActionCost]
) -> tuple[str, ...]:
    """Sentences on the numbers of a class of an installed package: which are off, by how much, and why it is known.

    `values`: attributes by their names in small letters; `costs`: what the class gives, by action.
    """
    if package != _CACTI:
        return ()
    if name in _PINS:
        return _rate(package, version, name, costs)
    node = values.get("tech_node")
    if name not in ("SRAM", "Cache") or not isinstance(node, int | float) or _numbers(version) > _SCALED:
        return ()
    if node * 1e9 <= _LARGEST_NODE * 1e9:
        return ()
    ratio = node / 22e-9
    return (
        f"{package} {version} has figures up to 90 nm and makes those of {format_si(node, 'm')} from 22 nm: "
        f"energy times {ratio**0.5:.3g}, area and time times {ratio:.3g}, leakage as at 22 nm, a rule for nodes below "
        "22 nm; take figures at 90 nm, or the built-in model SRAM",
    )


def _rate(package: str, version: str, name: str, costs: Mapping[str, ActionCost]) -> tuple[str, ...]:
    """One action a second moves a bit of each pin."""
    least, most, standard = _PINS[name]
    rate = min((cost.throughput for cost in costs.values()), default=least)
    if least / _FACTOR <= rate <= most * _FACTOR:
        return ()
    factor, how = (least / rate, "less") if rate < least else (rate / most, "more")
    return (
        f"{package} {version} moves {format_si(rate, 'bit/s')} on each pin of {name}, {factor:.0f} times {how} than "
        f"{standard} ({format_si(least, 'bit/s')} to {format_si(most, 'bit/s')}): write throughput yourself, or take "
        f"the built-in model {name}",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
