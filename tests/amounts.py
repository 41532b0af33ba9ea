"""How much a random test draws: a few problems always, many of them in the slow tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest


def few_and_many(
    names: str, few: Sequence[Any], many: Sequence[Any], *, parts: int = 1, part: str = "mapper"
) -> pytest.MarkDecorator:
    """Give a test the values `few`, and as slow tests the values `many`; `names`: of the arguments, the seeds first."""
    return pytest.mark.parametrize(names, amounts(few, many, parts=parts, part=part))


def amounts(
    few: Sequence[Any], many: Sequence[Any], *, parts: int = 1, part: str = "mapper", of: str | None = None
) -> list[Any]:
    """Values of arguments, the seeds first: `few`, and marked slow `many`, whose seeds are divided into `parts`.

    `part`: of the slow tests, as pyproject.toml lists them; `of`: what stands before the seeds.
    """
    before, name = ((), "") if of is None else ((of,), f"{of} ")
    seeds, *others = many
    size, marks = len(seeds) // parts, [pytest.mark.slow, getattr(pytest.mark, part)]
    ends = [*range(0, size * parts, size), len(seeds)]
    divided = [(*before, seeds[first:end], *others) for first, end in pairwise(ends)]
    slow = [pytest.param(*values, marks=marks, id=f"{name}many {i}") for i, values in enumerate(divided)]
    return [pytest.param(*before, *few, id=f"{name}few"), *slow]


def some(step: int, values: Iterable[Any], part: str = "mapper", *, each: bool = False) -> list[Any]:
    """Values of one argument: each `step`-th always, the others in the slow tests of `part`.

    `each`: a value is a tuple, of one value for each of several arguments.
    """
    marks = [pytest.mark.slow, getattr(pytest.mark, part)]
    rows = [value if each else (value,) for value in values]
    return [pytest.param(*row, marks=[] if i % step == 0 else marks) for i, row in enumerate(rows)]
