"""Windows that slide over axes: where they stand, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einmap.frontends.cascade.uses import Use, Window


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows over spatial axes, one entry for each: sizes of input, kernel and output, steps, and zeros before."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def uses(self, out: Sequence[str], kernel: Sequence[str], *, cut: bool = False) -> list[Use]:
        """How the axes are read; one of a window with a single place is an axis like any other."""
        return [
            out[i]
            if (k, self.strides[i], self.before[i]) == (1, 1, 0) and self.out[i] == self.sizes[i]
            else Window(((out[i], self.strides[i]), (kernel[i], self.dilations[i])), -self.before[i], cut)
            for i, k in enumerate(self.kernel)
        ]

    def extents(self, out: Sequence[str], kernel: Sequence[str]) -> dict[str, int]:
        """The extents of the labels of outputs and kernel."""
        return {**dict(zip(out, self.out, strict=False)), **dict(zip(kernel, self.kernel, strict=False))}

    @property
    def has_padding(self) -> bool:
        """Whether a window reaches out of the input."""
        return any(
            self.before[i] or self.strides[i] * (n - 1) + self.dilations[i] * (self.kernel[i] - 1) >= self.sizes[i]
            for i, n in enumerate(self.out)
        )
