"""How numbers are written in a report: percentages, areas, bars, columns that share a unit, and phrases of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from einmap.mapper.objective.metrics import ALIASES, METRICS
from einmap.units import format_bits, format_bytes, format_count, format_si

NONE = "-"
"""Mark of an empty cell."""
_DATA_UNITS = ((1, "bits"), *((8 * 1024**power, f"{prefix}iB") for power, prefix in enumerate("KMGT", start=1)))


def percent(part: float) -> str:
    """A part of a whole: `0%`, `<1%`, `37%`; a full or nearly full whole is told apart.

    >>> [percent(part) for part in (0, 0.004, 0.374, 0.997, 1)]
    ['0%', '<1%', '37%', '>99%', '100%']
    """
    if 0 < part < 0.005:
        return "<1%"
    if 0.995 <= part < 1:
        return ">99%"
    return f"{part:.0%}"


def data_unit(bits: float) -> tuple[int, str]:
    """The unit for amounts of data of which `bits` is the largest, in bits, and its name."""
    return next((pair for pair in reversed(_DATA_UNITS) if bits >= pair[0]), _DATA_UNITS[0])


def area(value: float) -> str:
    """m^2 in square millimetres or micrometres, of which SI prefixes know nothing."""
    if 0 < value < 1e-7:
        return f"{value * 1e12:,.3g} µm²"
    return f"{value * 1e6:,.3g} mm²" if value < 1e-3 else f"{value * 1e6:,.0f} mm²"


class _Units(dict[str, str]):
    """Units by the name of a quantity; of a metric that a package adds the one that it names."""

    def __missing__(self, name: str) -> str:
        return METRICS[name].unit


UNITS = _Units({metric.name: metric.unit for metric in METRICS.values()} | {
    "edp": "J*s", "area": "m^2", "outside": "bits", "leak_power": "W", "refresh_power": "W", "hop_latency": "s",
    "sent_bytes": "B", "peak_memory": "B",
})  # fmt: skip
"""The unit of each quantity that reports name; counts and parts of a whole have none."""


def quantity(value: float | None, name: str) -> str:
    """A value with the unit of its quantity: `6.31 µJ` of `energy`, `25%` of `usage`, `1,024` of `actions`."""
    if value is None:
        return NONE
    if name.endswith("usage"):
        return percent(value) if value >= 0 else f"-{percent(-value)}"
    return in_unit(value, UNITS.get(name, ""))


def in_unit(value: float, unit: str) -> str:
    """A value in a unit, with the prefix that suits it; data in bits or bytes by powers of 1024."""
    if unit == "":
        return format_count(value)
    if unit in ("bits", "bytes"):
        return format_bits(value) if unit == "bits" else format_bytes(value)
    return area(value) if unit == "m^2" and math.isfinite(value) else format_si(value, unit)


def title(name: str) -> str:
    """A quantity in words: `EDP` for `edp` and `energy_delay_product`, `leak power` for `leak_power`."""
    known = METRICS.get(ALIASES.get(name, name))
    return known.title if known else name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit and one number of decimals for a whole column, so that values can be compared at a glance."""

    factor: float
    unit: str
    decimals: int

    @staticmethod
    def of(values: Iterable[float], unit: str) -> Scale:
        """The scale that shows the largest value with three digits."""
        largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
        if not largest:
            return Scale(1.0, unit, 0)
        power = 3 * (math.floor(math.log10(largest) + 1e-9) // 3)
        digits = len(str(int(largest / 10.0**power)))
        named = format_si(10.0**power, unit).removeprefix("1 ")
        return Scale(10.0**power, named, max(0, 3 - digits))

    def show(self, value: float) -> str:
        """The number without its unit; what is too small to see is told apart from nothing.

        >>> scale = Scale.of([103.1e-6], "J")
        >>> scale.unit, scale.show(103.1e-6), scale.show(5e-6), scale.show(1e-9), scale.show(0)
        ('µJ', '103', '5', '<1', '-')
        """
        if not value:
            return NONE
        scaled = value / self.factor
        smallest = 10.0**-self.decimals
        if abs(scaled) < smallest / 2:
            return f"<{smallest:.{self.decimals}f}"
        return f"{scaled:,.{self.decimals}f}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a whole as a bar of `width` cells; `#` where the terminal has no block characters."""

    part: float
    width: int = 12
    style: str = "cyan"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        full, rest = ("#", ".") if options.ascii_only else ("█", "░")
        cells = min(self.width, max(round(self.part * self.width), 1 if self.part > 0 else 0))
        yield Text.assemble((full * cells, self.style), (rest * (self.width - cells), "dim"))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self.width, self.width)


# phrases


def largest(shares: Mapping[str, float], most: int = 3) -> str:
    """`DRAM 62%, MAC 30%`: the largest shares, those below one percent left out."""
    order = sorted((name for name in shares if shares[name] >= 0.005), key=lambda name: -shares[name])
    return ", ".join(f"{name} {percent(shares[name])}" for name in order[:most])


def limited(limits: Mapping[str, float]) -> str:
    """`limited by MAC`, or with the parts of the time: `limited by MAC 80%, DRAM 20%`."""
    limiting = {name: part for name, part in limits.items() if part > 0}
    if not limiting:
        return "nothing takes time"
    if all(part > 1 - 1e-9 for part in limiting.values()):
        return "limited by " + " and ".join(limiting)
    return "limited by " + (largest(limiting) or max(limiting, key=lambda name: limiting[name]))


def wall_time(seconds: float) -> str:
    """`3.6 s`, `1,234 s`."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


def excess(gap: float) -> str:
    """How far a result may be above the lower bound, which is a fraction of the bound."""
    if gap < 1:
        return f"at most {gap * 100:.2g}% above the lower bound"
    return f"at most {gap + 1:.3g} times the lower bound"


def changed(ratio: float | None) -> str:
    """Ratio of a quantity to its former value: `equal`, `-33%`, `8.4 x as much`, `50 x less`; empty for None.

    >>> [changed(ratio) for ratio in (None, 1, 1.021, 0.625, 8.4, 0.01, math.inf)]
    ['', 'equal', '+2%', '-38%', '8.4 x as much', '100 x less', 'new']
    """
    if ratio is None or math.isinf(ratio):
        return "" if ratio is None else "new"
    if 0.9995 < ratio < 1.0005:
        return "equal" if math.isclose(ratio, 1, rel_tol=1e-12) else "<0.1%"
    if ratio <= 0 or 0.02 < ratio <= 2:
        return f"{ratio - 1:+.0%}"
    return f"{ratio:.3g} x as much" if ratio > 1 else f"{1 / ratio:.3g} x less"


def hyphened(name: str) -> str:
    """`all-gather` for `all_gather`."""
    return name.replace("_", "-")


def shape_text(sizes: Iterable[int]) -> str:
    """`16x64`, and `1` for a scalar."""
    return "x".join(map(str, sizes)) or "1"


def exact(count: float, digits: int = 10) -> str:
    """A count with all its digits, one that is not whole with some: one that is off by one must not look the same.

    >>> exact(1234567.0), exact(2.5)
    ('1,234,567', '2.5')
    """
    return f"{int(count):,}" if float(count).is_integer() else f"{count:,.{digits}g}"


def summed[K](pairs: Iterable[tuple[K, float]]) -> dict[K, float]:
    """The sum for each key, in the order in which they come first.

    >>> summed([("A", 1), ("B", 2), ("A", 3)])
    {'A': 4.0, 'B': 2.0}
    """
    sums: dict[K, float] = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0.0) + value
    return sums
