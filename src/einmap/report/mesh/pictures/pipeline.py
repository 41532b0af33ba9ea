"""The timeline of a pipeline: a row for each device, a box for each action, bubbles in a colour of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from einmap.distribute.pipelines.schedule import Kind, Step
from einmap.distribute.pipelines.timeline import Timeline
from einmap.report.drawing.shapes import Box, Line
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import BLUE, LIGHT, ORANGE, PURPLE, TEAL, YELLOW, Theme
from einmap.report.mesh.pictures.canvas import MARGIN, Canvas
from einmap.report.text.formatting import percent
from einmap.units import format_si

WIDTH, HEIGHT, BETWEEN = 1200.0, 24.0, 6.0
"""Of the time axis; of a row; between rows, in pixels."""
HUES: dict[Kind, str] = {"F": BLUE, "I": TEAL, "W": PURPLE, "B": ORANGE}
WORDS: dict[Kind, str] = {
    "F": "forward", "I": "backward for inputs", "W": "backward for weights", "B": "whole backward pass"
}  # fmt: skip
BUBBLE = YELLOW
TICKS = 6


def _activations(most: float) -> str:
    return f"{most:g} activations"


def pipeline_svg(timeline: Timeline, *, theme: Theme = LIGHT, held: Callable[[float], str] = _activations) -> str:
    """The picture as SVG text. Numbers are those of micro-batches; a prime: the second stage of a device.

    `held`: what a device holds at most, in words.
    """
    canvas, schedule, whole = Canvas(theme), timeline.schedule, timeline.makespan
    title = schedule.name or "schedule of a pipeline"
    said = f"{format_si(whole, 's')}, bubble {percent(timeline.bubble)}, at most {held(max(timeline.peaks))} held"
    y = canvas.wrapped(title, MARGIN, MARGIN - 4, WIDTH, Line("", 16, bold=True))
    y = canvas.wrapped(said, MARGIN, y, WIDTH, Line("", 12, muted=True))
    y = _legend(canvas, timeline, y + 8) + 10
    left = MARGIN + Line(f"device {schedule.devices - 1}", 12).width + 12
    scale = WIDTH / whole if whole else 0.0
    for device, steps in enumerate(schedule.steps):
        canvas.text(Line(f"device {device}", 12), MARGIN, y + 4)
        for begin, end in gaps(timeline, device):
            tip = f"bubble of device {device}, {format_si(end - begin, 's')}"
            canvas.box(Box(left + begin * scale, y, (end - begin) * scale, HEIGHT), BUBBLE, tip=tip)
        for step in steps:
            _step(canvas, timeline, step, Box(left, y, scale, HEIGHT))
        y += HEIGHT + BETWEEN
    for tick in range(TICKS + 1):
        line = Line(format_si(whole * tick / TICKS, "s"), 11, muted=True)
        canvas.text(line, left + WIDTH * tick / TICKS - line.width / 2, y + 2)
    return to_svg(canvas.picture(title, said))


def _step(canvas: Canvas, timeline: Timeline, step: Step, row: Box) -> None:
    """A step; actions that overlap are drawn one above the other. `row.width`: pixels of a second."""
    height, device_of = row.height / len(step), timeline.schedule.device_of
    for place, action in enumerate(step):
        begin, end = timeline.begins[action], timeline.ends[action]
        box = Box(row.x + begin * row.width, row.y + place * height, (end - begin) * row.width, height)
        stages = [stage for stage, at in enumerate(device_of) if at == device_of[action.stage]]
        label = Line(f"{action.micro_batch}" + "'" * stages.index(action.stage), 10)
        fits = label.width + 2 <= box.width and label.height <= box.height
        tip = (
            f"{action}: {WORDS[action.kind]} of micro-batch {action.micro_batch} in stage {action.stage}, "
            f"{format_si(begin, 's')} to {format_si(end, 's')}"
        )
        canvas.box(box, HUES[action.kind], label if fits else None, tip=tip)


def gaps(timeline: Timeline, device: int) -> Iterator[tuple[float, float]]:
    """When a device is idle."""
    time = 0.0
    for step in timeline.schedule.steps[device]:
        if timeline.begins[step[0]] > time:
            yield time, timeline.begins[step[0]]
        time = timeline.ends[step[0]]
    if timeline.makespan > time:
        yield time, timeline.makespan


def _legend(canvas: Canvas, timeline: Timeline, y: float) -> float:
    kinds = {action.kind for action in timeline.schedule.actions()}
    x = MARGIN
    for text, hue in [*((WORDS[kind], HUES[kind]) for kind in HUES if kind in kinds), ("bubble", BUBBLE)]:
        canvas.box(Box(x, y + 2, 12, 12), hue)
        line = Line(text, 12)
        canvas.text(line, x + 18, y)
        x += line.width + 40
    return y + 18
