"""Options whose order across their names matters: `--split K=8 --delay K1 --split M=4`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer.core

_KEY = "einmap.order"


class OrderedCommand(typer.core.TyperCommand):
    """A command that remembers in which order its options were given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, and keep the names of the parameters, one for each use, in `ctx.meta`."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_KEY] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def in_order(ctx: typer.Context, options: Mapping[str, Sequence[str] | None]) -> Iterator[tuple[str, str]]:
    """Name and value of every use of these repeatable options, in the order of the command line."""
    values = {name: iter(texts or ()) for name, texts in options.items()}
    for name in ctx.meta[_KEY]:
        if name in values:
            yield name, next(values[name])
