"""Commands: examples at the end of the help, and options whose order across their names matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer.core

from einmap.cli.completion import completes

_KEY = "einmap.order"
EXAMPLE = "Example:"
"""How the paragraphs begin that stand at the end of a help."""


class Command(typer.core.TyperCommand):
    """A command whose help ends with its examples and says no type of what takes no value. It remembers in which order
    its options were given, and takes no option twice of which it would use one value only.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        from rich.markup import escape  # here, since most starts show no help

        # lines of a docstring are broken where its source is, not where the terminal is
        paragraphs = [" ".join(text.split()) for text in (self.help or "").split("\n\n")]
        self.help = "\n\n".join(text for text in paragraphs if not text.startswith(EXAMPLE))
        self.epilog = "\n\n".join(escape(text) for text in paragraphs if text.startswith(EXAMPLE))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, and keep the names of the parameters, one for each use, in `ctx.meta`. A usage error where
        an option is repeated that has one value, and where the next option stands in place of a value.
        """
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_KEY] = [parameter.name for parameter in order]
        repeated: dict[Any, int] = Counter(order)
        for parameter, uses in repeated.items():
            if uses > 1 and _has_one_value(parameter):
                raise typer.BadParameter(f"it is given {uses} times; write it once", ctx=ctx, param=parameter)
        names = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        for parameter in repeated:
            for value in _texts(values.get(parameter.name)):
                if value.startswith("--") and value in names and value in args:
                    problem = f"a value is missing before '{value}', which is an option"
                    raise typer.BadParameter(problem, ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, the one for the help among them; what shells offer for their values belongs to them."""
        parameters = without_types(super().get_params(ctx))
        if ctx.resilient_parsing:  # a shell completes a line
            for parameter in parameters:
                parameter._custom_shell_complete = completes(parameter)
        return parameters


def without_types(parameters: list[Any]) -> list[Any]:
    """The parameters; those that take no value have no type in the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _has_one_value(parameter: Any) -> bool:
    """Whether a repeated use of an option could only replace the one before it by another value."""
    is_option = isinstance(parameter, typer.core.TyperOption) and not (parameter.multiple or parameter.count)
    return is_option and (not parameter.is_flag or bool(parameter.secondary_opts))


def _texts(value: Any) -> list[str]:
    """The texts among the values of one parameter, which may be one value or several."""
    return [text for text in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(text, str)]


def in_order(ctx: typer.Context, options: Mapping[str, Sequence[str] | None]) -> Iterator[tuple[str, str]]:
    """Name and value of every use of these repeatable options, in the order of the command line."""
    values = {name: iter(texts or ()) for name, texts in options.items()}
    for name in ctx.meta[_KEY]:
        if name in values:
            yield name, next(values[name])
