"""Colours of a page: drawings name them as variables, which light and dark give their values."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.report.drawing.theme import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    HUES,
    LIGHT,
    ORANGE,
    PURPLE,
    SKY,
    TEAL,
    VERMILION,
    YELLOW,
    Paint,
    Theme,
    mixed,
)

SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BROWN, TEAL, YELLOW, "#7768c8", "#999933", GREY)
"""Colours of what a plot stacks or tells apart, in this order; the last one is for all the rest together."""


@dataclass(frozen=True, slots=True)
class Variables(Theme):
    """A theme whose colours are names: `var(--fill-0072b2)`."""

    def paint(self, hue: str | None) -> Paint:
        """The names of the colours of a shape of this hue."""
        if hue is None:
            return Paint(self.background, self.line)
        return Paint(f"var(--fill-{hue[1:]})", f"var(--edge-{hue[1:]})")


ON_PAGE = Variables("page", "var(--paper)", "var(--ink)", "var(--muted)", "var(--line)", 0.0, 0.0)
"""For drawings within a page."""


def values(theme: Theme) -> dict[str, str]:
    """The value of each name in a theme."""
    names = {"paper": theme.background, "ink": theme.text, "muted": theme.muted, "line": theme.line}
    names |= _OF_PAGE[theme.name]
    for hue in HUES:
        paint = theme.paint(hue)
        names |= {f"fill-{hue[1:]}": paint.fill, f"edge-{hue[1:]}": paint.stroke}
    return names | {f"series-{i}": _seen(colour, theme) for i, colour in enumerate(SERIES)}


def declarations(theme: Theme) -> str:
    """The values of all names as declarations of CSS."""
    return "".join(f"--{name}:{value};" for name, value in values(theme).items())


def _seen(colour: str, theme: Theme) -> str:
    """A colour of `SERIES` on the ground of a theme."""
    return colour if theme is LIGHT else mixed(colour, "#ffffff", 0.86)


_NAMES = ("ground", "rule", "accent", "bar", "good", "warning", "bad")
_OF_PAGE = {
    "light": dict(zip(_NAMES, ("#f6f7f9", "#dcdfe4", BLUE, "#bcd9ec", GREEN, ORANGE, "#c0392b"), strict=True)),
    "dark": dict(zip(_NAMES, ("#0d1014", "#333a43", SKY, "#245a7e", "#35b98f", ORANGE, "#f0705f"), strict=True)),
}
"""Colours that only pages have: the ground behind sections, rules, what is marked."""
