"""The machine of a plan: memories, one for each worker, the links between them, and the compute units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.matmul.machine.data_types import DATA_TYPES
from einmap.visible import brief, short

DIMENSIONS = ("m", "k", "n")
TENSORS = ("A", "B", "C")
DIMENSIONS_OF = {"A": (0, 1), "B": (1, 2), "C": (0, 2)}
"""The dimensions of each matrix, as positions in `DIMENSIONS`: rows, columns."""
MAX_LEVELS = 8

type Sizes = tuple[int, int, int]
"""One number for each of m, k, n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of memory, and the link of each worker's memory to the level above it.

    `workers`: how many there are for each worker of the level above, each with a memory of `size_bits` of its own.
    Bandwidths are bits/s of one worker's link, inf for no time at all: to load from above, to store to it, to add
    values to those above (a read and a write there, not to be disturbed by others), and to write zeros here.
    `startup`: seconds that every transfer of a block costs beside. `line_bits`: a transfer moves whole lines.
    `run_startup`: seconds for every run of consecutive addresses of the level above after the first one.
    """

    __repr__ = brief

    name: str
    size_bits: float
    workers: int
    load_bandwidth: float
    store_bandwidth: float
    accumulate_bandwidth: float
    zero_bandwidth: float
    startup: float
    line_bits: int
    run_startup: float

    @staticmethod
    def of(
        name: str,
        size_bits: float,
        load_bandwidth: float,
        *,
        workers: int = 1,
        store_bandwidth: float | None = None,
        accumulate_bandwidth: float | None = None,
        zero_bandwidth: float | None = None,
        startup: float = 0.0,
        line_bits: int = 1,
        run_startup: float = 0.0,
    ) -> Level:
        """A level with the usual defaults: stores as fast as loads, accumulation at half of that, zeros as loads."""
        store = load_bandwidth if store_bandwidth is None else store_bandwidth
        return Level(
            name=name,
            size_bits=size_bits,
            workers=workers,
            load_bandwidth=load_bandwidth,
            store_bandwidth=store,
            accumulate_bandwidth=store / 2 if accumulate_bandwidth is None else accumulate_bandwidth,
            zero_bandwidth=load_bandwidth if zero_bandwidth is None else zero_bandwidth,
            startup=startup,
            line_bits=line_bits,
            run_startup=run_startup,
        )

    def __post_init__(self) -> None:
        what = f"level {self.name!r}"
        problems = [
            *_positive(self.size_bits, f"{what}: size"),
            *whole(self.workers, f"{what}: workers"),
            *whole(self.line_bits, f"{what}: line"),
            *(p for name in BANDWIDTHS for p in _positive(getattr(self, name), f"{what}: {name}")),
            *(p for name in ("startup", "run_startup") for p in _seconds(getattr(self, name), f"{what}: {name}")),
        ]
        raise_all(problems)

    def rho(self, bits: int) -> float:
        """Seconds to load one value of so many bits from the level above."""
        return bits / self.load_bandwidth

    def sigma(self, bits: int) -> float:
        """Seconds to store one value to the level above."""
        return bits / self.store_bandwidth

    def phi(self, bits: int) -> float:
        """Seconds to accumulate one value into the level above."""
        return bits / self.accumulate_bandwidth

    def alpha(self, bits: int) -> float:
        """Seconds to write a zero here."""
        return bits / self.zero_bandwidth


BANDWIDTHS = ("load_bandwidth", "store_bandwidth", "accumulate_bandwidth", "zero_bandwidth")


@dataclass(frozen=True, slots=True)
class ComputeUnit:
    """The unit that multiplies blocks of the innermost memory; one for each worker there.

    `flops`: floating-point operations (two for a multiply-add) per second for each data type of A and B, by name.
    `pads`: a block is rounded up to the grain, what is missing computes for nothing. `efficiency`: for m, k and n steps
    (size, part of the peak) with rising sizes; a block gets the part of the last size that it reaches, and the product
    of the three.
    """

    __repr__ = brief

    flops: tuple[tuple[str, float], ...]
    name: str = "compute"
    pads: bool = False
    efficiency: tuple[tuple[tuple[int, float], ...], ...] = ((), (), ())

    @staticmethod
    def of(
        flops: Mapping[str, float],
        name: str = "compute",
        *,
        pads: bool = False,
        efficiency: Mapping[str, Mapping[int, float]] | None = None,
    ) -> ComputeUnit:
        """A compute unit from dictionaries: `ComputeUnit.of({"fp32": 1e11}, efficiency={"n": {1: 0.25, 16: 1}})`."""
        steps = dict(efficiency or {})
        unknown = [d for d in steps if d not in DIMENSIONS]
        raise_all([SpecError(f"efficiency of {d!r}", hint=did_you_mean(d, DIMENSIONS)) for d in unknown])
        tables = tuple(tuple(sorted(steps.get(d, {}).items())) for d in DIMENSIONS)
        return ComputeUnit(tuple(flops.items()), name, pads, tables)

    def __post_init__(self) -> None:
        problems: list[EinmapError] = []
        if not self.flops:
            problems.append(SpecError("compute: no data type has a rate", hint="flops: {fp32: 1e12}"))
        for name, rate in self.flops:
            if name not in DATA_TYPES:
                hint = did_you_mean(name, DATA_TYPES, listing="types")
                problems.append(SpecError(f"compute: no data type {name!r}", hint=hint))
            problems += _positive(rate, f"compute: flops of {name}")
        for dimension, steps in zip(DIMENSIONS, self.efficiency, strict=True):
            for size, part in steps:
                problems += whole(size, f"compute: a size of the efficiency of {dimension}")
                if not 0 < part <= 1:
                    text = f"compute: the efficiency of {dimension} is a part of the peak, in (0, 1], found {part:g}"
                    problems.append(SpecError(text))
        raise_all(problems)

    def seconds(self, size: Sizes, rate: float, grain: Sizes) -> float:
        """Seconds of one unit for a block of m x k x n multiply-adds at `rate` flop/s."""
        padded = tuple(-(-s // g) * g for s, g in zip(size, grain, strict=True)) if self.pads else size
        part = math.prod(_step(steps, s) for steps, s in zip(self.efficiency, size, strict=True))
        return 2 * math.prod(padded) / (rate * part)

    def seconds_of_many(self, sizes: NDArray[np.int64], rate: float, grain: Sizes) -> NDArray[np.float64]:
        """Seconds of products of several sizes, rows of m, k, n."""
        padded = -(-sizes // np.array(grain)) * np.array(grain) if self.pads else sizes
        seconds = 2 / rate * padded.astype(float).prod(axis=1)
        for dimension, steps in enumerate(self.efficiency):
            if steps:
                least, parts = np.array(steps).T
                reached = np.searchsorted(least, sizes[:, dimension], side="right") - 1
                seconds = seconds / parts[np.maximum(reached, 0)]
        return np.asarray(seconds)


def _step(steps: tuple[tuple[int, float], ...], size: int) -> float:
    """The part of the last step that `size` reaches; below the first one that of the first one."""
    reached = [part for least, part in steps if least <= size]
    return reached[-1] if reached else (steps[0][1] if steps else 1.0)


@dataclass(frozen=True, slots=True)
class Machine:
    """Memories from the outermost in; the main memory above them holds everything and has no limit.

    `grain`: no dimension of a block is smaller, for each of m, k, n; blocks are multiples of it, or all of the
    dimension. Raises SpecError for what cannot be a machine.
    """

    __repr__ = brief

    name: str
    levels: tuple[Level, ...]
    compute: ComputeUnit
    grain: Sizes = (1, 1, 1)
    main: str = "main"

    def __post_init__(self) -> None:
        problems: list[EinmapError] = []
        names = [self.main, *(level.name for level in self.levels), self.compute.name]
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            problems.append(SpecError(f"a machine has 1 to {MAX_LEVELS} levels, found {len(self.levels)}"))
        for name in names:
            if not _is_name(name):
                problems.append(SpecError(f"{name!r} is not a name", hint="letters, digits and _, a letter first"))
            elif names.count(name) > 1:
                problems.append(SpecError(f"two parts of the machine are called {name!r}"))
        problems += _grain(self.grain)
        raise_all(problems)

    def position(self, name: str) -> int:
        """Where a level stands in `levels`. Raises SpecError with the name that was probably meant."""
        names = [level.name for level in self.levels]
        if name not in names:
            raise SpecError(
                f"the machine {self.name!r} has no level {name!r}", hint=did_you_mean(name, names, listing="levels")
            )
        return names.index(name)

    def number(self, position: int) -> int:
        """The level's number as people count: compute is level 1, the innermost memory level 2."""
        return len(self.levels) + 1 - position

    def instances(self, position: int) -> int:
        """How many memories the level has in all."""
        return math.prod(level.workers for level in self.levels[: position + 1])

    def rate(self, dtype: str) -> float:
        """flop/s of one compute unit. Raises SpecError when it cannot compute with that type."""
        rates = dict(self.compute.flops)
        if dtype not in rates:
            text = f"the machine {self.name!r} gives no flops for {dtype}"
            raise SpecError(text, hint=did_you_mean(dtype, rates, listing="it has"))
        return rates[dtype]

    def peak(self, dtype: str) -> float:
        """flop/s of all compute units."""
        return self.rate(dtype) * self.instances(len(self.levels) - 1)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _grain(value: object) -> list[EinmapError]:
    if not isinstance(value, tuple) or len(value) != len(DIMENSIONS):
        return [SpecError(f"the grain has three numbers, for m, k and n, found {short(value)}")]
    return [p for d, g in zip(DIMENSIONS, value, strict=True) for p in whole(g, f"the grain of {d}")]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _positive(value: object, what: str) -> list[EinmapError]:
    if _number(value) and value > 0:  # type: ignore[operator]
        return []
    return [SpecError(f"{what} must be a number > 0, found {short(value)}")]


def _seconds(value: object, what: str) -> list[EinmapError]:
    if _number(value) and 0 <= value < math.inf:  # type: ignore[operator]
        return []
    return [SpecError(f"{what} must be seconds >= 0, found {short(value)}")]


def whole(value: object, what: str) -> list[EinmapError]:
    """Nothing, or the error that `what` is not a whole number above 0."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return []
    return [SpecError(f"{what} must be a whole number > 0, found {short(value)}")]
