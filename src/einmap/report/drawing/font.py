"""How wide text is, without asking a font: no box may be too small for its text, whatever font the reader has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FAMILY = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
GLUE = "\N{NO-BREAK SPACE}"
"""Keeps words on one line."""

# Advances of the characters from space to ~ in 1/1000 em: the larger one of Helvetica and DejaVu Sans.
_FIRST = 32
_REGULAR = (
    318, 401, 460, 838, 637, 951, 780, 275, 391, 391, 500, 838, 318, 361, 318, 337, 637, 637, 637, 637, 637,
    637, 637, 637, 637, 637, 337, 337, 838, 838, 838, 557, 1016, 685, 687, 723, 771, 667, 611, 778, 752, 295,
    500, 667, 558, 863, 749, 788, 667, 788, 723, 667, 611, 732, 685, 989, 686, 667, 686, 391, 337, 391, 838,
    557, 500, 613, 635, 550, 635, 616, 353, 635, 634, 278, 278, 580, 278, 975, 634, 612, 635, 635, 412, 521,
    393, 634, 592, 818, 592, 592, 525, 637, 337, 637, 838,
)  # fmt: skip
_BOLD = (
    349, 457, 521, 838, 696, 1002, 873, 307, 458, 458, 523, 838, 380, 416, 380, 366, 696, 696, 696, 696, 696,
    696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 611, 1000, 774, 763, 734, 831, 684, 684, 821, 837, 373,
    557, 775, 638, 996, 837, 851, 733, 851, 771, 721, 683, 813, 774, 1104, 771, 725, 726, 458, 366, 458, 838,
    557, 500, 675, 716, 593, 716, 679, 436, 716, 712, 343, 343, 666, 343, 1042, 712, 688, 716, 716, 494, 596,
    479, 712, 652, 924, 646, 652, 583, 712, 366, 712, 838,
)  # fmt: skip
_KNOWN = {GLUE: 349, "×": 838, "µ": 736, "·": 400, "²": 438}
_UNKNOWN = 1400
"""Any other character: as wide as the widest ideographs and symbols are drawn."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that `text` needs at most, in Helvetica, Arial, DejaVu Sans and narrower fonts."""
    advances = _BOLD if bold else _REGULAR
    total = 0
    for character in text:
        index = ord(character) - _FIRST
        total += advances[index] if 0 <= index < len(advances) else _KNOWN.get(character, _UNKNOWN)
    return total * size / 1000


def wrapped(parts: Iterable[str], width: float, size: float, *, bold: bool = False, joint: str = ", ") -> list[str]:
    """`parts` joined, in lines of at most `width` pixels; a part that is wider than a line is cut.

    >>> wrapped(["A", "B", "C"], 30, 12)
    ['A, B,', 'C']
    """
    lines: list[str] = []
    line = ""
    gap = joint[len(joint.rstrip()) :]
    texts = list(parts)
    for position, part in enumerate(texts):
        ended = part if position == len(texts) - 1 else part + joint.rstrip()
        first, *more = _cut(ended, width, size, bold)
        if line and text_width(f"{line}{gap}{first}", size, bold=bold) > width:
            lines.append(line)
            line = ""
        pieces = [f"{line}{gap}{first}" if line else first, *more]
        lines += pieces[:-1]
        line = pieces[-1]
    return [*lines, line] if line else lines


def words(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """A text in lines of at most `width` pixels, broken at blanks."""
    return wrapped(re.findall(r"[^ \t\n]+", text), width, size, bold=bold, joint=" ")


def _cut(part: str, width: float, size: float, bold: bool) -> Sequence[str]:
    if text_width(part, size, bold=bold) <= width:
        return (part,)
    cuts: list[str] = []
    piece = ""
    for character in part:
        if piece and text_width(piece + character, size, bold=bold) > width:
            cuts.append(piece)
            piece = ""
        piece += character
    return (*cuts, piece)
