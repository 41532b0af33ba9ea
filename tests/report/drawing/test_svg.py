"""The text of an SVG file, its fonts and colours."""

from itertools import product
from pathlib import Path

import pytest

from einmap import loads
from einmap.errors import SpecError
from einmap.report.drawing.draw import draw
from einmap.report.drawing.font import text_width, words, wrapped
from einmap.report.drawing.theme import (
    DARK,
    GREEN,
    GREY,
    LIGHT,
    MEMORY_HUES,
    ORANGE,
    PURPLE,
    VERMILION,
    channels,
    theme_named,
)

SMALL = """
mapping:
  nodes:
  - !Storage {component: DRAM, tensors: [A, Z]}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Spatial {rank_variable: k, tile_shape: 1, component: PE, name: rows}
  - !Toll {component: Net, tensors: [A]}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Compute {einsum: Z, component: MAC}]}
    - !Nested {nodes: [!Compute {einsum: Y, component: MAC}]}
"""
GOLDEN = Path(__file__).parent / "small.svg"


def test_the_text_of_a_small_drawing():
    assert draw(loads(SMALL), title="small") == GOLDEN.read_text()


def brightness(colour):
    """Relative luminance (WCAG 2)."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


HUES = (None, *MEMORY_HUES, ORANGE, GREEN, PURPLE, VERMILION, GREY)


@pytest.mark.parametrize(("theme", "hue"), list(product((LIGHT, DARK), HUES)))
def test_text_is_readable_and_borders_are_visible(theme, hue):
    paint = theme.paint(hue)
    assert contrast(theme.text, paint.fill) >= 7
    assert contrast(theme.muted, paint.fill) >= 4.5
    assert contrast(paint.stroke, theme.background) >= 2


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_memory_has_its_own_colour_while_there_are_enough(theme):
    assert len({theme.paint(hue) for hue in MEMORY_HUES}) == len(MEMORY_HUES) == 8


@pytest.mark.parametrize(("bold", "name"), [(False, "DejaVuSans"), (True, "DejaVuSans-Bold")])
def test_no_text_is_wider_than_it_is_taken_for_in_a_wide_font(bold, name):
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(fname=Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")
    for text in ("for nA by 16,384", "GlobalBuffer 1×2048×4096", "QK_softmax", "WiMm[]{}|%@#&", "fillInTheIllusion"):
        drawn = TextPath((0, 0), text, size=100, prop=font).get_extents()
        assert drawn.width <= text_width(text, 100, bold=bold)


def test_lines_are_broken_between_names_and_inside_of_one_that_is_too_long():
    assert wrapped(["A", "B", "C"], 30, 12) == ["A, B,", "C"]
    assert wrapped([], 30, 12) == []
    lines = wrapped(["a" * 50], 60, 12)
    assert "".join(lines) == "a" * 50
    assert all(text_width(line, 12) <= 60 for line in lines)
    assert words("", 60, 12) == []


def test_other_themes_are_refused_with_the_one_that_was_meant():
    with pytest.raises(SpecError, match="not a theme") as error:
        theme_named("drak")
    assert "did you mean 'dark'" in str(error.value)
