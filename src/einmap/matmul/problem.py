"""The problem: one matrix product, its data types, and the rules of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.matmul.machine.data_types import DataType, data_type
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS, Machine, Sizes, whole
from einmap.visible import brief, short

type Fit = Literal["all", "resident"]
type Accumulate = Literal["owned", "atomic"]
type Method = Literal["joint", "level by level"]

MAX_SIZE = 2**40


@dataclass(frozen=True, slots=True)
class Product:
    """`C <- A B + C` with `A: m x k`, `B: k x n`, `C: m x n`; `types` of A, B and C, everywhere on the machine."""

    __repr__ = brief

    size: Sizes
    types: tuple[DataType, DataType, DataType]

    @property
    def bits(self) -> Sizes:
        """Bits of a value of A, B and C."""
        a, b, c = self.types
        return a.bits, b.bits, c.bits

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each multiply-add."""
        return 2 * math.prod(self.size)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a plan counts.

    `fit`: what has to fit into a memory: `all` three blocks, or as in the article the `resident` one. `accumulate`:
    `owned`, workers add without others in the way where their blocks of C differ, or `atomic`, always with zeroed
    private blocks. `double_buffer`: transfers while computing, two copies of streamed blocks. `resident`: levels that
    hold a whole operand from before, by operand. `grain`: the least block. `candidates`: most block sizes of one
    dimension that are tried, None for all.
    """

    __repr__ = brief

    grain: Sizes
    fit: Fit = "all"
    accumulate: Accumulate = "owned"
    double_buffer: bool = False
    resident: tuple[tuple[str, str], ...] = ()
    candidates: int | None = None

    def home(self, tensor: str) -> str | None:
        """The level that holds the whole operand from before, or None."""
        return dict(self.resident).get(tensor)


def product_of(m: int, k: int, n: int, dtype: str, accumulator: str | None = None) -> Product:
    """A and B of `dtype`, C of `accumulator` (default the same). Raises SpecError for sizes and unknown types."""
    problems: list[EinmapError] = []
    for name, value in zip(DIMENSIONS, (m, k, n), strict=True):
        if whole(value, name) or value > MAX_SIZE:
            text = f"{name.upper()} must be a whole number from 1 to 2**40, found {short(value)}"
            problems.append(SpecError(text, hint="a matrix product has at least one row and one column"))
    types: list[DataType] = []
    for name, field in ((dtype, "dtype"), (dtype if accumulator is None else accumulator, "accumulator")):
        try:
            types.append(data_type(name, field))
        except SpecError as problem:
            if field == "dtype" or accumulator is not None:
                problems.append(problem)
    raise_all(problems)
    inputs, sums = types
    if sums.bits < inputs.bits:
        raise SpecError(f"accumulator: {sums.name} is narrower than {inputs.name}", hint="sums need at least as much")
    return Product((m, k, n), (inputs, inputs, sums))


def rules_of(
    machine: Machine,
    product: Product,
    *,
    fit: str = "all",
    accumulate: str = "owned",
    double_buffer: bool = False,
    resident: Mapping[str, str] | None = None,
    grain: Sizes | int | None = None,
    candidates: int | None = None,
) -> Rules:
    """The rules, checked against machine and product. Raises SpecError (several problems together)."""
    problems: list[EinmapError] = []
    for name, value, valid in (("fit", fit, ("all", "resident")), ("accumulate", accumulate, ("owned", "atomic"))):
        if value not in valid:
            problems.append(SpecError(f"{name}: no rule {value!r}", hint=did_you_mean(str(value), valid)))
    if candidates is not None and (whole(candidates, "candidates") or candidates < 2):
        problems.append(SpecError(f"candidates must be a whole number >= 2, found {short(candidates)}"))
    least = machine.grain if grain is None else (grain,) * 3 if isinstance(grain, int) else tuple(grain)
    problems += grain_problems(least, product)
    homes = dict(resident or {})
    problems += _home_problems(machine, homes)
    raise_all(problems)
    return Rules(
        (least[0], least[1], least[2]),
        "resident" if fit == "resident" else "all",
        "atomic" if accumulate == "atomic" else "owned",
        double_buffer,
        tuple((t, homes[t]) for t in TENSORS if t in homes),
        candidates,
    )


def grain_problems(grain: tuple[int, ...], product: Product) -> list[EinmapError]:
    """Grains that are not sizes, or larger than the dimension."""
    if len(grain) != len(DIMENSIONS) or any(whole(g, "grain") for g in grain):
        return [SpecError(f"the grain is one or three whole numbers > 0, for m, k and n, found {short(grain)}")]
    hint = "give --grain a smaller one, or pad the matrix"
    return [
        SpecError(f"the grain of {name} is {g}, larger than {name.upper()} = {size}", hint=hint)
        for name, g, size in zip(DIMENSIONS, grain, product.size, strict=True)
        if g > size
    ]


def _home_problems(machine: Machine, homes: Mapping[str, str]) -> list[EinmapError]:
    problems: list[EinmapError] = []
    for tensor, level in homes.items():
        if tensor not in TENSORS:
            hint = did_you_mean(str(tensor), TENSORS, listing="operands")
            problems.append(SpecError(f"resident: no operand {tensor!r}", hint=hint))
            continue
        try:
            position = machine.position(level)
        except SpecError as problem:
            problems.append(SpecError(f"resident {tensor}@{level}: {problem.message}", hint=problem.hint))
            continue
        if tensor == "C" and machine.instances(position) > 1:
            text = f"resident C@{level}: the result cannot be in {machine.instances(position)} private memories at once"
            problems.append(SpecError(text, hint="name a level with one worker"))
    return problems
