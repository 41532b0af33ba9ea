"""Convolutions whose inputs stand apart: transposed ones, and gradients of those with strides.

Along an axis, output p is the sum of input i times kernel place r over all pairs with

    spread * i = stride * p + dilation * r - low

Outputs that are `period` apart use the same places of the kernel, on inputs that move on evenly: they are a *phase*.
Each phase is an Einsum without products with zeros from between the inputs, and one more takes turns; where the spread
divides the kernel, all phases are as long and are one Einsum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

import numpy as np

from einmap.frontends.cascade.scaled import Sums, contracted
from einmap.frontends.cascade.step import NotExpressible, Step
from einmap.frontends.cascade.uses import Use, Window
from einmap.frontends.cascade.values import Value, known, reshape

MOST_PHASES = 64
"""Einsums of one convolution."""
_OUT, _KERNEL, _WITHIN = ("p", "q", "o"), ("r", "s", "t"), ("u", "v", "w")


@dataclass(frozen=True, slots=True)
class Phase:
    """Kernel places `tap + step * r`, for r below `count`; their factors are the inputs `shift + apart * r`, for the
    first output.
    """

    tap: int
    step: int
    count: int
    shift: int
    apart: int


@dataclass(frozen=True, slots=True)
class Apart:
    """A convolution along one axis: sizes of input, kernel and output, and how they move, as the module says.

    A negative dilation is a kernel that is turned round.
    """

    size: int
    kernel: int
    out: int
    spread: int
    stride: int
    dilation: int
    low: int

    @property
    def period(self) -> int:
        """Phases: outputs that are so far apart use the same places of the kernel."""
        return min(self.spread // gcd(self.spread, self.stride), self.out)

    @property
    def is_by_input(self) -> bool:
        """Whether outputs and inputs are the indices, between which the kernel slides: where inputs are fewest."""
        summed = sum(phase.count for phase in map(self.phase, range(self.period)) if phase)
        return abs(self.dilation) == 1 and self.size * self.period < summed

    @property
    def is_joint(self) -> bool:
        """Whether one Einsum is all phases: they are as long, and begin at successive places of the kernel."""
        is_even = self.stride == 1 and abs(self.dilation) == 1 and self.kernel % self.spread == 0
        return self.spread > 1 and is_even and not self.is_by_input

    @property
    def width(self) -> int:
        """Outputs of a block, one of each phase."""
        return 1 if self.is_by_input else self.spread if self.is_joint else self.period

    @property
    def _begin(self) -> int:
        """The output at which joint phases have the first input and the first places of the kernel."""
        return self.low if self.dilation < 0 else self.low - self.spread + 1

    @property
    def cropped(self) -> int:
        """Outputs of the first block that are cut off: joint phases begin where the kernel does."""
        return -self._begin % self.spread if self.is_joint else 0

    @property
    def blocks(self) -> int:
        """Blocks of outputs."""
        return -(-(self.out + self.cropped) // self.width)

    def phase(self, u: int) -> Phase | None:
        """Terms that output u sums; None where no place of the kernel meets an input."""
        begin = self.stride * u - self.low
        taps = range(min(self.kernel, self.spread))
        first = next((k for k in taps if (begin + self.dilation * k) % self.spread == 0), None)
        if first is None:
            return None
        step = self.spread // gcd(self.spread, self.dilation)
        shift, apart = (begin + self.dilation * first) // self.spread, self.dilation * step // self.spread
        return Phase(first, step, len(range(first, self.kernel, step)), shift, apart)

    def uses(self, p: str, r: str, u: str, phase: Phase | None) -> tuple[Use, Use, list[str], dict[str, int]]:
        """How input and kernel are read, the labels of the output, and extents of labels; `phase`: if that alone is
        computed.
        """
        if phase is not None:
            ahead = self.stride // gcd(self.spread, self.stride)
            read = Window(((p, ahead), (r, phase.apart)), phase.shift)
            return read, r, [p], {p: self.blocks, r: phase.count}
        sign = self.dilation
        if self.is_by_input:
            taps = Window(((r, self.spread * sign), (p, -self.stride * sign)), self.low * sign)
            return r, taps, [p], {p: self.out, r: self.size}
        read = Window(((p, 1), (r, sign)), -self._begin // self.spread)
        taps = Window(((u, -sign), (r, self.spread)), self.spread - 1 if sign > 0 else 0)
        return read, taps, [p, u], {p: self.blocks, r: self.kernel // self.spread, u: self.spread}


def convolved_apart(
    step: Step,
    x: tuple[Value, Sequence[str]],
    w: tuple[Value, Sequence[str]],
    axes: Sequence[Apart],
    bits: int,
) -> Sums:
    """The sums of a convolution, with the axes n, g, m and those of the image.

    `x` and `w`: input and kernel with labels for their first axes, among which are n, g and m; those of the image
    follow. Raises NotExpressible for more than MOST_PHASES phases.
    """
    phased = [i for i, axis in enumerate(axes) if not (axis.is_by_input or axis.is_joint)]
    if (phases := prod(axes[i].period for i in phased)) > MOST_PHASES:
        raise NotExpressible(f"it has {phases:,} sums of different lengths, at most {MOST_PHASES} are written")
    sizes = {label: n for value, labels in (x, w) for label, n in zip(labels, value.shape, strict=False)}
    batch = [sizes[label] for label in "ngm"]
    every = [
        _phase(step, x, w, axes, dict(zip(phased, chosen, strict=True)), bits)
        for chosen in product(*(range(axes[i].period) for i in phased))
    ]
    some = next((each for each in every if each is not None), None)
    if some is None:
        return Sums(known(np.zeros((*batch, *(axis.out for axis in axes))), bits), None, bits)
    zeros = known(np.zeros((1,) * (3 + 2 * len(axes))), some.total.bits)
    values = [zeros if each is None else each.total for each in every]
    for i in reversed(phased):
        n = axes[i].period
        values = [_in_turns(step, values[at : at + n], 4 + 2 * i) for at in range(0, len(values), n)]
    y = step.reshape(values[0], (*batch, *(axis.blocks * axis.width for axis in axes)))
    for i, axis in enumerate(axes):
        y = step.take(y, 3 + i, axis.cropped, 1, axis.out)
    # no scale differs along the image: those that do are factors of each product
    scale = some.scale and reshape(some.scale, (*some.scale.shape[:3], *(1 for _ in axes)))
    return replace(some, total=y, scale=scale)


def _phase(
    step: Step,
    x: tuple[Value, Sequence[str]],
    w: tuple[Value, Sequence[str]],
    axes: Sequence[Apart],
    chosen: Mapping[int, int],
    bits: int,
) -> Sums | None:
    """The sums of the outputs that are the places `chosen` of their blocks along some axes, and all along others.

    Each axis of the result is one of blocks and one within a block, of one place where it is chosen. None for zeros.
    """
    (plain, first), (weights, second) = x, w
    sizes = {label: n for value, labels in (x, w) for label, n in zip(labels, value.shape, strict=False)}
    extents: dict[str, int] = {}
    read: list[Use] = [*first]
    taps: list[Use] = [*second]
    out, shape = ["n", "g", "m"], [sizes[label] for label in "ngm"]
    for i, (axis, p, r, u) in enumerate(zip(axes, _OUT, _KERNEL, _WITHIN, strict=False)):
        phase = axis.phase(chosen[i]) if i in chosen else None
        if phase is not None:
            weights = step.take(weights, len(second) + i, phase.tap, phase.step, phase.count)
        elif i in chosen:
            return None
        use, tap, labels, more = axis.uses(p, r, u, phase)
        read.append(use)
        taps.append(tap)
        out += labels
        extents |= more
        shape += [axis.blocks, 1 if i in chosen else axis.width]
    operands: list[tuple[Value, Sequence[Use]]] = [(plain, read), (weights, taps)]
    sums = contracted(step, f"{step.name}_sum", operands, out, bits, extents=extents, weight=1)
    return replace(sums, total=reshape(sums.total, shape))


def _in_turns(step: Step, values: Sequence[Value], place: int) -> Value:
    """Values that take turns along an axis, of which each has one index."""
    whole = values[-1]
    for u, value in enumerate(values[:-1]):
        turn = (np.arange(len(values)) == u).reshape([-1 if axis == place else 1 for axis in range(len(value.shape))])
        whole = step.pointwise("select(a, b, c)", known(turn.astype(np.float64), 8), value, whole, bits=value.bits)
    return whole
