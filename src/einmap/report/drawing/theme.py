"""Colours: hues of Okabe and Ito and of Tol, which colour-blind readers tell apart, as tints behind the text."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import SpecError, did_you_mean

BLUE, ORANGE, GREEN, SKY, YELLOW = "#0072b2", "#e69f00", "#009e73", "#56b4e9", "#f0e442"
PURPLE, VERMILION, GREY = "#cc79a7", "#d55e00", "#808080"
INDIGO, BROWN, TEAL = "#332288", "#8c510a", "#44aa99"
MEMORY_HUES = (BLUE, ORANGE, GREEN, YELLOW, INDIGO, BROWN, SKY, TEAL)
HUES = (BLUE, ORANGE, GREEN, SKY, YELLOW, PURPLE, VERMILION, GREY, INDIGO, BROWN, TEAL)
"""Every hue that a drawing has."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours of one shape."""

    fill: str
    stroke: str


@dataclass(frozen=True, slots=True)
class Theme:
    """`tint`: how much of a hue is in a fill, `edge`: in a border; the rest of a border is the text's colour."""

    name: str
    background: str
    text: str
    muted: str
    line: str
    tint: float
    edge: float

    def paint(self, hue: str | None) -> Paint:
        """The colours of a shape of this hue; None is for plain shapes."""
        if hue is None:
            return Paint(self.background, self.line)
        return Paint(mixed(hue, self.background, self.tint), mixed(hue, self.text, self.edge))


LIGHT = Theme("light", "#ffffff", "#1a1a1a", "#474747", "#4d4d4d", 0.22, 0.7)
DARK = Theme("dark", "#14181d", "#f2f2f2", "#c8ccd0", "#a8b0b8", 0.28, 0.8)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_named(name: str) -> Theme:
    """`light` or `dark`. Raises SpecError for other names."""
    if name not in THEMES:
        raise SpecError(f"{name!r} is not a theme", hint=did_you_mean(name, THEMES, listing="themes"))
    return THEMES[name]


def memory_hues(names: tuple[str, ...]) -> dict[str, str]:
    """A hue for each memory, in the order given; they repeat when there are more memories than hues."""
    return {name: MEMORY_HUES[index % len(MEMORY_HUES)] for index, name in enumerate(dict.fromkeys(names))}


def mixed(colour: str, other: str, part: float) -> str:
    """`part` of `colour`, the rest of `other`."""
    pairs = zip(channels(colour), channels(other), strict=True)
    return "#" + "".join(f"{round(part * a + (1 - part) * b):02x}" for a, b in pairs)


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
