"""A topology of SCALE-Sim, `.csv`: one layer a line, a convolution or a product of M, N, K."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.files import read_text_file
from einmap.frontends.foreign import Report
from einmap.spec.names import RESERVED
from einmap.visible import short

MOST_LAYERS = 10_000
MOST = 2**40
_CONVOLUTION = ("input height", "input width", "kernel height", "kernel width", "channels", "filters", "stride")
_PRODUCT = ("M", "N", "K")
_DEPTH_WISE = "DP"


@dataclass(frozen=True, slots=True)
class Layer:
    """`filters` kernels of `height` x `width` over `channels`, at `outputs` places (rows, columns), `stride` apart.

    A product of M, N and K has M rows of places, N filters and K channels. `number`: from 1 on, `instances`: how often
    the layer is there.
    """

    name: str
    number: int
    filters: int
    channels: int
    height: int
    width: int
    outputs: tuple[int, int]
    stride: int
    instances: int
    at: At

    @property
    def product(self) -> dict[str, int]:
        """Sizes of the product that the array sees: m places, n filters, k values of a window."""
        places, window = self.outputs[0] * self.outputs[1], self.channels * self.height * self.width
        return {"m": places, "n": self.filters, "k": window}

    def variable(self, letter: str) -> str:
        """A rank variable of this layer alone."""
        return f"{letter}{self.number}"


def read_topology(path: Path, report: Report) -> tuple[Layer, ...]:
    """The layers of a file; its first line is a header. Raises SpecError with the line.

    Three numbers in a line are M, N and K, seven a convolution whose input has its padding; a ratio N:M of weights
    that are not zero may follow. A convolution with DP in its name is depth-wise.
    """
    lines = read_text_file(path).splitlines()
    layers: list[Layer] = []
    taken: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        cells = [cell.strip() for cell in line.split(",")]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            continue
        at = At(str(path), number)
        if len(layers) == MOST_LAYERS:
            raise SpecError(f"more than {MOST_LAYERS:,} layers", at=at)
        layers.append(_layer(cells, len(layers) + 1, at, taken, report))
    if not layers:
        raise SpecError("the topology has no layer", at=At(str(path), 1), hint="its first line is a header")
    return tuple(layers)


def _layer(cells: list[str], number: int, at: At, taken: set[str], report: Report) -> Layer:
    if ":" in cells[-1]:
        ratio = cells.pop()
        if not re.fullmatch(r"[1-9]\d{0,8}\s*:\s*[1-9]\d{0,8}", ratio, re.ASCII):
            raise SpecError(f"expected a ratio N:M, found {short(ratio)}", at=at)
        if len({part.strip() for part in ratio.split(":")}) > 1:
            report.leave(at, "sparsity", f"weights are counted as dense, not {ratio}")
    fields = _PRODUCT if len(cells) - 1 <= len(_PRODUCT) else _CONVOLUTION
    if len(cells) - 1 != len(fields):
        text = f"expected a name and {len(fields)} numbers ({', '.join(fields)}), found {len(cells) - 1} numbers"
        raise SpecError(text, at=at, hint="a product has M, N, K; both strides of a convolution are one number")
    sizes = [_size(cell, name, at) for cell, name in zip(cells[1:], fields, strict=True)]
    name = _name(cells[0], taken)
    if fields is _PRODUCT:
        m, n, k = sizes
        return Layer(name, number, n, k, 1, 1, (m, 1), 1, 1, at)
    ih, iw, height, width, channels, filters, stride = sizes
    if height > ih or width > iw:
        raise SpecError(f"the kernel, {height} x {width}, is larger than its input, {ih} x {iw}", at=at)
    outputs = -(-(ih - height) // stride) + 1, -(-(iw - width) // stride) + 1
    instances = 1
    if _DEPTH_WISE in cells[0]:
        channels, instances = 1, channels
    return Layer(name, number, filters, channels, height, width, outputs, stride, instances, at)


def _size(cell: str, name: str, at: At) -> int:
    if not re.fullmatch(r"\d{1,13}", cell, re.ASCII) or not 0 < int(cell) <= MOST:
        raise SpecError(f"expected an integer of at least 1, found {short(cell)}", at=At(at.file, at.line, path=name))
    return int(cell)


def _name(text: str, taken: set[str]) -> str:
    """A name for an Einsum: letters, digits and `_`, given once."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)[:60] or "layer"
    if name[0].isdigit():
        name = f"layer_{name}"
    base, number = name, 2
    while name in taken or name in RESERVED or name == "Total":
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
