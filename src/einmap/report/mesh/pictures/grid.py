"""A mesh as a grid of PEs: which block of a tensor each PE holds.

The last axis of the mesh goes from left to right, the one before it downwards, all others are grids side by side. Of a
long axis the first PEs and the last one are drawn, and a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import held
from einmap.distribute.plans.plan import Buffer
from einmap.report.drawing.shapes import Box, Line
from einmap.report.drawing.theme import BLUE, BROWN, GREEN, GREY, INDIGO, ORANGE, PURPLE, SKY, TEAL, VERMILION, YELLOW
from einmap.report.mesh.pictures.canvas import Canvas

BLOCK_HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, TEAL, YELLOW, INDIGO, BROWN)
"""Colours of blocks, in the order in which they are drawn; they repeat."""
WHOLE_HUE = GREY
MOST = {1: 8, 2: 6}
"""PEs along an axis that are drawn, by axes of the mesh; of more axes FEW, and as many grids."""
FEW = 4
CELL_HEIGHT, GAP, APART = 18.0, 3.0, 22.0
LABEL, NAME = 9.0, 10.0
"""Sizes of text: in cells, and of axes."""
LEFT, TOP = 16.0, 16.0
"""Room for the names of axes."""

type Shown = tuple[int | None, ...]
"""Positions along an axis; None: a gap."""


@dataclass(frozen=True)
class Grid:
    """A buffer on a mesh. `moving`: axes along which it is on the move, which have arrows."""

    mesh: Mesh
    buffer: Buffer
    moving: tuple[AxisName, ...] = ()

    @cached_property
    def axes(self) -> tuple[tuple[AxisName, int], ...]:
        """Axes with more than one PE, slowest first."""
        return tuple((name, size) for name, size in self.mesh.axes if size > 1)

    @cached_property
    def columns(self) -> Shown:
        """Positions along the last axis."""
        return self._shown(self.axes[-1:])

    @cached_property
    def rows(self) -> Shown:
        """Positions along the axis before it."""
        return self._shown(self.axes[-2:-1])

    @cached_property
    def groups(self) -> Shown:
        """Positions along all other axes together."""
        return self._shown(self.axes[:-2])

    def _shown(self, axes: Sequence[tuple[AxisName, int]]) -> Shown:
        count, most = math.prod(size for _, size in axes), MOST.get(len(self.axes), FEW)
        return tuple(range(count)) if count <= most else (*range(most - 2), None, count - 1)

    def device(self, group: int, row: int, column: int) -> int:
        """The PE at these positions."""
        counts = [size for _, size in self.axes[-2:]]
        rows, columns = (1, 1, *counts)[-2:]
        return (group * rows + row) * columns + column

    @cached_property
    def _hues(self) -> dict[tuple[int, ...], str]:
        keys = dict.fromkeys(
            self.block_of(self.device(group, row, column))
            for group, row, column in product(self.groups, self.rows, self.columns)
            if group is not None and row is not None and column is not None
        )
        return {key: BLOCK_HUES[number % len(BLOCK_HUES)] for number, key in enumerate(keys)}

    def block_of(self, device: int) -> tuple[int, ...]:
        """The number of the block that a PE holds, one for each split rank."""
        return tuple(self.mesh.position(device, split.axes) for split in self.buffer.placement.splits)

    def _is_empty(self, device: int) -> bool:
        sizes, splits = dict(self.buffer.sizes), self.buffer.placement.splits
        return any(not len(held(sizes[split.rank], split, self.mesh, device)) for split in splits)

    @cached_property
    def cell_width(self) -> float:
        """Of every cell, wide enough for all labels."""
        widest = [",".join(str(self.mesh.parts(split.axes) - 1) for split in self.buffer.placement.splits)]
        return max(24.0, *(Line(text, LABEL).width + 8 for text in widest))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, names of axes included."""
        group = self._group_width * len(self.groups) - APART
        above = TOP if self.axes else 0.0
        labels = TOP if len(self.axes) > 2 else 0.0
        return LEFT * (len(self.axes) > 1) + group, above + labels + self._group_height

    @property
    def _group_width(self) -> float:
        return len(self.columns) * (self.cell_width + GAP) - GAP + APART

    @property
    def _group_height(self) -> float:
        return len(self.rows) * (CELL_HEIGHT + GAP) - GAP

    def middle(self, y: float) -> float:
        """Half way down the cells of a grid that begins at `y`."""
        return y + self.size[1] - self._group_height / 2

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it with its upper left corner at x, y."""
        left = x + LEFT * (len(self.axes) > 1)
        top = y + self.size[1] - self._group_height
        self._names(canvas, left, top, y)
        for number, group in enumerate(self.groups):
            start = left + number * self._group_width
            if group is None:
                canvas.text(Line("...", NAME, muted=True), start + self._group_width / 2 - 12, self.middle(y) - 8)
                continue
            for i, row in enumerate(self.rows):
                for j, column in enumerate(self.columns):
                    cell = Box(
                        start + j * (self.cell_width + GAP), top + i * (CELL_HEIGHT + GAP), self.cell_width, CELL_HEIGHT
                    )
                    if row is None or column is None:
                        dots = Line("...", LABEL, muted=True)
                        canvas.text(dots, cell.middle - dots.width / 2, cell.y + 2)
                    else:
                        self._cell(canvas, cell, self.device(group, row, column))

    def _cell(self, canvas: Canvas, cell: Box, device: int) -> None:
        placement, block = self.buffer.placement, self.block_of(device)
        coordinates = ", ".join(f"{axis}={at}" for axis, at in self.mesh.coordinates(device).items())
        tip = f"PE {device} ({coordinates}): {self._held(device)}"
        if self._is_empty(device):
            canvas.box(cell, None, Line("-", LABEL, muted=True), tip=tip)
            return
        label = Line(",".join(map(str, block)), LABEL) if block else None
        hue = self._hues[block] if block else WHOLE_HUE
        canvas.box(cell, hue, label, tip=tip, kind="double box" if placement.partial else "box")

    def _held(self, device: int) -> str:
        sizes, said = dict(self.buffer.sizes), []
        for split in self.buffer.placement.splits:
            span = held(sizes[split.rank], split, self.mesh, device)
            said.append(f"{split.rank} {span.start:,} to {span.stop - 1:,}" if len(span) else "nothing")
        partial = self.buffer.placement.partial
        said += [f"an addend over {', '.join(partial)}"] if partial else []
        return ", ".join(said) or "all of it"

    def _names(self, canvas: Canvas, left: float, top: float, y: float) -> None:
        """The axes beside the cells, those along which something moves with arrows."""
        names = [name for name, _ in self.axes]
        if names:
            width = self._group_width - APART
            self._name(canvas, (names[-1],), Box(left, top - TOP, width, TOP))
        if len(names) > 1:
            line = Line(names[-2], NAME, bold=names[-2] in self.moving, muted=names[-2] not in self.moving)
            x = left - LEFT + 5
            if names[-2] in self.moving:
                canvas.line(((x, top), (x, top + self._group_height)), ends=True, start=True)
                canvas.text(line, x - line.width / 2, top - line.height)
            else:
                canvas.text(line, x - line.width / 2, top + self._group_height / 2 - line.height / 2)
        if len(names) > 2:
            self._name(canvas, names[:-2], Box(left, y, self.size[0] - LEFT, TOP))

    def _name(self, canvas: Canvas, names: Sequence[AxisName], room: Box) -> None:
        """The name of an axis above its PEs, with an arrow to the right of it where it moves."""
        moves = any(name in self.moving for name in names)
        line = Line(", ".join(names), NAME, bold=moves, muted=not moves)
        if not moves:
            canvas.text(line, room.middle - line.width / 2, room.y)
            return
        canvas.text(line, room.x, room.y)
        start = room.x + line.width + 4
        canvas.line(((start, room.y + 8), (max(room.right, start + 14), room.y + 8)), ends=True, start=True)
