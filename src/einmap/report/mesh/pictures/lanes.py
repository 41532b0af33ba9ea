"""When each step runs: a lane for Einsums and one for each axis of the mesh.

Steps that are too short to be seen are drawn together with their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from einmap.distribute.costs.cost import COMPUTE
from einmap.distribute.placements.mesh import Mesh
from einmap.report.drawing.shapes import Box, Line
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import BLUE, GREEN, GREY, LIGHT, ORANGE, PURPLE, SKY, TEAL, VERMILION, YELLOW, Theme
from einmap.report.mesh.pictures.canvas import MARGIN, Canvas
from einmap.report.mesh.steps import ShownStep
from einmap.units import format_bytes, format_si

WIDTH, HEIGHT, BETWEEN = 960.0, 30.0, 12.0
"""Of the time axis; of a lane; between lanes."""
NARROW = 2.0
"""Pixels below which a step is drawn together with its neighbours in the lane."""
TICKS = 6
MANY, ENLARGED = 80, 40
"""Steps that take time of which the first are shown enlarged, and how many these are."""
HUES = {
    "compute": BLUE, "all-gather": ORANGE, "reduce-scatter": GREEN, "all-reduce": VERMILION, "all-to-all": PURPLE,
    "permute": TEAL, "shift": YELLOW, "turns": SKY, "several steps": GREY,
}  # fmt: skip
"""Meaning of the colours."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """Steps of one lane that are drawn as one box."""

    steps: tuple[ShownStep, ...]

    @property
    def start(self) -> float:
        return self.steps[0].start

    @property
    def end(self) -> float:
        return self.steps[-1].end


def kind_of(step: ShownStep) -> str:
    """Kind of a step, which has a colour."""
    if step.kind == "move":
        return step.name.split(" ", 1)[0]
    return "turns" if step.kind == "turns" else "compute"


def lanes_of(mesh: Mesh) -> tuple[str, ...]:
    """All lanes, that of Einsums first."""
    return (COMPUTE, *(f"axis {name}" for name, size in mesh.axes if size > 1))


def lanes_svg(
    mesh: Mesh, steps: Sequence[ShownStep], *, title: str = "When each step runs", theme: Theme = LIGHT
) -> str:
    """The picture as SVG text."""
    canvas = Canvas(theme)
    whole = max((step.end for step in steps), default=0.0)
    lanes = lanes_of(mesh)
    y = canvas.wrapped(title, MARGIN, MARGIN - 4, WIDTH, Line("", 16, bold=True))
    y = canvas.wrapped(_in_short(steps, whole), MARGIN, y, WIDTH, Line("", 12, muted=True))
    y = _legend(canvas, steps, y + 8) + 10
    y = _lanes(canvas, lanes, steps, whole, y)
    timed = sorted((step for step in steps if step.lanes and step.end > step.start), key=lambda one: one.start)
    if len(timed) > MANY:
        first = timed[:ENLARGED]
        y = canvas.text(Line(f"the first {len(first)} steps, enlarged", 12, muted=True), MARGIN, y + 26) + 8
        _lanes(canvas, lanes, first, max(step.end for step in first), y)
    return to_svg(canvas.picture(title, _in_short(steps, whole)))


def _lanes(canvas: Canvas, lanes: Sequence[str], steps: Sequence[ShownStep], whole: float, y: float) -> float:
    """All lanes from time 0 to `whole`, with their axis; gives where they end."""
    left = MARGIN + max(Line(lane, 12).width for lane in lanes) + 12
    scale = WIDTH / whole if whole else 0.0
    for lane in lanes:
        line = Line(lane, 12)
        canvas.text(line, left - 12 - line.width, y + (HEIGHT - line.height) / 2)
        canvas.line(((left, y + HEIGHT), (left + WIDTH, y + HEIGHT)))
        for bar in _bars([step for step in steps if lane in step.lanes], NARROW / scale if scale else math.inf):
            _bar(canvas, bar, Box(left + bar.start * scale, y, max((bar.end - bar.start) * scale, 1.0), HEIGHT))
        y += HEIGHT + BETWEEN
    _axis(canvas, left, y, whole)
    return y + 24


def _in_short(steps: Sequence[ShownStep], whole: float) -> str:
    busy = sum(step.end - step.start for step in steps if COMPUTE in step.lanes)
    moving = sum(step.end - step.start for step in steps if COMPUTE not in step.lanes)
    return (
        f"{format_si(whole, 's')} where steps run as soon as they may: {format_si(busy, 's')} of computing, "
        f"{format_si(moving, 's')} of moves; a double border: on the critical path"
    )


def _bars(steps: Sequence[ShownStep], least: float) -> Iterator[_Bar]:
    """Steps of a lane by their start; neighbours of less than `least` seconds together."""
    waiting: list[ShownStep] = []
    for step in sorted(steps, key=lambda one: (one.start, one.position)):
        if step.end <= step.start:
            continue
        short = step.end - step.start < least
        if waiting and not (short and step.start - waiting[-1].end < least and step.end - waiting[0].start < 4 * least):
            yield _Bar(tuple(waiting))
            waiting = []
        if short:
            waiting.append(step)
        else:
            yield _Bar((step,))
    if waiting:
        yield _Bar(tuple(waiting))


def _bar(canvas: Canvas, bar: _Bar, box: Box) -> None:
    one = bar.steps[0]
    if len(bar.steps) > 1:
        span = f"{format_si(bar.start, 's')} to {format_si(bar.end, 's')}"
        canvas.box(box, HUES["several steps"], tip=f"{len(bar.steps)} steps, {span}")
        return
    label = next(
        (line for line in (Line(one.name, 10), Line(_last(one.name), 10)) if line.width + 6 <= box.width), None
    )
    span = f"{format_si(one.start, 's')} to {format_si(one.end, 's')}"
    sent = f", each PE sends {format_bytes(one.sent)}" if one.sent else ""
    critical = ", on the critical path" if one.is_critical else ""
    tip = f"step {one.position + 1}: {one.title}, {span}{sent}{critical}"
    canvas.box(
        box, HUES[kind_of(one)], label, tip=tip, kind="double box" if one.is_critical and box.width > 8 else "box"
    )


def _last(name: str) -> str:
    return name.rsplit(" ", 1)[-1]


def _legend(canvas: Canvas, steps: Sequence[ShownStep], y: float) -> float:
    used = {kind_of(step) for step in steps if step.end > step.start} | {"several steps"}
    x = MARGIN
    for kind, hue in HUES.items():
        if kind in used:
            line = Line(kind, 11)
            canvas.box(Box(x, y, 22, 14), hue)
            canvas.text(line, x + 28, y - 1)
            x += 28 + line.width + 18
    return y + 18


def _axis(canvas: Canvas, left: float, y: float, whole: float) -> None:
    """Ticks at round times below the lanes."""
    step = _round_step(whole / TICKS) if whole else 0.0
    count = int(whole / step + 1e-9) if step else 0
    for tick in range(count + 1):
        x = left + (tick * step / whole * WIDTH if whole else 0.0)
        canvas.line(((x, y), (x, y + 5)))
        line = Line(format_si(float(f"{tick * step:.6g}"), "s"), 10, muted=True)
        canvas.text(line, x - line.width / 2, y + 7)


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
