"""Who holds what, and what moves when: the steps of a plan one below the other.

A step stands with what it reads on the left of its arrow, and with what it writes on the right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.plans.plan import Buffer
from einmap.einsum.einsum import TensorName
from einmap.report.drawing.font import words
from einmap.report.drawing.shapes import Box, Line
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import BLUE, LIGHT, Theme
from einmap.report.mesh.pictures.canvas import MARGIN, Canvas
from einmap.report.mesh.pictures.grid import CELL_HEIGHT, WHOLE_HUE, Grid
from einmap.report.mesh.steps import ShownStep
from einmap.units import format_bytes, format_si

MOST_STEPS = 60
"""Steps that are drawn; of more the first ones, and the last LAST of them."""
LAST = 10
CAPTION, SPACE, ARROW = 165.0, 22.0, 46.0
"""Widest text below a grid; between grids; length of the arrow from what is read to what is written."""
WIDTH = 900.0
"""Of the texts above."""
_BOLD, _PLAIN, _SMALL = Line("", 12, bold=True), Line("", 11, muted=True), Line("", 10, muted=True)


def holders_svg(
    mesh: Mesh,
    steps: Sequence[ShownStep],
    bits: Mapping[TensorName, float],
    *,
    title: str = "Who holds what, and what moves when",
    theme: Theme = LIGHT,
) -> str:
    """The picture as SVG text. `bits`: of a value of each tensor."""
    canvas = Canvas(theme)
    y = canvas.wrapped(title, MARGIN, MARGIN - 4, WIDTH, Line("", 16, bold=True))
    pes = f"mesh {mesh}: {mesh.n_devices:,} PE{'' if mesh.n_devices == 1 else 's'}, {len(steps):,} steps"
    y = canvas.wrapped(pes, MARGIN, y, WIDTH, Line("", 12, muted=True))
    y = _legend(canvas, y + 8)
    for step in _drawn(steps):
        y += 12
        if step is None:
            text = f"... {len(steps) - MOST_STEPS:,} more steps ..."
            y = canvas.wrapped(text, MARGIN, y, WIDTH, _PLAIN)
        else:
            y = _step(canvas, mesh, step, bits, y)
    moves = sum(step.kind == "move" for step in steps)
    what = f"The {len(steps):,} steps of a plan, {moves:,} of which move something between PEs."
    return to_svg(canvas.picture(title, what))


def _drawn(steps: Sequence[ShownStep]) -> Sequence[ShownStep | None]:
    if len(steps) <= MOST_STEPS:
        return steps
    return [*steps[: MOST_STEPS - LAST], None, *steps[-LAST:]]


def _legend(canvas: Canvas, y: float) -> float:
    x = MARGIN
    entries = (
        (BLUE, Line("2", 9), "box", "block 2 of the tensor: equal numbers, equal blocks"),
        (WHOLE_HUE, None, "box", "all of it"),
        (BLUE, Line("2", 9), "double box", "an addend: only the sum over PEs gives the block"),
        (None, Line("-", 9, muted=True), "box", "nothing: the tensor does not reach this PE"),
    )
    for hue, label, kind, text in entries:
        canvas.box(Box(x, y, 24, CELL_HEIGHT), hue, label, kind="double box" if kind == "double box" else "box")
        line = Line(text, 11)
        canvas.text(line, x + 30, y + 1)
        x += 30 + line.width + SPACE
        if x > WIDTH - 200:
            x, y = MARGIN, y + CELL_HEIGHT + 6
    line = Line("along the arrows PEs exchange what they hold", 11)
    canvas.line(((x, y + 9), (x + 24, y + 9)), ends=True, start=True)
    canvas.text(line, x + 30, y + 1)
    return y + CELL_HEIGHT + 4


def _step(canvas: Canvas, mesh: Mesh, step: ShownStep, bits: Mapping[TensorName, float], y: float) -> float:
    """One step from `y` on; gives where it ends."""
    number = Line(f"{step.position + 1}", 12, bold=True)
    canvas.text(number, MARGIN, y)
    x = MARGIN + 34
    y = canvas.wrapped(step.title, x, y, WIDTH, _BOLD)
    y = canvas.wrapped(figures(mesh, step), x, y, WIDTH, _PLAIN) + 4
    before = [Grid(mesh, buffer, step.axes) for buffer in step.reads]
    after = [Grid(mesh, buffer) for buffer in step.writes]
    height = max((grid.size[1] for grid in (*before, *after)), default=0.0)
    ends = [y + height]
    for grid in before:
        x, end = _grid(canvas, grid, bits, x, y + height - grid.size[1])
        ends.append(end)
    middle = y + height - min((grid.size[1] - (grid.middle(0.0)) for grid in (*before, *after)), default=0.0)
    canvas.line(((x - SPACE + 6, middle), (x - SPACE + 6 + ARROW, middle)), ends=True)
    x += ARROW
    for grid in after:
        x, end = _grid(canvas, grid, bits, x, y + height - grid.size[1])
        ends.append(end)
    return max(ends)


def _grid(canvas: Canvas, grid: Grid, bits: Mapping[TensorName, float], x: float, y: float) -> tuple[float, float]:
    """One grid with its caption; gives where the next one begins, and where the caption ends."""
    grid.draw(canvas, x, y)
    buffer = grid.buffer
    room = max(grid.size[0], CAPTION)
    said = [(buffer.tensor, Line("", 11, bold=True)), (str(buffer.placement), _SMALL), (_amount(buffer, bits), _SMALL)]
    width, bottom = grid.size[0], y + grid.size[1] + 3
    for text, like in said:
        lines = words(text, room, like.size, bold=like.bold)
        width = max([width, *(Line(part, like.size, like.bold).width for part in lines)])
        bottom = canvas.wrapped(text, x, bottom, room, like)
    return x + width + SPACE, bottom


def _amount(buffer: Buffer, bits: Mapping[TensorName, float]) -> str:
    shape = " x ".join(f"{size:,}" for size in buffer.shape) or "1 value"
    return f"{shape}, {format_bytes(math.prod(buffer.shape) * bits[buffer.tensor] / 8)}"


def figures(mesh: Mesh, step: ShownStep) -> str:
    """How long a step takes, what it sends, and among how many PEs."""
    said = [format_si(step.end - step.start, "s")] if step.end > step.start else []
    if step.sent:
        groups = mesh.groups(step.axes)
        said += [f"each PE sends {format_bytes(step.sent)}", f"{groups.count:,} x {groups.size:,} PEs"]
    said.append(f"each PE holds {format_bytes(step.held)}")
    return ", ".join(said)
