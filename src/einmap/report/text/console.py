"""The console on which reports are laid out: the one place where what specifications say becomes output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from einmap.visible import visible


class SafeConsole(Console):
    """A console that shows text as it is: no markup, no emoji names, and nothing in it that steers a terminal."""

    def __init__(
        self, *, stderr: bool = False, file: IO[str] | None = None, width: int | None = None, plain: bool = False
    ) -> None:
        super().__init__(
            stderr=stderr,
            file=file,
            width=width,
            color_system=None if plain else "auto",
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Text made visible before it is laid out, so that its width is right."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of a renderable, made visible; what Rich itself says to the terminal is left alone."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or not text else Segment(visible(text), style)
