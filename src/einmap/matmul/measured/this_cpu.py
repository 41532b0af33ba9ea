"""The processor at hand as a `Machine`: caches and cores as the operating system tells them, rates assumed or given.

Libraries for this tell at most the sizes of all caches of a kind together, so the caches are read from the operating
system itself: Linux has them in /sys, macOS in `sysctl`. Cores and clock are psutil's.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from einmap.errors import SpecError
from einmap.matmul.machine.machine import ComputeUnit, Level, Machine
from einmap.matmul.measured.kernel import DTYPES, grain_of
from einmap.matmul.measured.registers import TILE
from einmap.optional import require
from einmap.units import format_bytes, format_si

SYSTEM = Path("/sys/devices/system/cpu")
USABLE = 0.5
"""The part of a cache that plans may fill: caches, unlike memories that a program fills, also hold what was not asked
for, and drop lines when too many fall into one set."""
TILE_MOVE = 16
"""Steps of k for which a tile of C could compute while it is loaded and stored: its loads and stores, and the latency
of the last sums. Of the order that is seen when the same product is cut into blocks of different k."""
CANDIDATES = 6
"""Block sizes of a dimension that are tried, unless a plan asks for more: the plan comes within a second or two."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache: 1 is nearest to the core, `sharing` how many cores have it together."""

    level: int
    size_bytes: int
    line_bytes: int
    sharing: int


@dataclass(frozen=True, slots=True)
class Processor:
    """Facts that the operating system knows: caches from level 1 out, cores that can be used, clock in 1/s if known."""

    caches: tuple[Cache, ...]
    cores: int
    clock: float | None


@dataclass(frozen=True, slots=True)
class Rates:
    """flop/s of one core for each data type, and bits/s into each cache from the level above, level 1 first."""

    flops: tuple[tuple[str, float], ...]
    bandwidths: tuple[float, ...]
    source: str


def detect(platform: str = sys.platform, system: Path = SYSTEM) -> Processor:
    """The processor at hand. Raises SpecError when psutil is missing, or the system tells nothing of caches."""
    psutil = require("psutil", "cpu")
    caches = _from_files(system) if platform == "linux" else _from_sysctl() if platform == "darwin" else ()
    if not any(cache.level == 1 for cache in caches):
        raise SpecError(
            f"this system ({platform}) does not tell the sizes of its caches",
            hint="describe the machine in a YAML file, as in docs/matmul-planner.md",
        )
    return Processor(caches, psutil.cpu_count(logical=False) or 1, _clock(psutil))


def _clock(psutil: object) -> float | None:
    try:
        frequency = psutil.cpu_freq()  # type: ignore[attr-defined]
    except (AttributeError, OSError, RuntimeError):  # not all systems tell it, and they fail in several ways
        return None
    megahertz = (frequency.max or frequency.current) if frequency is not None else 0
    return megahertz * 1e6 or None


def _from_files(system: Path) -> tuple[Cache, ...]:
    """Caches of the first core in Linux's description; what lacks a size or a level is left out."""
    caches = []
    for index in sorted((system / "cpu0" / "cache").glob("index*")):
        try:
            facts = {f: (index / f).read_text().strip() for f in ("type", "level", "size", "coherency_line_size")}
            if facts["type"] in ("Data", "Unified"):
                sharing = max(1, _cores(system, (index / "shared_cpu_list").read_text()))
                size = _bytes(facts["size"])
                caches.append(Cache(int(facts["level"]), size, int(facts["coherency_line_size"]), sharing))
        except (OSError, ValueError):
            continue
    return tuple(sorted((cache for cache in caches if cache.size_bytes > 0), key=lambda cache: cache.level))


def _bytes(text: str) -> int:
    """`32K` as Linux writes it."""
    factor = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * factor


def _cores(system: Path, processors: str) -> int:
    """How many cores the processors of a list like `0-1,4` are; two threads of one core count once."""
    names = set()
    for part in processors.strip().split(","):
        first, _, last = part.partition("-")
        names |= set(range(int(first), int(last or first) + 1))
    threads = {_siblings(system, name) for name in names}
    return len(threads)


def _siblings(system: Path, processor: int) -> str:
    try:
        return (system / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(processor)


def _from_sysctl() -> tuple[Cache, ...]:
    """Caches of a fast core of a Mac; where there are two kinds of cores, those of `perflevel0` are the fast ones."""
    line = _sysctl("hw.cachelinesize") or 64
    caches = []
    for level, name in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize")):
        size = _sysctl(f"hw.perflevel0.{name}") or _sysctl(f"hw.{name}")
        sharing = (_sysctl("hw.perflevel0.cpusperl2") or 1) if level == 2 else 1
        if size:
            caches.append(Cache(level, size, line, sharing))
    return tuple(caches)


def _sysctl(name: str) -> int | None:
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def assumed_rates(processor: Processor) -> Rates:
    """Rates of the usual order: two multiply-adds of a vector each cycle; 32 bytes into level 1, 16 into level 2.

    8 bytes each cycle into a level 3 from main memory. A clock that is not known is taken as 3 GHz.
    """
    clock = processor.clock or 3e9
    flops = {name: 2 * 2 * clock * TILE.vector_bits / (8 * dtype.itemsize) for name, dtype in DTYPES.items()}
    each_cycle = (32, 16, 8)
    bandwidths = tuple(8 * clock * each_cycle[min(c.level, 3) - 1] for c in processor.caches)
    clock_text = format_si(clock, "Hz") + ("" if processor.clock else ", assumed")
    return Rates(tuple(flops.items()), bandwidths, f"assumed for a clock of {clock_text}; --measure measures them")


def machine_of(processor: Processor, rates: Rates, dtype: str, cores: int = 1) -> Machine:
    """The machine for plans of one data type: what `cores` cores have of each cache, half of it usable.

    A cache that several of the cores share is one memory; the innermost that they share feeds all of them. Raises
    SpecError for more cores than there are.
    """
    if not 1 <= cores <= processor.cores:
        raise SpecError(f"this processor has 1 to {processor.cores} cores to plan for, found {cores}")
    levels = []
    above = 1
    for cache, bandwidth in reversed(tuple(zip(processor.caches, rates.bandwidths, strict=True))):
        memories = -(-cores // min(cache.sharing, cores))
        levels.append(
            Level.of(
                f"L{cache.level}",
                8 * cache.size_bytes * USABLE,
                bandwidth,
                workers=max(1, memories // above),
                line_bits=8 * cache.line_bytes,
            )
        )
        above = max(above, memories)
    steps = [2**i for i in range(11)]
    efficiency = {"k": {steps_of_k: steps_of_k / (steps_of_k + TILE_MOVE) for steps_of_k in steps}}
    compute = ComputeUnit.of(dict(rates.flops), name="tile", pads=True, efficiency=efficiency)
    return Machine("this_cpu", tuple(levels), compute, grain_of(dtype if dtype in DTYPES else "fp32"))


def described(processor: Processor, rates: Rates, dtype: str) -> str:
    """One line on where the machine's figures are from."""
    caches = ", ".join(f"L{c.level} {format_bytes(c.size_bytes)}" for c in processor.caches)
    flops = dict(rates.flops).get(dtype)
    rate = f"{format_si(flops, 'flop/s')} in {dtype} and " if flops else ""
    into = ", ".join(
        f"{format_si(bits / 8, 'B/s')} into L{c.level}"
        for c, bits in zip(processor.caches, rates.bandwidths, strict=True)
    )
    share = f"plans use {USABLE:.0%} of each cache"
    return f"this cpu: {processor.cores} cores; {caches}, {share}; {rate}{into}: {rates.source}"
