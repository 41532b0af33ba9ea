"""What is wrong with a picture, found from its geometry alone."""

import math
from itertools import combinations, pairwise

from einmap.report.drawing.shapes import CAP, SLANT, Box, Picture, Placed

TOUCH = 0.02


def problems(picture: Picture) -> list[str]:
    """Overlaps, texts that stick out, edges that join nothing or cross a shape, anything outside of the page."""
    return [
        *_overlaps(picture),
        *(f"text of {_name(p)} sticks out" for p in picture.shapes if not _text_fits(p)),
        *_loose_edges(picture),
        *_crossed_shapes(picture),
        *_outside(picture),
    ]


def _name(placed: Placed) -> str:
    return f"{placed.shape.kind} {placed.shape.lines[0].text if placed.shape.lines else ''!r}"


def _boxes(picture: Picture) -> list[tuple[str, Box]]:
    found = [(_name(placed), placed.box) for placed in (*picture.shapes, *picture.samples)]
    return found + [(t.line.text, Box(t.x, t.y, t.line.width, t.line.size * 1.2)) for t in picture.texts]


def _overlaps(picture: Picture) -> list[str]:
    boxes = sorted(_boxes(picture), key=lambda item: item[1].y)
    found = []
    for index, (name, box) in enumerate(boxes):
        for other, below in boxes[index + 1 :]:
            if below.y >= box.bottom - TOUCH:
                break
            if below.x < box.right - TOUCH and box.x < below.right - TOUCH:
                found.append(f"{name} overlaps {other}")
    return found


def _text_fits(placed: Placed) -> bool:
    y = placed.box.y + placed.shape.text_top
    for line in placed.shape.lines:
        for x in (placed.box.middle - line.width / 2, placed.box.middle + line.width / 2):
            for edge in (y + 0.2 * line.size, y + 1.2 * line.size):
                if not inside(placed, x, edge):
                    return False
        y += line.height
    return True


def inside(placed: Placed, x: float, y: float) -> bool:
    box = placed.box
    if not (box.x <= x <= box.right and box.y <= y <= box.bottom):
        return False
    u, v = abs(x - box.middle) / (box.width / 2), abs(y - box.y - box.height / 2) / (box.height / 2)
    arc = CAP * math.sqrt(1 - u * u)
    radius = box.height / 2
    match placed.shape.kind:
        case "ellipse":
            return u * u + v * v <= 1
        case "cylinder":
            return box.y + CAP + arc <= y <= box.bottom - CAP + arc
        case "hexagon":
            return u * box.width / 2 + v * SLANT <= box.width / 2
        case "pill" | "disc":
            return math.hypot(max(0.0, u * box.width / 2 - (box.width / 2 - radius)), v * radius) <= radius
        case _:
            return True


def _loose_edges(picture: Picture) -> list[str]:
    found = []
    for edge in picture.edges:
        source, target = picture.shapes[edge.source], picture.shapes[edge.target]
        (x, y), (end_x, end_y) = edge.points[0], edge.points[-1]
        straight = all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(edge.points))
        down = all(a[1] <= b[1] for a, b in pairwise(edge.points))
        starts = abs(y - source.box.bottom) < TOUCH and x == source.box.middle
        # just below its end the edge is inside of the shape, just above it is not
        ends = inside(target, end_x, end_y + 0.1) and not inside(target, end_x, end_y - 0.1)
        if target.shape.kind == "cylinder":
            ends = abs(end_y - target.box.y) < TOUCH and end_x == target.box.middle
        if not (straight and down and starts and ends):
            found.append(f"the edge {_name(source)} -> {_name(target)} is loose")
    return found


def _crossed_shapes(picture: Picture) -> list[str]:
    found = []
    for edge in picture.edges:
        for (x, y), (to_x, to_y) in pairwise(edge.points):
            left, right = sorted((x, to_x))
            for index, placed in enumerate(picture.shapes):
                box = placed.box
                apart = right <= box.x or left >= box.right or to_y <= box.y or y >= box.bottom
                if not apart and index not in (edge.source, edge.target):
                    found.append(f"an edge crosses {_name(placed)}")
    return found


def _outside(picture: Picture) -> list[str]:
    boxes = _boxes(picture)
    return [
        f"{name} is outside of the page"
        for name, box in boxes
        if box.x < 0 or box.y < 0 or box.right > picture.width or box.bottom > picture.height
    ]


def shared_lines(picture: Picture) -> list[tuple[int, int]]:
    """Pairs of sources whose edges run along the same line, so that the eye cannot tell them apart."""
    parts = [(edge.source, a, b) for edge in picture.edges for a, b in pairwise(edge.points)]
    found = set()
    for (source, a, b), (other, c, d) in combinations(parts, 2):
        if source == other:
            continue
        upright = a[0] == b[0] and c[0] == d[0] and abs(a[0] - c[0]) < 2
        level = a[1] == b[1] and c[1] == d[1] and abs(a[1] - c[1]) < 2
        along = 1 if upright else 0
        start, end = max(min(a[along], b[along]), min(c[along], d[along])), None
        end = min(max(a[along], b[along]), max(c[along], d[along]))
        if (upright or level) and start < end - 1:
            found.add((source, other))
    return sorted(found)


def crossings(picture: Picture) -> set[tuple[int, float, float]]:
    """Where a horizontal part of an edge crosses a vertical one of another source: source of the former, x, y."""
    parts = [(edge.source, a, b) for edge in picture.edges for a, b in pairwise(edge.points)]
    return {
        (source, c[0], a[1])
        for source, a, b in parts
        for other, c, d in parts
        if source != other and a[1] == b[1] and c[0] == d[0]
        and min(a[0], b[0]) < c[0] < max(a[0], b[0]) and min(c[1], d[1]) < a[1] < max(c[1], d[1])
    }  # fmt: skip


def touches(picture: Picture) -> set[tuple[int, int]]:
    """Pairs of sources: a corner or an end of an edge of the first lies on a line of the second."""
    parts = [(edge.source, a, b) for edge in picture.edges for a, b in pairwise(edge.points)]
    return {
        (edge.source, other)
        for edge in picture.edges
        for x, y in edge.points
        for other, a, b in parts
        if other != edge.source
        and min(a[0], b[0]) - 2 < x < max(a[0], b[0]) + 2 and min(a[1], b[1]) - 2 < y < max(a[1], b[1]) + 2
    }  # fmt: skip
